"""What a trajectory reads: the problem, with the messages of the round before in its last message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import jinja2

from pacore.problems import task_index
from pacore.types import ChatMessage, Problem

SELECT_PROMPT = (
    "Below are a problem and {count} candidate responses to it, numbered from 1 to {count}. Examine how "
    "each candidate reaches its result, look for mistakes, and decide which one answers the problem best.\n"
    "\n"
    "Problem:\n"
    "{problem}\n"
    "\n"
    "{candidates}\n"
    "End with one line of the form\n"
    "Best: N\n"
    "where N is the number of the chosen candidate."
)

SUMMARY_PROMPT = (
    "Below are a problem and one worked attempt at it. Condense the attempt for a colleague who will "
    "solve the problem anew: the approach, the results that were established, what was checked or "
    "remains doubtful, and the final answer exactly as given. Add no work of your own.\n"
    "\n"
    "Problem:\n"
    "{problem}\n"
    "\n"
    "Attempt:\n"
    "{attempt}"
)


def render_synthesis(original_prompt: str, references: Sequence[str]) -> str:
    """The synthesis prompt, byte for byte as PaCoRe models were trained on it."""
    return _template().render(original_prompt=original_prompt, ref_responses=references)


def synthesis_messages(problem: Problem, references: Sequence[str]) -> tuple[ChatMessage, ...]:
    """``P(x, M)``: the chat with its last user or tool message replaced by the rendered template.

    Without references the chat stays as it is. Parts that are not text (images) stay in the message.
    """
    if not references:
        return problem.messages
    return _with_task(problem, render_synthesis(task_text(problem), references))


def select_messages(problem: Problem, candidates: Sequence[str]) -> tuple[ChatMessage, ...]:
    """The chat in which a judge picks one of ``candidates`` by number."""
    numbered = "\n".join(f"Candidate {number}:\n{text}\n" for number, text in enumerate(candidates, start=1))
    prompt = SELECT_PROMPT.format(count=len(candidates), problem=task_text(problem), candidates=numbered)
    return _with_task(problem, prompt)


def summary_messages(problem: Problem, attempt: str) -> tuple[ChatMessage, ...]:
    """The chat in which one attempt is condensed."""
    return _with_task(problem, SUMMARY_PROMPT.format(problem=task_text(problem), attempt=attempt))


def task_text(problem: Problem) -> str:
    """The text that asks; of a message in parts, its text parts joined by newlines."""
    content = problem.messages[_task(problem)]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if _is_text(part))


def _with_task(problem: Problem, text: str) -> tuple[ChatMessage, ...]:
    index = _task(problem)
    message = problem.messages[index]
    content = message["content"]
    if not isinstance(content, str):
        # The prompt takes the place of the first text part; images and the like stay where they were.
        first = next((place for place, part in enumerate(content) if _is_text(part)), len(content))
        before, after = content[:first], [part for part in content[first:] if not _is_text(part)]
        content = [*before, {"type": "text", "text": text}, *after]
    else:
        content = text
    changed = {**message, "content": content}
    return (*problem.messages[:index], changed, *problem.messages[index + 1 :])


def _task(problem: Problem) -> int:
    index = task_index(problem.messages)
    assert index is not None, "read_problem refuses a chat in which nothing is asked"
    return index


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)


@cache
def _template() -> jinja2.Template:
    source = files("pacore.coordination").joinpath("synthesis.jinja").read_text(encoding="utf-8")
    # Plain text for a model, never a page: escaping would change what it reads.
    return jinja2.Environment(autoescape=False).from_string(source)
