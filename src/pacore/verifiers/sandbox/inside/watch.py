"""Following one running test: its output up to the limit, its time, and what no resource limit sums up."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any

_TICK = 0.05
_CHUNK = 1 << 16
_KEPT_ERRORS = 4096
_MOST_FILES = 50_000
_LONGEST_PATH = 2000


class Watch:
    """One test's process. Pipe 0 carries its output, 1 its errors (shortened), 2 what it returned."""

    def __init__(
        self, pid: int, reads: list[int], request: dict[str, Any], limits: dict[str, Any], work: str
    ) -> None:
        self.texts = [bytearray() for _ in reads]
        self.verdict = ""
        self.status = 0
        self.cpu_s = self.wall_s = self.memory_mb = 0.0
        self._pid = pid
        self._used_before = _cpu_of_children()
        self._request = request
        self._limits = limits
        self._work = work
        self._pipes = {fd: index for index, fd in enumerate(reads)}
        self._room = limits["output_mb"] << 20
        for fd in reads:
            os.set_blocking(fd, False)

    def until_end(self, end_all: Callable[[], None]) -> None:
        """Wait for the test to end, or end it; ``end_all`` kills and reaps whatever it left behind."""
        begun = time.monotonic()
        self._follow(begun + self._request["wall_s"])
        if self.verdict:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        _, self.status, usage = os.wait4(self._pid, 0)
        self.wall_s = time.monotonic() - begun
        end_all()
        # All that it started counts too, and has been reaped by now.
        self.cpu_s = _cpu_of_children() - self._used_before
        for fd in self._pipes:
            self._read(fd)
            os.close(fd)
        self.memory_mb = max(self.memory_mb, usage.ru_maxrss / 1024)
        at_limit = os.WIFSIGNALED(self.status) and self.cpu_s > math.ceil(self._request["cpu_s"]) - 0.1
        if not self.verdict and (at_limit or self.cpu_s > self._request["cpu_s"]):
            self.verdict = "timeout"

    def _follow(self, deadline: float) -> None:
        poll = select.poll()
        ended = os.pidfd_open(self._pid)
        for fd in (*self._pipes, ended):
            poll.register(fd, select.POLLIN)
        checked = time.monotonic()
        running = True
        while running and not self.verdict:
            for fd, _ in poll.poll(_TICK * 1000):
                if fd == ended:
                    running = False
                elif not self._read(fd):
                    poll.unregister(fd)
            now = time.monotonic()
            if running and now > deadline:
                self.verdict = self.verdict or "timeout"
            elif now - checked > _TICK:
                self._check_use()
                checked = now
        os.close(ended)

    def _read(self, fd: int) -> bool:
        """Take what is there; returns whether more may come."""
        text = self.texts[self._pipes[fd]]
        while True:
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            if self._pipes[fd] == 1:
                text += chunk
                if len(text) > 2 * _KEPT_ERRORS:
                    del text[_KEPT_ERRORS:-_KEPT_ERRORS]
                continue
            self._room -= len(chunk)
            if self._room < 0:
                self.verdict = self.verdict or "output"
                return True
            text += chunk

    def _check_use(self) -> None:
        memory = sum(_resident(pid) for pid in _other_processes()) / 2**20
        self.memory_mb = max(self.memory_mb, memory)
        if memory > self._request["memory_mb"]:
            # Pages that several processes share are to count once; asked only now, as it takes longer.
            memory = sum(_proportional(pid) for pid in _other_processes()) / 2**20
        if memory > self._request["memory_mb"]:
            self.verdict = "memory"
            return
        megabytes, files = self._used_disk()
        if megabytes > self._limits["disk_mb"] or files > _MOST_FILES:
            self.verdict = "disk"

    def _used_disk(self) -> tuple[float, int]:
        if self._limits["own_disk"]:
            # The file system has its own size; only its number of files is without limit.
            files = os.statvfs(self._work)
            return 0.0, files.f_files - files.f_ffree
        return _used_below(self._work)


def _used_below(root: str) -> tuple[float, int]:
    """MiB and number of files. Folders deeper than anybody needs count as too many files."""
    blocks = count = 0
    folders = [root]
    while folders and count <= _MOST_FILES:
        folder = folders.pop()
        if len(folder) > _LONGEST_PATH:
            return 0.0, _MOST_FILES + 1
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                with contextlib.suppress(OSError):
                    blocks += entry.stat(follow_symlinks=False).st_blocks
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return blocks * 512 / 2**20, count


def _other_processes() -> list[str]:
    own = ("1", str(os.getpid()))
    with contextlib.suppress(OSError):
        return [entry.name for entry in os.scandir("/proc") if entry.name.isdigit() and entry.name not in own]
    # Where /proc is out of reach, memory is limited by process only.
    return []


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _proportional(pid: str) -> float:
    """Resident bytes with shared pages in proportion; all of them where that cannot be seen."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(float(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, IndexError, ValueError):
        return _resident(pid)


def _resident(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0
