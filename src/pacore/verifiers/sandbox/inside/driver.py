"""The inner half of a sandbox: takes tests from the host, runs each in a fork, reports what happened.

It never sees an expected output. A test cannot reach the driver: the pipes to the host are closed in the
child, the driver is not dumpable, and where the kernel can, signals stay within the child's own domain.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import math
import os
import resource
import signal
import stat
import struct
import sys
from typing import Any

from pacore.verifiers.sandbox.inside.confine import confine_files, confine_signals, install_filter
from pacore.verifiers.sandbox.inside.player import MISSING_COMMAND, PRELUDE, play
from pacore.verifiers.sandbox.inside.watch import Watch

_NO_NEW_PRIVILEGES, _DUMPABLE, _SUBREAPER = 38, 4, 36
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_REPORT_FD = 3
_MOST_BINARY_MB = 256

libc = ctypes.CDLL(None, use_errno=True)


class Driver:
    """One program, and the place it runs in."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.binary = -1
        self._limits: dict[str, Any] = config["limits"]
        self._alone: bool = config["alone"]
        self._filter = bytes.fromhex(config["seccomp"])
        self._work: str = config["work"]
        self._most_collected = 0

    def run(self, request: dict[str, Any], stdin: bytes) -> tuple[dict[str, Any], bytes] | None:
        """Run one test. Returns the report and its payload or, in the child that is to run it, ``None``."""
        for name, text in request["files"].items():
            with open(f"{self._work}/{name}", "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
        source = _file_in_memory("stdin", stdin)
        pipes = [os.pipe() for _ in range(3)]
        pid = os.fork()
        if pid == 0:
            self._become_test(request, [source, *(write for _, write in pipes)])
            return None
        for fd in (source, *(write for _, write in pipes)):
            os.close(fd)
        watch = Watch(pid, [read for read, _ in pipes], request, self._limits, self._work)
        watch.until_end(lambda: self._end_all(pid))
        texts: list[bytes | None] = [bytes(text) for text in watch.texts]
        self._most_collected = request.get("collect_mb", self._limits["output_mb"])
        texts += [self._collected(name) for name in request["collect"]]
        ended = os.WIFEXITED(watch.status)
        report = {
            "status": watch.verdict or ("ended" if ended else "signalled"),
            "code": os.WEXITSTATUS(watch.status) if ended else os.WTERMSIG(watch.status),
            "cpu_s": watch.cpu_s,
            "wall_s": watch.wall_s,
            "memory_mb": watch.memory_mb,
            "sizes": [-1 if text is None else len(text) for text in texts],
        }
        return report, b"".join(text or b"" for text in texts)

    def _become_test(self, request: dict[str, Any], fds: list[int]) -> None:
        os.setsid()
        for target, fd in enumerate(fds):
            os.dup2(fd, 100 + target)
        for target in range(len(fds)):
            os.dup2(100 + target, target)
        keep = max(self.binary, _REPORT_FD)
        os.closerange(_REPORT_FD + 1, keep)
        os.closerange(keep + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.chdir(self._work)
        for limit, value in self._resource_limits(request).items():
            hard = resource.getrlimit(limit)[1] if limit == resource.RLIMIT_STACK else value
            resource.setrlimit(limit, (value, hard))
        libc.prctl(_DUMPABLE, 1, 0, 0, 0)
        confine_signals()
        install_filter(self._filter)

    def _resource_limits(self, request: dict[str, Any]) -> dict[int, int]:
        most_stack = resource.getrlimit(resource.RLIMIT_STACK)[1]
        stack = self._limits["stack_mb"] << 20
        return {
            resource.RLIMIT_STACK: stack if most_stack == resource.RLIM_INFINITY else min(stack, most_stack),
            resource.RLIMIT_CPU: math.ceil(request["cpu_s"]),
            resource.RLIMIT_AS: (request["memory_mb"] + self._limits["stack_mb"]) << 20,
            resource.RLIMIT_FSIZE: self._limits["disk_mb"] << 20,
            resource.RLIMIT_NOFILE: 128,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_MEMLOCK: 1 << 16,
        }

    def _end_all(self, pid: int) -> None:
        """Kill and reap. Alone in a process namespace or under its own user, that is everything there is."""
        while True:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if self._alone:
                    os.kill(-1, signal.SIGKILL)
                else:
                    os.killpg(pid, signal.SIGKILL)
            try:
                if os.waitpid(-1, 0 if self._alone else os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return

    def _collected(self, name: str) -> bytes | None:
        """A file that the test wrote: regular, not through a link, no longer than the output may be."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(f"{self._work}/{name}", flags)
        except OSError:
            return None
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            most = self._most_collected << 20
            text = file.read(most + 1)
            return text if len(text) <= most else None

    def clear(self) -> None:
        """Empty the work folder. Where that fails the driver ends, and the host opens another sandbox."""
        _remove_below(self._work)


def _remove_below(folder: str) -> None:
    os.chmod(folder, 0o700)
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            _remove_below(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


class Channel:
    """Frames to and from the host: a length, a JSON header with the payload's length, the payload."""

    def __init__(self) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next frame; ends the driver where the host has gone."""
        header = json.loads(self._exactly(struct.unpack("=I", self._exactly(4))[0]))
        return header, self._exactly(header["payload"])

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send a frame."""
        text = json.dumps({**header, "payload": len(payload)}).encode()
        view = memoryview(struct.pack("=I", len(text)) + text + payload)
        while view:
            view = view[os.write(self._out, view) :]

    def _exactly(self, size: int) -> bytes:
        text = bytearray()
        while len(text) < size:
            chunk = os.read(self._in, min(size - len(text), 1 << 20))
            if not chunk:
                os._exit(0)
            text += chunk
        return bytes(text)


def main(config: dict[str, Any]) -> None:
    """Take tests until the host closes the pipe. A child leaves by playing its test and then ending."""
    for option, value in ((_DUMPABLE, 0), (_SUBREAPER, 1), (_NO_NEW_PRIVILEGES, 1)):
        libc.prctl(option, value, 0, 0, 0)
    if config["processes"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (config["processes"], config["processes"]))
    confine_files(config["landlock"])
    channel, driver = Channel(), Driver(config)
    program, source = channel.receive()
    program["source"] = source.decode("utf-8", "surrogateescape")
    complaint, missing = "", False
    if program["language"] == "cpp":
        # What the later standard refuses the earlier one may take, and the other way round.
        for standard in ("gnu++17", "gnu++20"):
            compiling = _compile_request(program, standard)
            outcome = driver.run(compiling, b"")
            if outcome is None:
                play(compiling, _REPORT_FD, -1)
            again, driver.binary = _compiled(*outcome)
            complaint = complaint or again
            driver.clear()
            missing = outcome[0]["code"] == MISSING_COMMAND
            if driver.binary >= 0:
                complaint = ""
            if missing or driver.binary >= 0:
                break
    elif program["prelude"]:
        for name in PRELUDE:
            __import__(name)
    gc.collect()
    gc.freeze()
    channel.send({"complaint": complaint, "missing_compiler": missing, "python": sys.version.split()[0]})
    while True:
        request, stdin = channel.receive()
        request["program"] = program
        outcome = driver.run(request, stdin)
        if outcome is None:
            play(request, _REPORT_FD, driver.binary)
        channel.send(*outcome)
        driver.clear()


def _compile_request(program: dict[str, Any], standard: str) -> dict[str, Any]:
    return {
        "program": {"command": ["g++", "-O2", f"-std={standard}", "-w", "-o", "program", "program.cpp"]},
        "files": {**program["files"], "program.cpp": program["source"]},
        "collect": ["program"],
        "collect_mb": _MOST_BINARY_MB,
        "cpu_s": 60,
        "wall_s": 120,
        "memory_mb": 2048,
    }


def _compiled(report: dict[str, Any], payload: bytes) -> tuple[str, int]:
    """The compiler's complaint, or the binary in memory, where no test can change it."""
    output, errors, _, binary = report["sizes"]
    if report["status"] != "ended" or report["code"] or binary < 0:
        text = payload[output : output + errors].decode(errors="replace")
        if report["status"] == "ended" and not report["code"]:
            text = f"the program is larger than {_MOST_BINARY_MB} MiB"
        return f"{report['status']} {report['code']}: {text}", -1
    fd = _file_in_memory("program", payload[-binary:], os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    return "", fd


def _file_in_memory(name: str, content: bytes, flags: int = 0) -> int:
    fd = os.memfd_create(name, flags)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
