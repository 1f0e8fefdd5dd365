"""Partial containment where no namespaces can be had: landlock with resource limits; and none at all."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pacore.errors import SandboxError
from pacore.verifiers.sandbox.backend import (
    Containment,
    Interpreter,
    Launch,
    as_user,
    environment,
    spare_user,
    system_folders,
)
from pacore.verifiers.sandbox.inside.confine import landlock_abi
from pacore.verifiers.sandbox.program import Limits
from pacore.verifiers.sandbox.seccomp import refusing_program

_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_NO_MEMORY_SUM = "memory is limited by process, not in sum"
_SLOW_DISK = "the work folder is on the host's disk, and its size is looked at only now and then"


class Landlock:
    """Files, TCP and, from ABI 6 on, signals by landlock; other sockets by seccomp; the rest by limits.

    Raises SandboxError where the kernel has no landlock.
    """

    containment: Containment = "partial"

    def __init__(self) -> None:
        abi = landlock_abi()
        if abi == 0:
            raise SandboxError("the kernel has no landlock, or it is switched off")
        self.name = f"landlock ABI {abi}"
        root = os.geteuid() == 0
        gaps = [_NO_MEMORY_SUM, _SLOW_DISK]
        if not refusing_program():
            gaps.append("UDP and unix sockets, since this machine's system calls are not known")
        if abi < 6 and not root:
            gaps.append("signals to other processes of this user, its own supervisor among them")
        if not root:
            gaps.append("the limit on processes counts all of this user's")
        self.gaps = tuple(gaps)

    @contextlib.contextmanager
    def launch(self, python: Interpreter, limits: Limits) -> Iterator[Launch]:
        """Prepare a sandbox for as long as the block lasts."""
        _, folders = system_folders()
        with _host_launch(limits) as launch:
            readable = [*folders, *python.folders, *_DEVICES]
            yield replace(launch, landlock={"read": readable, "write": [launch.work, "/dev/null"]})


class Uncontained:
    """Resource limits only: what the program does, this user does, or as root a user without any rights."""

    name = "resource limits only"
    containment: Containment = "none"
    gaps: tuple[str, ...] = (
        "files, network, signals, processes that outlive the run: all that the user running it may do",
    )

    @contextlib.contextmanager
    def launch(self, python: Interpreter, limits: Limits) -> Iterator[Launch]:
        """Prepare a place to run in for as long as the block lasts."""
        with _host_launch(limits) as launch:
            yield launch


@contextlib.contextmanager
def _host_launch(limits: Limits) -> Iterator[Launch]:
    user = spare_user()
    folder = tempfile.mkdtemp(prefix="pacore-sandbox-")
    try:
        work = Path(folder, "work")
        work.mkdir(mode=0o700)
        if user is not None:
            os.chmod(folder, 0o711)  # noqa: PTH101 - its user must reach the folder below
            os.chown(work, user, user)
        yield Launch(
            command=(),
            environment={**environment(), "TMPDIR": str(work)},
            work=str(work),
            processes=limits.processes + 1 + (0 if user is not None else _processes_of_this_user()),
            alone=user is not None,
            own_disk=False,
            user=user,
        )
    finally:
        if user is not None:
            _end_user(user)
        # Not shutil.rmtree: a program can lock folders, and nest them deeper than Python recurses.
        subprocess.run(["chmod", "-R", "u+rwx", folder], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", "--one-file-system", "--", folder], check=True)


def _end_user(user: int) -> None:
    """Kill all that runs as a spare user: what is left where a driver ended before its test."""
    subprocess.run(["kill", "-KILL", "--", "-1"], check=False, stderr=subprocess.DEVNULL, **as_user(user))


def _processes_of_this_user() -> int:
    """Threads of this user, which the limit on processes counts."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == os.getuid():
                    count += len(os.listdir(f"/proc/{entry.name}/task"))  # noqa: PTH208
    return count
