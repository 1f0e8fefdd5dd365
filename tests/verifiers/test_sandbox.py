"""The sandbox: what programs may do, what ends them, and what no program gets past."""

from __future__ import annotations

import ast
import json
import os
import shutil
import struct
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pacore.errors import ConfigError, SandboxError
from pacore.verifiers.sandbox import inside
from pacore.verifiers.sandbox.backend import Backend, Containment, find_interpreter
from pacore.verifiers.sandbox.bubblewrap import Bubblewrap, bubblewrap_binaries
from pacore.verifiers.sandbox.choose import find_sandbox, probe
from pacore.verifiers.sandbox.program import Execution, Limits, Program
from pacore.verifiers.sandbox.sandbox import BuildError, Sandbox
from pacore.verifiers.sandbox.seccomp import refusing_program
from pacore.verifiers.sandbox.unprivileged import Landlock, Uncontained
from support.attacks import ATTACKS, LIMITS, as_plain_user, attack, host, no_survivor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's")
BACKENDS = [f"bubblewrap-{number}" for number in range(len(bubblewrap_binaries()))] + ["landlock"]
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler here")


def backend(name: str) -> Backend:
    kind, _, number = name.partition("-")
    return Bubblewrap(bubblewrap_binaries()[int(number)]) if kind == "bubblewrap" else Landlock()


def contained(name: str) -> Sandbox:
    return Sandbox(backend(name), find_interpreter())


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return find_sandbox()


def run(sandbox: Sandbox, source: str, limits: Limits = LIMITS, stdin: bytes = b"") -> Execution:
    with sandbox.open(Program(source=source), limits) as program:
        return program.run(stdin)


def test_full_containment_works_here() -> None:
    assert find_sandbox().backend.containment == "full"


@pytest.mark.slow
@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_gets_anywhere(name: str, backend_name: str) -> None:
    attack(contained(backend_name), name)


@pytest.mark.slow
@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.skipif(os.geteuid() != 0, reason="this user is a plain one already")
def test_no_attack_of_a_plain_users_program_gets_anywhere(backend_name: str) -> None:
    if not os.access(Path(inside.__file__).parent, os.X_OK) or not _readable_by_others(Path(inside.__file__)):
        pytest.skip("this checkout cannot be read by other users")

    def all_attacks() -> list[str]:
        sandbox = contained(backend_name)
        for name in ATTACKS:
            attack(sandbox, name)
        return list(ATTACKS)

    assert as_plain_user(all_attacks) == list(ATTACKS)


def _readable_by_others(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


MORE_ATTACKS = {
    "a process that leaves its session": (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\n"
    ),
    "processes that fork and end without pause": (
        "import os\nif os.fork() == 0:\n  while True:\n"
        "    try:\n      if os.fork(): os._exit(0)\n    except OSError: pass\n"
    ),
    "signals to the supervisor": (
        "import os\nfor pid in (os.getppid(), 1, -1):\n  for signal in (19, 9):\n"
        "    try: os.kill(pid, signal)\n    except OSError: pass\n"
    ),
    "folders nested deeper than paths are long": (
        "import os\nfor _ in range(20_000): os.mkdir('d'); os.chdir('d')\n"
    ),
    "a locked work folder": (
        "import os\nos.makedirs('a/b')\nopen('a/b/f', 'w').close()\n"
        "for path in ('a/b', 'a', '.'): os.chmod(path, 0)\n"
    ),
    "a flood of errors": "import sys\nwhile True: sys.stderr.write('y' * 65536)\n",
    "memory held in many processes": (
        "import os, time\nfor _ in range(8):\n"
        "  if os.fork() == 0:\n    held = bytearray(200 << 20); time.sleep(20)\ntime.sleep(20)\n"
    ),
    "memory that no limit counts": (
        "import os\nheld = [os.memfd_create(str(n)) for n in range(100)]\n"
        "for fd in held: os.write(fd, b'x' * (60 << 20))\n"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("name", MORE_ATTACKS)
def test_the_next_test_runs_after(name: str, backend_name: str) -> None:
    with contained(backend_name).open(Program(source=MORE_ATTACKS[name]), LIMITS) as program:
        assert program.run().status != "lost"
        assert program.run().status != "lost"
    assert no_survivor()


def test_empty_files_without_number_are_stopped(sandbox: Sandbox) -> None:
    source = "n = 0\nwhile True:\n    open(str(n), 'w').close(); n += 1"
    assert run(sandbox, source, Limits(cpu_s=20)).status == "disk"


@pytest.mark.parametrize(
    "call",
    [
        "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)",
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "os.sched_setaffinity(os.getppid(), {0})",
    ],
)
def test_other_processes_keep_their_limits(sandbox: Sandbox, call: str) -> None:
    source = f"import os, resource\ntry: {call}\nexcept PermissionError: print('refused')"
    assert run(sandbox, source).output == b"refused\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_a_plain_users_files_keep_their_modes_and_times_under_landlock() -> None:
    def changed() -> list[str]:
        with tempfile.NamedTemporaryFile() as mine:
            before = Path(mine.name).stat()
            source = "import os, sys\n" + "".join(
                f"try: {call}\nexcept OSError: pass\n"
                for call in (
                    f"os.chmod({mine.name!r}, 0o777)",
                    f"os.utime({mine.name!r}, (0, 0))",
                    f"os.setxattr({mine.name!r}, 'user.x', b'y')",
                )
            )
            with contained("landlock").open(Program(source=source), LIMITS) as program:
                assert program.run().succeeded
            after = Path(mine.name).stat()
            return [] if (before.st_mode, before.st_mtime) == (after.st_mode, after.st_mtime) else ["changed"]

    if not _readable_by_others(Path(inside.__file__)):
        pytest.skip("this checkout cannot be read by other users")
    assert as_plain_user(changed) == []


def test_the_supervisor_cannot_be_looked_into(sandbox: Sandbox) -> None:
    source = (
        "import os\nfor name in ('environ', 'maps', 'mem', 'fd'):\n"
        "  try:\n    path = f'/proc/{os.getppid()}/{name}'\n"
        "    os.listdir(path) if name == 'fd' else open(path, 'rb').read(1)\n    print('READ', name)\n"
        "  except OSError: pass\nprint(sorted(map(int, os.listdir('/proc/self/fd'))))"
    )
    # 0 to 2, the returned value's, and the one that lists.
    assert run(sandbox, source).output == b"[0, 1, 2, 3, 4]\n"


def test_a_program_reads_stdin_and_ends_with_its_own_exit_code(sandbox: Sandbox) -> None:
    execution = run(sandbox, "import sys\nprint(input()[::-1])\nsys.exit(7)", stdin="grün\n".encode())
    assert (execution.status, execution.code, execution.output) == ("ended", 7, "nürg\n".encode())


def test_stdin_is_a_file_that_can_be_read_in_every_way(sandbox: Sandbox) -> None:
    source = (
        "import sys\nprint(len(sys.stdin.read()))\nsys.stdin.seek(0)\nprint(len(sys.stdin.buffer.read()))\n"
        "sys.stdin.seek(0)\nprint(len(open(0).read()))"
    )
    assert run(sandbox, source, stdin=b"x" * 3_000_000).output == b"3000000\n" * 3


def test_exit_handlers_and_threads_end_as_ever(sandbox: Sandbox) -> None:
    source = (
        "import atexit, threading, time\natexit.register(lambda: print('handler'))\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main', end=' ')"
    )
    assert run(sandbox, source).output == b"main thread\nhandler\n"


def test_a_traceback_begins_in_the_program(sandbox: Sandbox) -> None:
    execution = run(sandbox, "def f():\n    raise ValueError('wrong')\nf()")
    assert execution.code == 1
    assert execution.errors.splitlines()[1] == '  File "program.py", line 3, in <module>'
    assert "    f()" in execution.errors
    assert execution.errors.endswith("ValueError: wrong\n")


def test_deep_recursion_has_a_stack(sandbox: Sandbox) -> None:
    source = (
        "import sys, functools\nsys.setrecursionlimit(10**6)\n"
        "@functools.lru_cache(None)\ndef f(n): return 0 if n == 0 else f(n - 1) + 1\nprint(f(50_000))"
    )
    assert run(sandbox, source, Limits(cpu_s=10)).output == b"50000\n"


def test_nothing_is_left_for_the_next_test(sandbox: Sandbox) -> None:
    source = (
        "import os, math\nprint(os.listdir(), hasattr(math, 'left'))\n"
        "open('left', 'w').close()\nmath.left = 1"
    )
    with sandbox.open(Program(source=source), LIMITS) as program:
        assert [program.run().output for _ in range(2)] == [b"[] False\n"] * 2


def test_a_file_written_comes_back_and_a_link_does_not(sandbox: Sandbox) -> None:
    source = (
        "import os\nopen('out.txt', 'w').write('42')\n"
        "os.symlink('/usr/bin/python3', 'link')\nos.mkfifo('pipe')"
    )
    with sandbox.open(Program(source=source), LIMITS) as program:
        execution = program.run(collect=["out.txt", "link", "pipe", "absent"])
    assert execution.files == {"out.txt": b"42"}


@pytest.mark.parametrize("name", ["../up", "/etc/x", ".hidden", ""])
def test_a_name_with_folders_is_refused(sandbox: Sandbox, name: str) -> None:
    with sandbox.open(Program(source=""), LIMITS) as program, pytest.raises(ConfigError, match="file name"):
        program.run(files={name: ""})


def test_a_function_returns_plain_values(sandbox: Sandbox) -> None:
    source = "def f(x): return [x, (1, 2.5), {'k': {3}}, 1 << 300, None, True, f]"
    with sandbox.open(Program(source=source, function="f"), LIMITS) as program:
        returned = program.run(call=["é"]).returned
    assert json.loads(returned) == {
        "list": [
            "é",
            {"tuple": [{"int": "0x1"}, {"float": (2.5).hex()}]},
            {"dict": [["k", {"set": [{"int": "0x3"}]}]]},
            {"int": hex(1 << 300)},
            None,
            True,
            {"other": "function"},
        ]
    }


def test_many_threads_have_a_sandbox_each(sandbox: Sandbox) -> None:
    outputs: dict[int, bytes] = {}

    def work(number: int) -> None:
        outputs[number] = run(sandbox, f"print({number})", Limits(cpu_s=20)).output

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {number: b"%d\n" % number for number in range(16)}


@needs_compiler
def test_a_cpp_program_is_compiled_once_and_cannot_change_itself(sandbox: Sandbox) -> None:
    source = (
        '#include <cstdio>\nint main() { int a, b; scanf("%d %d", &a, &b); printf("%d\\n", a + b);'
        'FILE* self = fopen("/proc/self/exe", "r+"); if (self) printf("open\\n"); }'
    )
    with sandbox.open(Program(source=source, language="cpp"), LIMITS) as program:
        assert program.run(b"1 2").output == b"3\n"
        assert program.run(b"3 4").output == b"7\n"


@needs_compiler
def test_a_program_that_does_not_compile_is_told_why(sandbox: Sandbox) -> None:
    program = Program(source="int main() { return unknown; }", language="cpp")
    with (
        sandbox.open(program, LIMITS) as running,
        pytest.raises(BuildError, match=r"unknown.+ was not declared"),
    ):
        running.run()


def test_without_containment_nothing_runs_unless_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_landlock() -> Landlock:
        raise SandboxError("no landlock on this kernel")

    monkeypatch.setattr("pacore.verifiers.sandbox.choose.bubblewrap_binaries", lambda: [Path("/bin/false")])
    monkeypatch.setattr("pacore.verifiers.sandbox.choose.Landlock", no_landlock)
    with pytest.raises(SandboxError, match=r"--allow-unsafe-exec.*Tried: /bin/false.*no landlock on this"):
        find_sandbox()
    unsafe = find_sandbox(allow_unsafe=True)
    assert "none containment" in unsafe.described
    assert run(unsafe, "print(1)").output == b"1\n"


def test_a_sandbox_that_does_not_hold_is_refused() -> None:
    class Leaking(Uncontained):
        containment: Containment = "full"

    with pytest.raises(SandboxError, match="does not hold, a program reaches files"):
        probe(Sandbox(Leaking(), find_interpreter()))


def test_partial_containment_says_what_it_leaves() -> None:
    described = Sandbox(Landlock(), find_interpreter()).described
    assert "partial containment" in described
    assert "not contained: memory is limited by process" in described


def test_an_interpreter_that_is_none_is_told() -> None:
    with pytest.raises(SandboxError, match="no Python can be run"):
        find_interpreter(Path("/bin/true"))


def test_the_filter_knows_the_common_machines() -> None:
    for machine in ("x86_64", "aarch64"):
        code = list(struct.iter_unpack("=HBBI", refusing_program(machine)))
        # Whatever is not refused is allowed, and every jump lands inside.
        assert code[-1] == (0x06, 0, 0, 0x7FFF0000)
        assert all(place + 1 + max(yes, no) < len(code) for place, (_, yes, no, _) in enumerate(code[:-1]))
    assert refusing_program("riscv64") == b""


def test_what_runs_inside_needs_only_the_standard_library() -> None:
    for path in Path(inside.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names or name.startswith(
                    "pacore.verifiers.sandbox.inside."
                ), f"{path}: {name}"


def test_an_attack_that_succeeds_is_noticed() -> None:
    """The attack list itself: without containment it must fail, or it tests nothing."""
    with host() as target:
        sandbox = Sandbox(Uncontained(), find_interpreter())
        with sandbox.open(Program(source=target.armed("net")), LIMITS) as program:
            assert b"CONNECTED" in program.run(files=target.files).output
