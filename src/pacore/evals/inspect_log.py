"""Results as logs of Inspect (https://inspect.aisi.org.uk/eval-logs.html): one ``.eval`` file a method."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacore.data.files import RecordFile
from pacore.data.record import Record
from pacore.data.truths import truth_text
from pacore.errors import JournalError, MissingExtraError
from pacore.evals.directory import DESCRIPTION, PROBLEMS, read_outcomes, read_settings
from pacore.evals.outcome import Outcome
from pacore.evals.statistics import estimate
from pacore.evals.summary import model_name
from pacore.traces.directory import read_description

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import ChatMessage

SCORER = "pacore_verifier"


def write_inspect_logs(evaluation: Path, out: Path) -> list[Path]:
    """Write a log a method into ``out``; the paths. A problem is a sample, a run an epoch.

    Raises MissingExtraError without inspect-ai, JournalError where ``evaluation`` holds no result.
    """
    try:
        from inspect_ai.log import write_eval_log
    except ImportError as error:
        raise MissingExtraError("logs of Inspect", "inspect") from error
    settings = read_settings(evaluation)
    created = datetime.fromtimestamp(read_description(evaluation / DESCRIPTION)["created_at"], UTC)
    records = {record.id: record for record in RecordFile(evaluation / PROBLEMS, dialect="pacore")}
    by_method: dict[str, list[Outcome]] = {}
    for outcome in read_outcomes(evaluation):
        by_method.setdefault(outcome.method, []).append(outcome)
    if not by_method:
        raise JournalError(f"{evaluation} holds no result yet")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for method, outcomes in by_method.items():
        log = _log(method, outcomes, records, settings, created)
        name = re.sub(r"[^A-Za-z0-9._@-]+", "-", f"{log.eval.task}_{method}").strip("-")
        path = out / f"{created:%Y-%m-%dT%H-%M-%S}_{name}.eval"
        write_eval_log(log, str(path))
        written.append(path)
    return written


def _log(
    method: str,
    outcomes: Sequence[Outcome],
    records: Mapping[str, Record],
    settings: Mapping[str, Any],
    created: datetime,
) -> EvalLog:
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalPlan, EvalPlanStep, EvalSpec, EvalStats

    benchmark = settings.get("benchmark", {})
    model = model_name(settings)
    when = created.isoformat(timespec="seconds")
    runs = 1 + max(outcome.run for outcome in outcomes)
    spec = EvalSpec(
        created=when,
        task=benchmark.get("name", "pacore"),
        task_display_name=f"{benchmark.get('title', 'pacore')}: {method}",
        dataset=EvalDataset(
            name=benchmark.get("name"),
            location=str(settings.get("benchmark", {}).get("hub") or ""),
            samples=len(records),
            sample_ids=list(records),
        ),
        model=model,
        solver=f"pacore {method}",
        config=EvalConfig(epochs=runs),
        packages={"pacore": settings.get("pacore", "")},
        metadata={"settings": dict(settings)},
    )
    return EvalLog(
        status="success",
        eval=spec,
        plan=EvalPlan(steps=[EvalPlanStep(solver=f"pacore {method}")]),
        results=_results(outcomes, records, runs),
        stats=EvalStats(started_at=when, completed_at=when),
        samples=[_sample(outcome, records[outcome.problem], model) for outcome in outcomes],
    )


def _results(outcomes: Sequence[Outcome], records: Mapping[str, Record], runs: int) -> Any:
    import numpy as np
    from inspect_ai.log import EvalMetric, EvalResults, EvalScore

    place = {name: row for row, name in enumerate(records)}
    scores = np.full((len(records), runs), np.nan)
    for outcome in outcomes:
        scores[place[outcome.problem], outcome.run] = outcome.reward
    found = estimate(scores)
    metrics = {
        "accuracy": EvalMetric(name="accuracy", value=found.mean),
        "stderr": EvalMetric(name="stderr", value=found.se),
    }
    return EvalResults(
        total_samples=len(outcomes),
        completed_samples=len(outcomes),
        scores=[EvalScore(name=SCORER, scorer=SCORER, scored_samples=len(outcomes), metrics=metrics)],
    )


def _sample(outcome: Outcome, record: Record, model: str) -> EvalSample:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, ModelOutput, ModelUsage
    from inspect_ai.scorer import Score

    answer = outcome.answer or ""
    messages = [_message(message) for message in record.messages]
    reply = ChatMessageAssistant(content=answer, source="generate", model=model)
    usage = ModelUsage(
        input_tokens=outcome.prompt_tokens,
        output_tokens=outcome.ttc_tokens,
        total_tokens=outcome.prompt_tokens + outcome.ttc_tokens,
        input_tokens_cache_read=outcome.cached_tokens,
    )
    output = ModelOutput(model=model, choices=[ChatCompletionChoice(message=reply)], usage=usage)
    value = "N" if outcome.verdict == "unverifiable" else outcome.reward
    score = Score(value=value, answer=answer, explanation=f"{outcome.verdict}: {outcome.reason}")
    return EvalSample(
        id=record.id,
        epoch=outcome.run + 1,
        input=list(messages),
        target=truth_text(record.truth),
        messages=[*messages, reply],
        output=output,
        scores={SCORER: score},
        metadata={
            "status": outcome.status,
            "calls": outcome.calls,
            "truncated": outcome.truncated,
            "agreement": outcome.agreement,
        },
        model_usage={model: usage},
        total_time=outcome.wall_s,
        working_time=outcome.critical_s,
    )


def _message(message: Mapping[str, Any]) -> ChatMessage:
    """A chat message as Inspect has it; of parts, the text."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser

    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text") or f"[{part.get('type')}]" for part in content)
    kinds: dict[str, Any] = {
        "system": ChatMessageSystem,
        "developer": ChatMessageSystem,
        "assistant": ChatMessageAssistant,
        "tool": ChatMessageTool,
        "function": ChatMessageTool,
    }
    made: ChatMessage = kinds.get(message["role"], ChatMessageUser)(content=content or "")
    return made
