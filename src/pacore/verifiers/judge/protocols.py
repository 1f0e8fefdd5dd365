"""What a judge is shown, what it returns, and what counts as passing: one protocol a benchmark.

The words, in ``templates``, are ours, the substance each protocol's own; ``with_words`` takes a
benchmark's original words. The response stands between two marks that it cannot know.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import jinja2
import jinja2.meta
import msgspec
from msgspec import Struct

from pacore.errors import ConfigError, ProblemError
from pacore.types import Problem, SamplingParams
from pacore.verifiers.math.extract import extract_answer

_PLACES = {"response", "mark"}


class JudgeProtocol(Struct, frozen=True, kw_only=True):
    """How one kind of question is put to a judge.

    ``sees``: the extracted final answer only, the whole conclusion after the thinking, or (of what no
    model under judgment wrote) the text as it is; up to ``longest`` characters. ``properties`` are the
    JSON fields it returns, of which ``verdict_field`` is one of ``choices``; the first choice passes,
    unless ``passes`` reads from the truth which one does. ``words`` replace the packaged template.
    """

    name: str
    words: str | None = None
    sees: Literal["answer", "response", "text"]
    properties: Mapping[str, Any]
    verdict_field: str
    choices: tuple[str, str] = ("yes", "no")
    truth: Callable[[Problem], str]
    passes: Callable[[Problem], str] | None = None
    longest: int = 2000
    sampling: SamplingParams = SamplingParams(temperature=0.0)

    @property
    def schema(self) -> dict[str, Any]:
        """The ``response_format`` that asks for the fields."""
        fields = {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.properties),
            "additionalProperties": False,
        }
        return {
            "type": "json_schema",
            "json_schema": {"name": "judgment", "strict": True, "schema": fields},
        }

    def shown(self, text: str) -> tuple[str | None, str]:
        """What of ``text`` the judge would see, or ``None`` and why there is nothing to see."""
        shown: str | None = text.strip()
        why = "unclosed_thinking"
        if self.sees == "answer":
            shown, why = extract_answer(text)
        elif self.sees == "response":
            _, closed, conclusion = text.rpartition("</think>")
            shown = conclusion.strip() if closed or "<think>" not in text else None
        if shown is None:
            return None, why
        if not any(char.isalnum() for char in shown):
            return None, "no_answer"
        return shown, ""

    def prompt(self, problem: Problem, shown: str, mark: str) -> str:
        """The question put to the judge."""
        if self.words is None:
            template = _templates().get_template(f"{self.name}.jinja")
        else:
            template = _templates().from_string(self.words)
        return template.render(
            question=_question(problem), truth=self.truth(problem), response=shown, mark=mark
        )


def with_words(protocol: JudgeProtocol, path: Path) -> JudgeProtocol:
    """The protocol in other words, such as a benchmark's own: a Jinja template that has at least
    ``{{ response }}`` between two ``{{ mark }}``. Raises ConfigError where it has not.
    """
    words = path.read_text()
    try:
        places = jinja2.meta.find_undeclared_variables(_templates().parse(words))
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(f"{path}: no Jinja template: {error}") from error
    if missing := sorted(_PLACES - places):
        raise ConfigError(f"{path}: has no {{{{ {missing[0]} }}}}; the judge would see nothing to judge")
    return msgspec.structs.replace(protocol, words=words)


@functools.cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("pacore.verifiers.judge"), undefined=jinja2.StrictUndefined
    )


def _question(problem: Problem) -> str:
    """The problem's text; of a chat with several turns, all of them by role."""
    texts = [(message["role"], _text(message.get("content"))) for message in problem.messages]
    if len(texts) == 1:
        return texts[0][1]
    return "\n\n".join(f"[{role}]\n{text}" for role, text in texts)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _gold(problem: Problem) -> str:
    truth = problem.ground_truth
    if isinstance(truth, Mapping):
        truth = truth.get("answer")
    if truth is None or isinstance(truth, (dict, list)) or not str(truth).strip():
        raise ProblemError(
            f"problem {problem.id!r}: no reference answer for a judge: {problem.ground_truth!r:.80}"
        )
    return str(truth)


def _target_question(problem: Problem) -> str:
    return _rubric(problem, "target_question")


def _pass_criteria(problem: Problem) -> str:
    wanted = _rubric(problem, "pass_criteria").strip().upper()
    if wanted not in ("YES", "NO"):
        raise ProblemError(f"problem {problem.id!r}: pass_criteria is YES or NO, not {wanted!r:.40}")
    return wanted


def _rubric(problem: Problem, key: str) -> str:
    truth = problem.ground_truth
    found = truth.get(key, truth.get(key.upper())) if isinstance(truth, Mapping) else None
    if not isinstance(found, str) or not found.strip():
        raise ProblemError(f"problem {problem.id!r}: its ground_truth has no {key}: {truth!r:.80}")
    return found


_YES_NO = {"type": "string", "enum": ["yes", "no"]}

CONSISTENCY = JudgeProtocol(
    name="consistency",
    sees="answer",
    properties={"reasoning": {"type": "string"}, "agrees": _YES_NO},
    verdict_field="agrees",
    truth=_gold,
)
"""Whether a final answer agrees with the truth: the reward of tasks that no rule verifies (paper)."""

HLE = JudgeProtocol(
    name="hle",
    sees="response",
    properties={
        "extracted_final_answer": {"type": "string"},
        "reasoning": {"type": "string"},
        "correct": _YES_NO,
        "confidence": {"type": "integer"},
    },
    verdict_field="correct",
    truth=_gold,
    longest=40_000,
)
"""Humanity's Last Exam: sees question, response and answer; returns these four fields."""

MULTICHALLENGE = JudgeProtocol(
    name="multichallenge",
    sees="response",
    properties={"reasoning": {"type": "string"}, "verdict": {"type": "string", "enum": ["YES", "NO"]}},
    verdict_field="verdict",
    choices=("YES", "NO"),
    truth=_target_question,
    passes=_pass_criteria,
    longest=40_000,
)
"""MultiChallenge: sees the response and its target question, not the conversation. NO may be what passes."""

VALIDITY = JudgeProtocol(
    name="validity",
    sees="text",
    properties={"reasoning": {"type": "string"}, "usable": _YES_NO},
    verdict_field="usable",
    truth=lambda problem: "",
    sampling=SamplingParams(temperature=1.0),
)
"""Data curation: whether a question and its answer are fit for training (paper: 4 of 4 passes)."""

PROTOCOLS: Mapping[str, JudgeProtocol] = {
    protocol.name: protocol for protocol in (CONSISTENCY, HLE, MULTICHALLENGE, VALIDITY)
}
