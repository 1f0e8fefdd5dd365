"""The ways to contain a program: what each promises, and the interpreter they all need."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from pacore.errors import SandboxError
from pacore.verifiers.sandbox.program import Limits

Containment = Literal["full", "partial", "none"]
_OLDEST_PYTHON = (3, 9)
# Users that nobody has, one for each sandbox, so that sandboxes cannot reach each other either.
_FIRST_SPARE_UID, _SPARE_UIDS = 0x5800_0000, 1 << 26


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python that can be run inside, and the folders it needs beside those of the system.

    ``magic`` says which compiled code it reads.
    """

    executable: str
    folders: tuple[str, ...]
    version: str
    magic: str


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start one sandbox: a command that the driver's own is appended to, and what holds in it.

    ``alone``: nothing but the sandbox's own processes can be killed from inside. ``own_disk``: the work
    folder has a size of its own. ``processes``: the limit to set there.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    work: str
    processes: int
    alone: bool
    own_disk: bool
    user: int | None = None
    pass_fds: Sequence[int] = ()
    landlock: Mapping[str, Sequence[str]] | None = None


class Backend(Protocol):
    """A way to contain a program. ``gaps`` says what it does not contain."""

    name: str
    containment: Containment
    gaps: tuple[str, ...]

    def launch(self, python: Interpreter, limits: Limits) -> AbstractContextManager[Launch]:
        """Prepare a sandbox for as long as the block lasts."""


def spare_user() -> int | None:
    """As root, a user id that no account has nor, one of 67 million, another sandbox; else ``None``."""
    return _FIRST_SPARE_UID + secrets.randbelow(_SPARE_UIDS) if os.geteuid() == 0 else None


def environment() -> dict[str, str]:
    """What a program may know of the environment. Hash seeds are fixed, so that runs repeat."""
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}


def python_command(python: Interpreter) -> list[str]:
    """Start of the driver's command."""
    return [python.executable, "-s", "-B", "-X", "utf8"]


def find_interpreter(wanted: Path | None = None) -> Interpreter:
    """The Python to run inside: ``wanted``, or the one below this environment, or the system's.

    As root it must be readable by other users, since programs are not run as root.
    Raises SandboxError where there is none.
    """
    candidates = [wanted] if wanted else [Path(sys.executable).resolve(), *_SYSTEM_PYTHONS]
    refusals = []
    for candidate in candidates:
        try:
            return _asked(candidate)
        except SandboxError as error:
            refusals.append(str(error))
    raise SandboxError(
        "no Python can be run inside a sandbox; as root it must be readable by others, and be 3.9 or later: "
        + "; ".join(refusals)
    )


_SYSTEM_PYTHONS = (Path("/usr/bin/python3"), Path("/usr/local/bin/python3"))
_QUESTION = (
    "import sys, json, ctypes, importlib.util\n"
    "magic = importlib.util.MAGIC_NUMBER.hex()\n"
    "print(json.dumps([magic, list(sys.version_info[:3]), sys.prefix, sys.base_prefix, sys.exec_prefix]))"
)


def _asked(candidate: Path) -> Interpreter:
    try:
        done = subprocess.run(
            [candidate, "-I", "-c", _QUESTION],
            check=True,
            capture_output=True,
            timeout=60,
            cwd="/",
            env=environment(),
            **as_user(spare_user()),
        )
        magic, version, *folders = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        raise SandboxError(f"{candidate}: {error.stderr.decode(errors='replace')[-200:]}") from error
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise SandboxError(f"{candidate}: {error}") from error
    if tuple(version) < _OLDEST_PYTHON:
        raise SandboxError(f"{candidate}: is {'.'.join(map(str, version))}")
    needed = {str(Path(folder).resolve()) for folder in folders} | {str(candidate.resolve().parent)}
    outside = tuple(sorted(folder for folder in needed if not Path(folder).is_relative_to("/usr")))
    return Interpreter(
        executable=str(candidate), folders=outside, version=".".join(map(str, version)), magic=magic
    )


def as_user(user: int | None) -> dict[str, Any]:
    """Arguments of subprocess that give up every privilege for ``user``."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def system_folders() -> tuple[list[tuple[str, str]], list[str]]:
    """Of the folders that programs and compilers need: links as (target, path), and real ones."""
    links, folders = [], ["/usr"]
    for name in ("/bin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(name):  # noqa: PTH114 - paths here are texts for command lines
            links.append((os.readlink(name), name))  # noqa: PTH115
        elif os.path.isdir(name):  # noqa: PTH112
            folders.append(name)
    folders += [name for name in ("/etc/alternatives", "/etc/ld.so.cache") if os.path.exists(name)]  # noqa: PTH110
    return links, folders
