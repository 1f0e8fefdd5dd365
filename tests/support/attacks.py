"""A host worth attacking, hostile programs, and what must be true after each."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from pacore.verifiers.sandbox.program import Execution, Limits, Program
from pacore.verifiers.sandbox.sandbox import Sandbox, SandboxedProgram

T = TypeVar("T")
DATA = Path(__file__).parent.parent / "cases"
ATTACKS: dict[str, str] = {
    record["name"]: record["program"]
    for record in map(json.loads, (DATA / "sandbox_attacks.jsonl").read_text().splitlines())
}
LIMITS = Limits(cpu_s=1, wall_s=2, memory_mb=512, processes=16, disk_mb=32, output_mb=4)
# On a busy machine a second is too short to fill the memory, and it is that limit which is to end it.
PATIENT = msgspec.structs.replace(LIMITS, cpu_s=10, wall_s=20)
PLAIN_USER = 23_456
_HOST_FOLDERS = ("/tmp", "/dev/shm", "/var/tmp")


@dataclass
class Host:
    """Things of the host that no program may reach."""

    folder: Path
    secret: Path
    abstract: str
    port: int
    victim: subprocess.Popen[bytes]

    @property
    def files(self) -> dict[str, str]:
        """The files that the attacks expect beside them."""
        return {"port": str(self.port), "victim": str(self.victim.pid)}

    def armed(self, name: str) -> str:
        """The attack of that name, aimed at this host."""
        places = {"@HOST@": str(self.folder), "@SECRET@": str(self.secret), "verify_abs": self.abstract}
        program = ATTACKS[name]
        for mark, place in places.items():
            program = program.replace(mark, place)
        return program


@contextmanager
def host() -> Iterator[Host]:
    """Set up what the attacks go for: answers, sockets, a secret, a process."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attacked-")))
        folder.chmod(0o755)
        (folder / "answers").mkdir()
        # Of its own, as several hosts may be attacked at once.
        abstract = folder.name
        for name in ("answers/1.ans", "notes.md", "secret"):
            (folder / name).write_text("kept")
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (str(folder / "host.sock"), f"\0{abstract}"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen()
        (folder / "host.sock").chmod(0o777)
        victim = subprocess.Popen(["/bin/sleep", "600"])
        os.environ["SECRET_TOKEN"] = "kept"
        try:
            yield Host(folder, folder / "secret", abstract, tcp.getsockname()[1], victim)
        finally:
            del os.environ["SECRET_TOKEN"]
            victim.kill()
            victim.wait()


def attack(sandbox: Sandbox, name: str) -> Execution:
    """Run one attack and hold its outcome against what must be true. Returns it for a closer look."""
    with host() as target:
        limits = PATIENT if name == "membomb" else LIMITS
        with sandbox.open(Program(source=target.armed(name)), limits) as program:
            execution = program.run(files=target.files, collect=["output.txt"])
            again = sandbox_still_works(program)
        assert again, "the sandbox is of no more use"
        assert target.victim.poll() is None, "the victim is dead"
        kept = {path.name: path.read_text() for path in target.folder.rglob("*") if path.is_file()}
    assert kept == {"1.ans": "kept", "notes.md": "kept", "secret": "kept"}
    assert not execution.files, "a link was followed"
    assert no_survivor()
    assert not [path for folder in _HOST_FOLDERS for path in Path(folder).glob("fill_*")]
    CRITERIA[name](execution, execution.output.decode(errors="replace"))
    return execution


def sandbox_still_works(program: SandboxedProgram) -> bool:
    """Whether the same program can be run once more; what it prints then is its own affair."""
    return program.run(files={"port": "1", "victim": "1"}).status != "lost"


def no_survivor() -> bool:
    """Wait for every process of a sandbox to be gone; False if one is still there after a while."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not _sandboxed_processes():
            return True
        time.sleep(0.01)
    return False


def _sandboxed_processes() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"verifiers.sandbox.inside" in (entry / "cmdline").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


def _hello(execution: Execution, text: str) -> None:
    assert (execution.succeeded, text) == (True, "ok\n")


def _forkbomb(execution: Execution, text: str) -> None:
    forked = re.search(r"forked (\d+)", text)
    assert forked is not None
    assert int(forked[1]) <= LIMITS.processes + 2


def _membomb(execution: Execution, text: str) -> None:
    stopped = re.search(r"MemoryError at (\d+) MB", text)
    assert execution.status == "memory" or (stopped and int(stopped[1]) <= LIMITS.memory_mb + LIMITS.stack_mb)


def _diskfill(execution: Execution, text: str) -> None:
    assert "wrote" not in text
    written = {place: int(size) for place, size in re.findall(r"(\S+) stopped at (\d+) MB", text)}
    assert execution.status in ("disk", "timeout") or written.pop(".") <= LIMITS.disk_mb
    assert not any(written.values())


def _bigfile(execution: Execution, text: str) -> None:
    assert "stopped" in text or execution.status in ("signalled", "disk")


def _output(execution: Execution, text: str) -> None:
    assert execution.status == "output"
    assert len(text) <= LIMITS.output_mb << 20
    assert execution.wall_s < LIMITS.wall


def _no_line_with(*words: str) -> Callable[[Execution, str], None]:
    def check(execution: Execution, text: str) -> None:
        assert execution.succeeded, execution
        assert not [line for line in text.splitlines() if line.startswith(words)], text

    return check


def _secrets(execution: Execution, text: str) -> None:
    _no_line_with("READ")(execution, text)
    assert "ENV clean" in text


def _timed_out(execution: Execution, text: str) -> None:
    assert execution.status == "timeout"


def _recursion(execution: Execution, text: str) -> None:
    assert not execution.succeeded


def _normal_end(execution: Execution, text: str) -> None:
    assert (execution.succeeded, text) == (True, "3\n")


CRITERIA: dict[str, Callable[[Execution, str], None]] = {
    "hello": _hello,
    "forkbomb": _forkbomb,
    "membomb": _membomb,
    "diskfill": _diskfill,
    "bigfile": _bigfile,
    "output": _output,
    "net": _no_line_with("CONNECTED"),
    "secrets": _secrets,
    "kill": _no_line_with("KILLED"),
    "writes": _no_line_with("WROTE"),
    "sigterm": _timed_out,
    "sleep": _timed_out,
    "recursion": _recursion,
    "exit0": _normal_end,
    "osexit": _normal_end,
}


def as_plain_user(action: Callable[[], T]) -> T:
    """Run ``action`` in a fork of this process as a user without privileges; its exception is raised here."""
    if os.geteuid() != 0:
        return action()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(PLAIN_USER)
        os.setuid(PLAIN_USER)
        signal.alarm(300)
        outcome: tuple[bool, Any]
        try:
            outcome = (True, action())
        except BaseException as error:
            outcome = (False, RuntimeError(f"{type(error).__name__}: {error}"))
        os.write(write, pickle.dumps(outcome))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        succeeded, value = pickle.loads(pipe.read())
    os.waitpid(pid, 0)
    if not succeeded:
        raise value
    return cast(T, value)
