"""The directory of an evaluation as it might have been, for what reads one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pacore.data.files import write_records
from pacore.data.record import Record
from pacore.data.truths import MathTruth
from pacore.evals.directory import DESCRIPTION, PROBLEMS, RESULTS, VOTES
from pacore.evals.methods import parse_methods
from pacore.evals.outcome import Outcome, Synthesis
from pacore.evals.votes import PoolVotes
from pacore.seeds import derive_random

METHODS = "single,low,medium,high,sequential,no-compaction,self-consistency@16"
CHANCES = {"single": 0.4, "low": 0.5, "medium": 0.6, "high": 0.7, "sequential": 0.45, "no-compaction": 0.4}


def write_evaluation(
    path: Path,
    *,
    problems: int = 40,
    runs: int = 4,
    pool: int = 64,
    label: str = "model",
    step: int | None = None,
    benchmark: str = "made_up",
) -> Path:
    """The directory of an evaluation whose methods are right at the rates of CHANCES."""
    path.mkdir(parents=True)
    draw = derive_random("report", label, step or 0, benchmark)
    records = [
        Record(
            id=f"p{n}",
            messages=({"role": "user", "content": f"question {n}"},),
            truth=MathTruth(answer="1"),
            extra={"axis": "even" if n % 2 == 0 else "odd"},
        )
        for n in range(problems)
    ]
    write_records(path / PROBLEMS, records)
    settings: dict[str, Any] = {
        "benchmark": {"name": benchmark, "title": f"Made up <{benchmark}>"},
        "label": label,
        "step": step,
        "model default": "m",
        **{f"method {m.name}": msgspec.to_builtins(m) for m in parse_methods(METHODS)},
    }
    (path / DESCRIPTION).write_bytes(msgspec.json.encode({"settings": settings, "created_at": 1.0}))
    shifts = [draw.uniform(-0.3, 0.3) for _ in range(problems)]
    with (path / RESULTS).open("wb") as lines:
        for method, chance in CHANCES.items():
            calls = {"single": 1, "low": 5, "medium": 17, "high": 37}.get(method, 8)
            for n in range(problems):
                for run in range(runs):
                    reward = float(draw.random() < chance + shifts[n])
                    read = Synthesis(
                        round=2,
                        index=0,
                        read=4,
                        right=draw.randrange(3),
                        majority=0.0,
                        reward=reward,
                        cross_checks=2,
                    )
                    outcome = Outcome(
                        method=method,
                        problem=f"p{n}",
                        run=run,
                        status="complete",
                        verdict="correct" if reward else "incorrect",
                        reward=reward,
                        ttc_tokens=calls * 1000,
                        prompt_tokens=100,
                        calls=calls,
                        critical_s=draw.random() * 60,
                        usd=calls * 0.001,
                        synthesis=() if method == "single" else (read,),
                        answer="a|b <script>alert(1)</script> \\boxed{1}",
                    )
                    lines.write(msgspec.json.encode(outcome) + b"\n")
    votes = [
        PoolVotes(
            problem=f"p{n}",
            classes=[draw.choice([-1, 0, 0, 1, 2, 3]) for _ in range(pool)],
            rewards=[float(draw.random() < 0.4) for _ in range(pool)],
            unverifiable=[False] * pool,
            truncated=[False] * pool,
            tokens=[1000] * pool,
            prompt_tokens=[20] * pool,
            seconds=[1.0] * pool,
        )
        for n in range(problems)
    ]
    (path / VOTES).write_bytes(msgspec.json.Encoder().encode_lines(votes))
    return path
