"""What goes into a sandbox and what comes out: a program, its limits, and what running it came to."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from pacore.errors import ConfigError

Status = Literal["ended", "signalled", "timeout", "memory", "output", "disk", "lost"]
Language = Literal["python", "cpp"]


class Limits(Struct, frozen=True, kw_only=True):
    """What one test may use. Seconds and MiB; ``wall_s`` is twice the CPU time and a second by default.

    Memory is counted by process, without the stack, and in sum where the sandbox can see all processes.
    The kernel leaves 128 MiB for the stack of a process that forks from another.
    """

    cpu_s: float = 10.0
    wall_s: float | None = None
    memory_mb: int = 1024
    stack_mb: int = 128
    processes: int = 32
    disk_mb: int = 64
    output_mb: int = 16

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"the limit {name} is {value}; it must be above 0")

    @property
    def wall(self) -> float:
        """Seconds a test may take by the clock."""
        return 2 * self.cpu_s + 1 if self.wall_s is None else self.wall_s


class Program(Struct, frozen=True, kw_only=True):
    """A program and how it is run.

    ``function``: called with the test's arguments instead of being fed on stdin. ``harness``: statements
    run after the program; where they reach their end, ``true`` is returned. ``prelude``: the imports that
    LiveCodeBench puts before a solution. ``ignore_exit``: ``sys.exit(1)`` is a normal end. ``files`` stand
    beside a C++ source while it is compiled.
    """

    source: str
    language: Language = "python"
    function: str | None = None
    harness: str | None = None
    prelude: bool = False
    ignore_exit: bool = False
    files: dict[str, str] = {}


class Execution(Struct, frozen=True, kw_only=True):
    """One run of a program.

    ``ended`` has an exit code, ``signalled`` a signal number in ``code``; the others name the limit that
    ended it. ``lost``: the sandbox itself ended with it. ``returned`` is the function's value in tagged
    JSON. ``files`` holds what was asked for and is there.
    """

    status: Status
    code: int = 0
    output: bytes = b""
    errors: str = ""
    returned: str = ""
    files: dict[str, bytes] = {}
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0

    @property
    def succeeded(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.status == "ended" and self.code == 0
