"""A benchmark as a small declarative file: where its rows come from, how they are asked and verified."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from pacore.config import convert, unknown_name
from pacore.data.files import read_rows
from pacore.data.formats.fields import Row
from pacore.data.formats.registry import detect_format
from pacore.data.record import Record, identity_of
from pacore.data.truths import read_truth
from pacore.errors import ConfigError, ProblemError
from pacore.problems import task_index
from pacore.types import PositiveInt, SamplingParams

_PROMPTS: Mapping[str, str] = {
    "as_is": "{question}",
    "math": "{question}\n\nReason step by step, and put your final answer within \\boxed{{}}.",
    "choice": "{question}\n\nReason step by step, and put the letter of your choice within \\boxed{{}}.",
    "stdin": (
        "{question}\n\nWrite a Python program that reads from standard input and writes to standard output. "
        "Put the whole program in one ```python block at the end."
    ),
    "function": (
        "{question}\n\nAnswer with Python code that completes the given signature, whole and in one "
        "```python block at the end."
    ),
    "code": "",
}
"""``code`` stands for ``stdin`` or ``function``, whichever the record's tests call for."""


class Columns(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which columns of the rows hold what, where they are in none of the known formats.

    ``kind`` is the type of the truth. ``answer_after`` cuts an answer out of a longer text, as GSM8K has it
    behind ``####``. For ``code_assert``, ``answer`` is the harness, and ``entry_point`` and ``prelude`` are
    columns as well. For ``rubric``, ``answer`` is the target question, and ``pass_criteria`` a column.
    """

    question: str
    answer: str
    id: str | None = None
    kind: Literal["math", "integer", "choice", "code_assert", "rubric"] = "math"
    kind_column: str | None = None
    kinds: dict[str, Literal["math", "integer", "choice"]] = {}
    choices: str | None = None
    answer_after: str | None = None
    entry_point: str | None = None
    prelude: str | None = None
    pass_criteria: str | None = None
    axis: str | None = None


class Keep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rows are of the benchmark: ``column`` is empty, or its text lies within bounds."""

    column: str
    empty: bool = False
    at_least: str | None = None
    below: str | None = None

    def keeps(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is one of them."""
        value = row.get(self.column)
        if self.empty:
            return value in (None, "", [], {})
        text = str(value or "")
        return (self.at_least is None or text >= self.at_least) and (self.below is None or text < self.below)


class Benchmark(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One benchmark. ``hub`` is where its data can be had; nothing of it is shipped.

    ``runs`` are independent runs a problem, as in the paper; ``protocol`` is the judge's, where rules do not
    verify; ``sampling`` holds where a command asks for nothing else. ``axis`` in the columns makes the report
    show a mean over axes as well.
    """

    name: str
    title: str
    runs: PositiveInt = 8
    prompt: Annotated[str, Meta(min_length=1)] = "math"
    hub: str | None = None
    split: str = "test"
    license: str = ""
    note: str = ""
    columns: Columns | None = None
    keep: tuple[Keep, ...] = ()
    protocol: str | None = None
    sampling: SamplingParams | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name):
            raise ConfigError(
                f"a benchmark is named by letters, digits, dots and dashes, as files are named by it; "
                f"not {self.name!r}"
            )

    def sampled(self, asked: SamplingParams) -> SamplingParams:
        """How it samples: as asked, and where that is silent (at its default) as the benchmark says."""
        if self.sampling is None:
            return asked
        default = SamplingParams()
        said = {name: getattr(asked, name) for name in asked.__struct_fields__}
        changed = {name: value for name, value in said.items() if value != getattr(default, name)}
        return msgspec.structs.replace(self.sampling, **changed)

    def source(self, path: str | None) -> str:
        """Where the rows come from. Raises ConfigError where neither a path nor a hub is known."""
        if path is not None:
            return path
        if self.hub is None:
            note = f" ({self.note})" if self.note else ""
            raise ConfigError(f"the data of {self.name} is in no hub{note}; give --data FILE")
        return f"hub:{self.hub}:{self.split}"

    def records(self, source: str) -> Iterator[Record]:
        """The benchmark's problems, as they are asked. Raises ProblemError for a row that is none."""
        for number, row in read_rows(source):
            if isinstance(row, ProblemError):
                raise row
            if all(rule.keeps(row) for rule in self.keep):
                yield self._asked(self._record(row, f"{source}:{number}"))

    def _record(self, row: Row, place: str) -> Record:
        columns = self.columns
        if columns is not None and columns.question in row and columns.answer in row:
            return _mapped(row, columns, place)
        return detect_format(row).read(row, place)

    def _asked(self, record: Record) -> Record:
        template = _PROMPTS.get(self.prompt, self.prompt)
        if self.prompt == "code":
            called = getattr(record.truth, "fn_name", None) is not None or not hasattr(record.truth, "tests")
            template = _PROMPTS["function" if called else "stdin"]
        index = task_index(record.messages)
        if template == "{question}" or index is None:
            return record
        message = record.messages[index]
        if not isinstance(message.get("content"), str):
            return record
        asked = {**message, "content": template.format(question=message["content"])}
        messages = (*record.messages[:index], asked, *record.messages[index + 1 :])
        return msgspec.structs.replace(record, messages=messages)


def _mapped(row: Row, columns: Columns, place: str) -> Record:
    question, answer = row[columns.question], row[columns.answer]
    if isinstance(question, list):
        messages = tuple(question)
    elif isinstance(question, str) and question.strip():
        messages = ({"role": "user", "content": question},)
    else:
        raise ProblemError(f"{place}: {columns.question} holds no question: {question!r:.80}")
    if columns.answer_after is not None and isinstance(answer, str):
        _, found, answer = answer.rpartition(columns.answer_after)
        if not found:
            raise ProblemError(f"{place}: no {columns.answer_after!r} in {columns.answer}: {answer!r:.80}")
        answer = answer.strip()
    kind = columns.kinds.get(str(row.get(columns.kind_column or "")), columns.kind)
    truth: Row = {"type": kind, "answer": answer}
    if kind == "choice" and columns.choices is not None:
        truth["choices"] = row.get(columns.choices)
    if kind == "code_assert":
        entry, prelude = row.get(columns.entry_point or ""), row.get(columns.prelude or "")
        truth = {"type": kind, "harness": answer, "entry_point": entry, "prelude": prelude or ""}
    if kind == "rubric":
        truth = {
            "type": kind,
            "target_question": answer,
            "pass_criteria": row.get(columns.pass_criteria or ""),
        }
    identity = row.get(columns.id) if columns.id is not None else None
    extra = {"axis": row[columns.axis]} if columns.axis is not None and columns.axis in row else {}
    return Record(
        id=str(identity) if identity is not None else identity_of(messages),
        messages=messages,
        truth=read_truth(truth, place),
        extra=extra,
    )


def benchmark_names() -> list[str]:
    """The benchmarks that are described here."""
    folder = files("pacore.evals").joinpath("benchmarks")
    return sorted(
        entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")
    )


def load_benchmark(name: str) -> Benchmark:
    """The benchmark called ``name``, or described by the TOML file ``name``; a file of problems is one too.

    Raises ConfigError for an unknown name and for a description that does not fit.
    """
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise ConfigError(f"there is no file {path}")
        try:
            return _read(path.read_text(encoding="utf-8"), name, path.stem)
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not UTF-8: {error}") from error
    if is_problem_file(name):
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).name.split(".")[0]).strip("-.") or "problems"
        return Benchmark(name=stem, title=Path(name).name, prompt="as_is")
    if name not in benchmark_names():
        raise ConfigError(unknown_name("benchmark", name, dict.fromkeys(benchmark_names())))
    text = files("pacore.evals").joinpath("benchmarks", f"{name}.toml").read_text(encoding="utf-8")
    return _read(text, name, name)


def is_problem_file(name: str) -> bool:
    """Whether a benchmark's name is that of a file of problems."""
    return name.endswith((".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".gz"))


def _read(text: str, place: str, name: str) -> Benchmark:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{place} is not TOML: {error}") from error
    benchmark = convert({"name": name, **table}, Benchmark, place)
    try:
        marked = benchmark.prompt in _PROMPTS or "\0" in benchmark.prompt.format(question="\0")
        if not marked:
            raise ConfigError(f"{place}: the prompt has no {{question}}, so nothing would be asked")
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{place}: the prompt has only the place {{question}}; other braces are doubled: {error}"
        ) from error
    return benchmark
