"""Verifying the lines of a file: what kind each is, on all cores, in order, in constant memory."""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from pacore.errors import ConfigError
from pacore.types import Verdict
from pacore.verifiers.code.checkers import CHECKERS, check_output
from pacore.verifiers.code.truth import CodeTest, read_language
from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.math.symbolic import SymbolicPool
from pacore.verifiers.math.verifier import MathVerifier
from pacore.verifiers.rules import RuleVerifier
from pacore.verifiers.sandbox.choose import find_sandbox

_CHUNK = 64
_AHEAD = 4

_verifier: RuleVerifier | None = None


def verify_lines(
    lines: Iterable[bytes],
    *,
    processes: int | None = None,
    allow_unsafe: bool = False,
    headers: Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield ``{id, verdict, reward, reason, evidence, ms}`` for each line, in the order of the lines.

    A line is a JSON object with ``gold`` and ``prediction``; with ``checker``, ``output`` and ``answer``;
    with ``inputs``, ``outputs``, ``fn_name`` and ``code``; or with ``problem`` (a record with a
    ``ground_truth``) and ``prediction``. One that is none of these is ``unverifiable``, with the reason.
    ``expected``, where given, is carried through. ``allow_unsafe`` runs programs even where nothing
    contains them; ``headers`` is a folder with what special judges include.
    """
    count = processes or os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    settings = (allow_unsafe, headers)
    with ProcessPoolExecutor(count, mp_context=context, initializer=_start_worker, initargs=settings) as pool:
        waiting: deque[Future[list[dict[str, Any]]]] = deque()
        try:
            for chunk in _chunks(lines):
                waiting.append(pool.submit(_verify_chunk, chunk))
                if len(waiting) > count * _AHEAD:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BaseException:
            # Also where the caller stops listening: nobody waits for what was asked ahead.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _chunks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lines for one worker at a time; a program takes long enough to be one by itself."""
    chunk: list[bytes] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == _CHUNK or b'"code"' in line or b'"tests"' in line:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def verify_record(record: Mapping[str, Any], rules: RuleVerifier) -> Verdict:
    """The verdict on one record, by its kind."""
    if "checker" in record and "output" in record:
        return _checked(record, rules)
    if "problem" in record and isinstance(record["problem"], Mapping):
        return rules.verdict(record["problem"].get("ground_truth"), _text(record.get("prediction")))
    if "gold" in record and "prediction" in record:
        return rules.verdict(record["gold"], _text(record["prediction"]))
    if "code" in record:
        return _program(record, rules)
    return _unverifiable(
        "bad_line: needs gold and prediction, checker with output and answer, code with inputs and outputs, "
        "or problem and prediction"
    )


def _program(record: Mapping[str, Any], rules: RuleVerifier) -> Verdict:
    try:
        language = read_language(record.get("language") or "python")
    except ConfigError as error:
        return _unverifiable(f"bad_line: {error}")
    if not isinstance(record["code"], str):
        return _unverifiable(f"bad_line: code is the program's text, not {record['code']!r:.80}")
    return rules.program_verdict(record, record["code"], language=language)


def _checked(record: Mapping[str, Any], rules: RuleVerifier) -> Verdict:
    begun = time.perf_counter()
    checker, output, answer = record["checker"], _text(record["output"]), _text(record.get("answer"))
    if isinstance(checker, Mapping):
        return rules.output_verdict(
            checker, CodeTest(input=_text(record.get("input")), output=answer), output
        )
    if not isinstance(checker, str) or checker not in CHECKERS:
        return _unverifiable(f"bad_line: there is no checker {checker!r:.80}")
    check = check_output(checker, output, answer)
    ms = round((time.perf_counter() - begun) * 1e3, 3)
    reason = f"{check.outcome}: {check.message}" if check.message else check.outcome
    if check.outcome == "jury":
        return Verdict(verdict="unverifiable", reason=reason, ms=ms)
    right = check.outcome == "ok"
    return Verdict(verdict="correct" if right else "incorrect", reward=float(right), reason=reason, ms=ms)


def _unverifiable(reason: str) -> Verdict:
    return Verdict(verdict="unverifiable", reason=reason)


def _shown(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a line has it."""
    shown: dict[str, Any] = msgspec.to_builtins(verdict)
    del shown["transient"]
    return shown


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _start_worker(allow_unsafe: bool, headers: Path | None) -> None:
    global _verifier  # noqa: PLW0603 - one verifier a worker process, as its engine is slow to start
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # At once: an exit by exception would be taken for that of the line, and the next one begun.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(1))
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    pool = SymbolicPool(1)
    atexit.register(pool.close)
    _verifier = RuleVerifier(
        MathVerifier(pool),
        lambda: CodeVerifier(find_sandbox(allow_unsafe=allow_unsafe), headers=headers, workers=1),
    )
    atexit.register(_verifier.close)


def _end_with(sentinel: int) -> None:
    """End this worker as soon as the process that started it has ended, however it did."""
    multiprocessing.connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _verify_chunk(lines: list[bytes]) -> list[dict[str, Any]]:
    assert _verifier is not None
    return [_verify_line(line, _verifier) for line in lines]


def _verify_line(line: bytes, rules: RuleVerifier) -> dict[str, Any]:
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return {"id": None, **_shown(_unverifiable(f"bad_line: not JSON ({error})"))}
    if not isinstance(record, dict):
        return {"id": None, **_shown(_unverifiable("bad_line: not a JSON object"))}
    try:
        verdict = verify_record(record, rules)
        msgspec.json.encode(verdict)
    except Exception as error:
        # A line that no rule foresaw must not cost the verdicts on the others.
        verdict = _unverifiable(f"bad_line: {type(error).__name__}: {error!s:.200}")
    found: dict[str, Any] = {"id": record.get("id"), **_shown(verdict)}
    if "expected" in record:
        found["expected"] = record["expected"]
    return found
