"""The host's side of a sandbox: starts it with a program inside, hands it tests, takes what comes of them."""

from __future__ import annotations

import base64
import contextlib
import functools
import importlib.util
import json
import marshal
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from pacore.errors import ConfigError, SandboxError
from pacore.verifiers.sandbox.backend import Backend, Interpreter, Launch, as_user, python_command
from pacore.verifiers.sandbox.inside import confine, driver, player, watch
from pacore.verifiers.sandbox.pipes import HostPipe, PipeEndedError
from pacore.verifiers.sandbox.program import Execution, Limits, Program
from pacore.verifiers.sandbox.seccomp import refusing_program

_START_S, _BUILD_S, _GRACE_S = 60.0, 180.0, 10.0
_BOOT = """
import base64, json, marshal, sys, types
for name, text in json.loads(sys.argv[1]).items():
    module = sys.modules[name] = types.ModuleType(name)
    compiled = sys.argv[2] == "compiled"
    exec(marshal.loads(base64.b64decode(text)) if compiled else compile(text, name, "exec"), module.__dict__)
sys.modules["pacore.verifiers.sandbox.inside.driver"].main(json.loads(sys.argv[3]))
"""


class BuildError(Exception):
    """A program does not compile; the text is the compiler's."""


class Sandbox:
    """A way to run programs that was seen to work here: a backend and an interpreter."""

    def __init__(self, backend: Backend, python: Interpreter, *, refusals: Sequence[str] = ()) -> None:
        self.backend = backend
        self.python = python
        self.refusals = tuple(refusals)

    @property
    def described(self) -> str:
        """What it is and contains, for reports."""
        backend = self.backend
        gaps = f"; not contained: {'; '.join(backend.gaps)}" if backend.gaps else ""
        return f"{backend.name}, {backend.containment} containment, Python {self.python.version}{gaps}"

    def open(self, program: Program, limits: Limits) -> SandboxedProgram:
        """Put a program into a sandbox of its own; to be used in a ``with`` block, by one thread."""
        return SandboxedProgram(self, program, limits)


class SandboxedProgram:
    """A program in its sandbox, which is started when first needed, and again after a test that ended it.

    Raises BuildError where the program does not compile, SandboxError where no sandbox starts.
    """

    def __init__(self, sandbox: Sandbox, program: Program, limits: Limits) -> None:
        self._sandbox = sandbox
        self._program = program
        self._limits = limits
        self._stack = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._launch: Launch | None = None
        self._pipe: HostPipe | None = None

    def __enter__(self) -> SandboxedProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        stdin: bytes = b"",
        *,
        call: Sequence[Any] | None = None,
        args: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        collect: Sequence[str] = (),
    ) -> Execution:
        """Run one test: ``stdin``, or the arguments to ``call`` its function with, plain JSON data.

        ``files`` are put into its work folder; files it wrote under the names in ``collect`` come back.
        """
        for name in (*(files or {}), *collect):
            if not name or Path(name).name != name or name.startswith("."):
                raise ConfigError(f"{name!r} is no plain file name; give one without folders")
        request = {
            "call": json.dumps(call),
            "args": list(args),
            "files": dict(files or {}),
            "collect": list(collect),
            "cpu_s": self._limits.cpu_s,
            "wall_s": self._limits.wall,
            "memory_mb": self._limits.memory_mb,
        }
        execution = self._exchange(request, stdin)
        if execution.status == "lost":
            # Perhaps an earlier test left the sandbox unusable, or something outside ended it.
            execution = self._exchange(request, stdin)
        return execution

    def start(self) -> None:
        """Start the sandbox and compile the program now, rather than with the first test."""
        self._started()

    def close(self) -> None:
        """End the sandbox and everything in it."""
        process, self._process, self._pipe = self._process, None, None
        if process is not None:
            self._sweep_below(process.pid)
            process.kill()
            process.wait()
            for file in (process.stdin, process.stdout, process.stderr):
                if file is not None:
                    file.close()
        self._stack.close()

    def _exchange(self, request: dict[str, Any], stdin: bytes) -> Execution:
        pipe = self._started()
        begun = time.monotonic()
        collect = request["collect"]
        try:
            pipe.send(request, stdin, begun + _GRACE_S)
            report, payload = pipe.receive(
                time.monotonic() + self._limits.wall + _GRACE_S,
                most=(self._limits.output_mb << 20) * (len(collect) + 1),
            )
            execution = _execution(report, payload, collect)
        except (PipeEndedError, ValueError, TypeError, LookupError) as error:
            self.close()
            return Execution(status="lost", errors=str(error), wall_s=time.monotonic() - begun)
        self._sweep()
        return execution

    def _started(self) -> HostPipe:
        if self._pipe is not None and self._process is not None and self._process.poll() is None:
            return self._pipe
        self.close()
        launch = self._launch = self._stack.enter_context(
            self._sandbox.backend.launch(self._sandbox.python, self._limits)
        )
        process = self._process = subprocess.Popen(
            [*launch.command, *python_command(self._sandbox.python), *self._arguments()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(launch.environment),
            cwd=launch.work if launch.landlock is not None or not launch.command else "/",
            pass_fds=launch.pass_fds,
            start_new_session=True,
            bufsize=0,
            **as_user(launch.user),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        pipe = HostPipe(process.stdin.fileno(), process.stdout.fileno())
        try:
            self._introduce(pipe)
        except BaseException:
            self.close()
            raise
        self._pipe = pipe
        return pipe

    def _introduce(self, pipe: HostPipe) -> None:
        program: dict[str, Any] = msgspec.to_builtins(self._program)
        source = program.pop("source").encode("utf-8", "surrogateescape")
        try:
            pipe.send(program, source, time.monotonic() + _START_S)
            wait = _BUILD_S if self._program.language == "cpp" else _START_S
            said, _ = pipe.receive(time.monotonic() + wait, most=0)
        except PipeEndedError as error:
            words = self._last_words()
            raise SandboxError(
                f"{self._sandbox.backend.name} did not start: {words or error}; "
                "pacore doctor shows what works here"
            ) from error
        if said["missing_compiler"]:
            raise SandboxError("there is no C++ compiler in the sandbox; install g++ under /usr")
        if said["complaint"]:
            raise BuildError(said["complaint"])

    def _arguments(self) -> list[str]:
        """Of the interpreter: the modules that run inside, compiled if it reads our code, and settings."""
        launch = self._launch
        assert launch is not None
        compiled = self._sandbox.python.magic == importlib.util.MAGIC_NUMBER.hex()
        modules = _compiled_modules() if compiled else json.dumps(_inside())
        contained = self._sandbox.backend.containment != "none"
        # As a user of its own a program owns no file outside of its folder.
        refusals = refusing_program(metadata=launch.landlock is not None and launch.user is None)
        settings = json.dumps(
            {
                "limits": {**msgspec.to_builtins(self._limits), "own_disk": launch.own_disk},
                "alone": launch.alone,
                "seccomp": refusals.hex() if contained else "",
                "work": launch.work,
                "processes": launch.processes,
                "landlock": launch.landlock,
            }
        )
        return ["-c", _BOOT, modules, "compiled" if compiled else "text", settings]

    def _last_words(self) -> str:
        process = self._process
        if process is None or process.stderr is None:
            return ""
        process.kill()
        ready, _, _ = select.select([process.stderr], [], [], 1.0)
        words = os.read(process.stderr.fileno(), 1 << 16).decode(errors="replace") if ready else ""
        return words.strip()[-500:]

    def _sweep(self) -> None:
        if self._process is not None:
            self._sweep_below(self._process.pid)

    def _sweep_below(self, pid: int) -> None:
        """Kill what a test left behind where its driver could not: all below it, until there is none."""
        if self._launch is None or self._launch.alone:
            return
        while running := _running_below(pid):
            for child in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, 9)


def _running_below(pid: int) -> list[int]:
    """The processes below this one that are not dead yet."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            found += _running_below(child)
            if Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                found.append(child)
    return found


def _inside() -> dict[str, str]:
    """The text of the modules that run inside, in the order of their imports."""
    modules = (confine, player, watch, driver)
    return {module.__name__: Path(str(module.__file__)).read_text() for module in modules}


@functools.cache
def _compiled_modules() -> str:
    """The same, compiled: that takes longer than all else a sandbox does at its start."""
    return json.dumps(
        {
            name: base64.b64encode(marshal.dumps(compile(text, name, "exec"))).decode()
            for name, text in _inside().items()
        }
    )


def _execution(report: dict[str, Any], payload: bytes, collect: Sequence[str]) -> Execution:
    parts, start = [], 0
    for size in report.pop("sizes"):
        parts.append(payload[start : start + max(size, 0)] if size >= 0 else None)
        start += max(size, 0)
    output, errors, returned, *files = parts
    return Execution(
        status=report["status"],
        code=report["code"],
        output=output or b"",
        errors=(errors or b"").decode(errors="replace"),
        returned=(returned or b"").decode(errors="replace"),
        files={name: text for name, text in zip(collect, files, strict=True) if text is not None},
        cpu_s=report["cpu_s"],
        wall_s=report["wall_s"],
        memory_mb=report["memory_mb"],
    )
