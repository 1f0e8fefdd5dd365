"""The programs that come with a record of code, and what they print on a given input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from msgspec import Struct

from pacore.data.record import Record
from pacore.data.truths import ProgramTruth
from pacore.errors import ProblemError
from pacore.verifiers.code.truth import read_language
from pacore.verifiers.sandbox.program import Execution, Language, Limits, Program
from pacore.verifiers.sandbox.sandbox import BuildError, Sandbox


class Source(Struct, frozen=True, kw_only=True):
    """A program's text and language."""

    source: str
    language: Language = "python"


class Companions(Struct, frozen=True, kw_only=True):
    """What stands beside the tests: right solutions, wrong ones, a generator and a validator of inputs.

    The generator is called with a number as its argument and prints an input; the validator reads an input
    and exits with 0 where it is one.
    """

    references: tuple[Source, ...] = ()
    wrong: tuple[Source, ...] = ()
    generator: Source | None = None
    validator: Source | None = None


def companions_of(record: Record) -> Companions:
    """Read them from the truth or the record: ``reference`` (or ``references``, ``solutions``), ``wrong``,
    ``generator``, ``validator``; each a text in Python, or ``language`` and ``source``.

    Raises ProblemError for what is neither.
    """
    truth = record.truth
    places = (truth.extra if isinstance(truth, ProgramTruth) else {}, record.extra)
    references = [*_all(places, "reference"), *_all(places, "references"), *_all(places, "solutions")]
    generators, validators = _all(places, "generator"), _all(places, "validator")
    return Companions(
        references=tuple(references),
        wrong=tuple(_all(places, "wrong")),
        generator=generators[0] if generators else None,
        validator=validators[0] if validators else None,
    )


def _all(places: Sequence[Mapping[str, Any]], key: str) -> list[Source]:
    for place in places:
        found = place.get(key)
        if found:
            return [_source(item, key) for item in (found if isinstance(found, list) else [found])]
    return []


def _source(item: Any, key: str) -> Source:
    if isinstance(item, str):
        return Source(source=item)
    if isinstance(item, Mapping) and isinstance(item.get("source"), str):
        return Source(source=item["source"], language=read_language(item.get("language", "python")))
    raise ProblemError(f"{key}: a program is its text, or language and source, not {item!r:.80}")


class ProgramRunner:
    """Keeps programs ready in their sandboxes while one record is worked on; used by one thread."""

    def __init__(self, sandbox: Sandbox, limits: Limits) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._stack = ExitStack()
        self._open: dict[Source, Any] = {}

    def __enter__(self) -> ProgramRunner:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def run(self, program: Source, stdin: str = "", args: Sequence[str] = ()) -> Execution | str:
        """One run, or in words why the program does not compile."""
        if program not in self._open:
            wrapped = Program(source=program.source, language=program.language)
            self._open[program] = self._stack.enter_context(self._sandbox.open(wrapped, self._limits))
        try:
            execution: Execution = self._open[program].run(stdin.encode("utf-8", "replace"), args=args)
            return execution
        except BuildError as error:
            return f"does not compile: {error!s:.200}"

    def output(self, program: Source, stdin: str = "", args: Sequence[str] = ()) -> tuple[str | None, str]:
        """What it prints, or ``None`` and why it came to no end of its own."""
        execution = self.run(program, stdin, args)
        if isinstance(execution, str):
            return None, execution
        if not execution.succeeded:
            why = execution.errors.strip().splitlines()
            return None, f"{execution.status} {execution.code} {why[-1][:120] if why else ''}".strip()
        return execution.output.decode("utf-8", "replace"), ""
