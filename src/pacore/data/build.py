"""Building a corpus: the sources, then step after step, each into a file of its own.

``00-sources.jsonl``, ``01-rules.jsonl`` …   what is left after each step
``01-rules.fallen.jsonl``                    what fell, and why
``01-rules.json``                            its counts; the step is done once this is there
``01-pool/``                                 what a long step keeps to go on with
``corpus.jsonl``, ``CARD.md``                the corpus and its card
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pacore.data.files import OnBad, RecordFile, RecordWriter
from pacore.data.recipe import Recipe, Source, StepConfig, step_name
from pacore.data.record import Record
from pacore.data.stepping import AnyStep, Workplace, holds_pool, open_step
from pacore.data.steps.arithmetic import make_arithmetic
from pacore.data.steps.step import Fallen
from pacore.errors import ConfigError, JournalError
from pacore.traces.directory import WorkDirectory, short_hash, write_whole

CORPUS = "corpus.jsonl"
_SOURCES = "00-sources"

Told = Callable[[str, int, int | None], None]
"""Is told the step at work, how many records it has taken, and of how many."""


class Counts(Struct, frozen=True, kw_only=True):
    """What a step did: records in and out, reasons of the fallen, and by source what is left.

    ``fingerprint`` is of the step, all before it, and the files they read: a changed one is done anew.
    """

    step: str
    fingerprint: str
    taken: int
    left: int
    reasons: dict[str, int]
    by_source: dict[str, int]
    skipped: int = 0


def build_corpus(
    recipe: Recipe,
    out: Path,
    workplace: Callable[[Path], Workplace],
    *,
    told: Told | None = None,
) -> list[Counts]:
    """Build into ``out``, going on where an earlier sitting stopped. ``workplace`` makes the surroundings of
    a step from the folder it may use. Returns the counts of the sources and of each step.
    """
    told = told or (lambda name, done, total: None)
    with WorkDirectory(out, {"name": recipe.name}, description="build.json"):
        fingerprint = short_hash(_source_identity(recipe))
        current = out / f"{_SOURCES}.jsonl"
        counts = [_gather(recipe, current, fingerprint, told)]
        pool: Path | None = None
        for number, config in enumerate(recipe.step, start=1):
            name = f"{number:02d}-{step_name(config)}"
            fingerprint = short_hash(f"{fingerprint}{recipe.seed}".encode() + _step_identity(config, recipe))
            folder = out / name
            place = msgspec.structs.replace(
                workplace(folder), seed=recipe.seed, pool=pool, fingerprint=fingerprint
            )
            target = _Target(stem=out / name, fingerprint=fingerprint, total=counts[-1].left)
            counts.append(_take_step(config, place, RecordFile(current), target, told))
            current = out / f"{name}.jsonl"
            if holds_pool(folder):
                pool = folder
        fresh = out / f".{CORPUS}"
        fresh.unlink(missing_ok=True)
        fresh.hardlink_to(current)
        fresh.replace(out / CORPUS)
    return counts


def run_step(
    config: StepConfig,
    place: Workplace,
    records: RecordFile,
    out: Path,
    *,
    fallen: Path | None = None,
    told: Callable[[int], None] | None = None,
) -> Counts:
    """One step by itself, from a file into the file ``out``, the fallen into ``fallen``."""
    place.folder.mkdir(parents=True, exist_ok=True)
    return asyncio.run(
        _apply(config, place, records, out=out, fallen=fallen, told=told or (lambda done: None))
    )


def _source_identity(recipe: Recipe) -> bytes:
    return msgspec.json.encode(
        [
            (msgspec.to_builtins(source), _stamp(_path_of(source, recipe)) if source.path else None)
            for source in recipe.source
        ]
    )


def _step_identity(config: StepConfig, recipe: Recipe) -> bytes:
    settings: dict[str, Any] = msgspec.to_builtins(config)
    files = [*settings.get("against", ()), *filter(None, [settings.get("words"), settings.get("pool")])]
    return msgspec.json.encode([settings, [_stamp(str(Path(recipe.folder) / name)) for name in files]])


def _stamp(path: str) -> list[Any]:
    """What tells one version of a file from another; of a hub's data set, its name."""
    if path.startswith("hub:") or not Path(path).exists():
        return [path]
    status = Path(path).stat()
    return [path, status.st_size, status.st_mtime_ns]


def _path_of(source: Source, recipe: Recipe) -> str:
    assert source.path is not None
    return source.path if source.path.startswith("hub:") else str(Path(recipe.folder) / source.path)


def _gather(recipe: Recipe, out: Path, fingerprint: str, told: Told) -> Counts:
    """All sources in one file, ids unique, names and licences filled in."""
    marker = out.with_suffix(".json")
    done = _done(marker, fingerprint)
    if done is not None:
        return done
    by_source: Counter[str] = Counter()
    seen: set[str] = set()
    skipped = 0
    with RecordWriter(out) as writer:
        for source in recipe.source:
            records: Iterable[Record]
            if source.arithmetic is not None:
                settings: dict[str, Any] = msgspec.to_builtins(source.arithmetic)
                records = make_arithmetic(settings.pop("number"), **settings)
            else:
                on_bad: OnBad = "skip" if source.skip_bad else "fail"
                records = RecordFile(_path_of(source, recipe), dialect=source.format, on_bad=on_bad)
            for record in _named(records, source):
                if record.id in seen:
                    raise ConfigError(
                        f"the id {record.id!r} is in the sources twice; give each [[source]] its own prefix"
                    )
                seen.add(record.id)
                writer.write(record)
                by_source[record.source] += 1
                if writer.count % 1000 == 0:
                    told("sources", writer.count, None)
            skipped += records.skipped if isinstance(records, RecordFile) else 0
    counts = Counts(
        step="sources",
        fingerprint=fingerprint,
        taken=writer.count,
        left=writer.count,
        reasons={},
        by_source=dict(by_source),
        skipped=skipped,
    )
    write_whole(marker, msgspec.json.encode(counts))
    return counts


def _named(records: Iterable[Record], source: Source) -> Iterator[Record]:
    for record in records:
        yield msgspec.structs.replace(
            record,
            id=f"{source.prefix}{record.id}",
            source=record.source or source.name or Path(source.path or "").stem,
            license=record.license or source.license,
        )


def _done(marker: Path, fingerprint: str) -> Counts | None:
    if not marker.exists():
        return None
    try:
        counts = msgspec.json.decode(marker.read_bytes(), type=Counts)
    except msgspec.DecodeError as error:
        raise JournalError(
            f"{marker} holds no counts of a step: {error}; delete it to do the step anew"
        ) from error
    return counts if counts.fingerprint == fingerprint else None


class _Target(Struct, frozen=True, kw_only=True):
    """Where a step of a corpus goes: files that begin with ``stem``, of ``total`` records."""

    stem: Path
    fingerprint: str
    total: int

    def file(self, ending: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}{ending}")


def _take_step(
    config: StepConfig, place: Workplace, records: RecordFile, target: _Target, told: Told
) -> Counts:
    marker = target.file(".json")
    done = _done(marker, target.fingerprint)
    if done is not None:
        return done
    counts = run_step(
        config,
        place,
        records,
        target.file(".jsonl"),
        fallen=target.file(".fallen.jsonl"),
        told=lambda done: told(step_name(config), done, target.total),
    )
    counts = msgspec.structs.replace(counts, fingerprint=target.fingerprint)
    write_whole(marker, msgspec.json.encode(counts))
    (place.folder / "outcomes.jsonl").unlink(missing_ok=True)
    if not any(place.folder.iterdir()):
        place.folder.rmdir()
    return counts


async def _apply(
    config: StepConfig,
    place: Workplace,
    records: RecordFile,
    *,
    out: Path,
    fallen: Path | None,
    told: Callable[[int], None],
) -> Counts:
    reasons: Counter[str] = Counter()
    by_source: Counter[str] = Counter()
    taken = 0
    unfinished = (fallen or out).with_name(f".part.{(fallen or out).name}.fallen")
    with RecordWriter(out) as writer, unfinished.open("wb") as lost:
        async with open_step(config, place) as step, aclosing(_outcomes(step, records)) as outcomes:
            async for outcome in outcomes:
                taken += 1
                if isinstance(outcome, Fallen):
                    reasons[outcome.reason] += 1
                    lost.write(msgspec.json.encode(outcome) + b"\n")
                else:
                    by_source[outcome.source] += 1
                    writer.write(outcome)
                told(taken)
    if fallen is not None:
        unfinished.replace(fallen)
    else:
        unfinished.unlink()
    return Counts(
        step=step_name(config),
        fingerprint="",
        taken=taken,
        left=writer.count,
        reasons=dict(reasons.most_common()),
        by_source=dict(by_source),
        skipped=records.skipped,
    )


async def _outcomes(step: AnyStep, records: RecordFile) -> AsyncGenerator[Record | Fallen, None]:
    made = step(records)
    if isinstance(made, AsyncIterator):
        async for outcome in made:
            yield outcome
        return
    for outcome in made:
        yield outcome
