"""Schedules on held-out locks: accuracy and tokens, beside what voting makes of the same messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pacore.seeds import derive_random, derive_seed
from pacore.training.miniature import locks
from pacore.training.miniature.locks import LockProblem
from pacore.training.miniature.thinking import Thought, majority, think
from pacore.training.network import Network


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule came to over the problems.

    ``accuracy`` of the answer, with ``error``, its standard error over problems; ``tokens`` generated a
    problem; ``emergent`` is the accuracy where every message before the last round was wrong, over
    ``all_wrong`` problems; ``majority`` the accuracy of the last messages' vote; ``mentions`` a trajectory
    of the last round.
    """

    schedule: str
    accuracy: float
    error: float
    tokens: float
    problems: int
    mentions: float
    majority: float | None = None
    emergent: float | None = None
    all_wrong: int = 0
    harm: float | None = None
    right: tuple[bool, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a schedule is run: ``widths`` as in ``[32, 4]``, the last round of one not among them."""

    widths: tuple[int, ...]
    compact: Literal["conclusion", "none"] = "conclusion"

    @property
    def name(self) -> str:
        """The schedule as it is written."""
        listed = (
            ",".join(map(str, self.widths))
            if len(set(self.widths)) > 1 or len(self.widths) < 5
            else (f"{self.widths[0]}×{len(self.widths)}")
        )
        return f"[{listed}]" + (" without compaction" if self.compact == "none" else "")


def evaluate(
    model: Network,
    problems: Sequence[LockProblem],
    run: Run,
    *,
    first: Sequence[Sequence[Thought]] | None = None,
    seed: int = 0,
) -> Score:
    """Run a schedule on every problem, the model in every round.

    ``first`` are cached trajectories of each problem; the first round draws from them without replacement
    what it needs.
    """
    read: list[list[Thought]] = [[] for _ in problems]
    tokens = [0] * len(problems)
    for number, width in enumerate((*run.widths, 1), start=1):
        if number == 1 and first is not None:
            read = [
                derive_random("first", seed, place).sample(list(cached), width)
                for place, cached in enumerate(first)
            ]
        else:
            before = read
            prompts = [
                locks.prompt_tokens(problem, references(thoughts, run, seed=seed, key=(number, place)))
                for place, (problem, thoughts) in enumerate(zip(problems, before, strict=True))
            ]
            read = think(model, prompts, width, seed=derive_seed("round", seed, run.name, number))
        if number <= len(run.widths):
            last = read
        for place, thoughts in enumerate(read):
            tokens[place] += sum(len(thought.tokens) for thought in thoughts)
    messages = last if run.widths else None
    return _score(run.name, problems, [thoughts[0] for thoughts in read], messages, tokens, seed=seed)


def vote(
    problems: Sequence[LockProblem], first: Sequence[Sequence[Thought]], width: int, *, seed: int = 0
) -> Score:
    """Self-consistency: the majority of ``width`` cached trajectories, ties broken at random."""
    answers, tokens = [], []
    for place, cached in enumerate(first):
        draw = derive_random("vote", seed, width, place)
        chosen = draw.sample(list(cached), width)
        answers.append(Thought((), majority([thought.code for thought in chosen], draw)))
        tokens.append(sum(len(thought.tokens) for thought in chosen))
    return _score(f"majority of {width}", problems, answers, None, tokens, seed=seed)


def references(thoughts: Sequence[Thought], run: Run, *, seed: int, key: tuple[int, ...]) -> list[str]:
    """The messages that the next round reads, in random order."""
    usable = [thought for thought in thoughts if thought.message is not None]
    derive_random("order", seed, *key).shuffle(usable)
    if run.compact == "none":
        return [thought.text for thought in usable]
    return [thought.message for thought in usable if thought.message is not None]


def _score(
    name: str,
    problems: Sequence[LockProblem],
    answers: Sequence[Thought],
    messages: Sequence[Sequence[Thought]] | None,
    tokens: Sequence[int],
    *,
    seed: int,
) -> Score:
    right = [answer.code == problem.code for answer, problem in zip(answers, problems, strict=True)]
    accuracy, error = mean_error(right)
    score = Score(
        schedule=name,
        accuracy=accuracy,
        error=error,
        tokens=sum(tokens) / len(tokens),
        problems=len(problems),
        mentions=sum(answer.mentions for answer in answers) / len(answers),
        right=tuple(right),
    )
    if messages is None:
        return score
    votes, wrong = [], []
    for place, (problem, thoughts) in enumerate(zip(problems, messages, strict=True)):
        codes = [thought.code for thought in thoughts]
        votes.append(majority(codes, derive_random("majority", seed, place)) == problem.code)
        wrong.append(problem.code not in codes)
    emergent = [hit for hit, every in zip(right, wrong, strict=True) if every]
    return msgspec.structs.replace(
        score,
        majority=mean_error(votes)[0],
        emergent=mean_error(emergent)[0] if emergent else None,
        all_wrong=len(emergent),
        harm=sum(v and not r for v, r in zip(votes, right, strict=True)) / len(right),
    )


def mean_error(hits: Sequence[bool]) -> tuple[float, float]:
    """The mean of hits and its standard error."""
    mean = sum(hits) / len(hits)
    return mean, math.sqrt(mean * (1 - mean) / max(1, len(hits) - 1))
