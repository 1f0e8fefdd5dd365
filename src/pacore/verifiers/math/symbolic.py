"""A pool of symbolic workers that can be killed: how expressions are compared, safely, from any thread."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import select
import subprocess
import sys
import threading
from types import TracebackType

from pacore.errors import MissingExtraError
from pacore.verifiers.math.guards import refusal

HARD_SECONDS = 9.0
START_SECONDS = 120.0


class SymbolicPool:
    """Up to ``workers`` processes with the engine imported, started when they are first needed.

    ``equal`` blocks its thread. The time limit counts from the start of work, not of waiting; a worker
    beyond it is killed, and only its own pair is undecided.
    """

    def __init__(self, workers: int | None = None) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtraError("comparing expressions", "verify")
        count = workers or min(4, os.cpu_count() or 1)
        self._free: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._all = [_Worker() for _ in range(count)]
        for worker in self._all:
            self._free.put(worker)

    def __enter__(self) -> SymbolicPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        for worker in self._all:
            worker.stop()

    def equal(self, gold: str, answer: str) -> tuple[bool | None, str]:
        """Whether two expressions are equal, and in words why not known where it is ``None``."""
        for text in (gold, answer):
            if (why := refusal(text)) is not None:
                return None, why
        worker = self._free.get()
        try:
            return worker.ask(gold, answer)
        finally:
            self._free.put(worker)


class _Worker:
    """One process, started on demand and again after a kill."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ask(self, gold: str, answer: str) -> tuple[bool | None, str]:
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"gold": gold, "answer": answer}).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process, HARD_SECONDS)
        except BrokenPipeError:
            line = b""
        if line is None:
            self.stop()
            return None, f"undecided after {HARD_SECONDS:g} s"
        if not line:
            self.stop()
            return None, "the symbolic engine gave up (memory or recursion)"
        said = json.loads(line)
        equal: bool | None = said["equal"]
        return equal, "" if equal is not None else said.get(
            "why", "one side is no expression the engine reads"
        )

    def stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _running(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pacore.verifiers.math.symbolic_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            process = self._process
        if self._line(process, START_SECONDS) != b"ready\n":
            self.stop()
            raise MissingExtraError("comparing expressions", "verify")
        return process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        return process.stdout.readline() if ready else None
