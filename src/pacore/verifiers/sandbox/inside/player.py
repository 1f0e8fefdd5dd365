"""In the forked child: be the program, then end as any program does."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import types
from typing import Any, NoReturn

NAME = "program.py"
# What LiveCodeBench's harness imports before a solution, in its order: with a star, then by name.
PRELUDE = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
MISSING_COMMAND = 127
_DEPTH = 200


def play(request: dict[str, Any], report_fd: int, binary: int) -> NoReturn:
    """Be the program of ``request``; a returned value goes to ``report_fd`` as one JSON value.

    Python programs end as by themselves, with their threads and exit handlers, but nothing is torn down:
    that would copy every page shared with the driver, which takes longer than most programs run.
    """
    program = request["program"]
    if "command" in program:
        _be_command(program["command"])
    if binary >= 0:
        os.execve(binary, ["program", *request["args"]], dict(os.environ))
    try:
        _run_python(request, report_fd)
        code = 0
    except SystemExit as leaving:
        code = _exit_code(leaving, ignored=program["ignore_exit"] and program["function"] is None)
    except BaseException as error:
        _show_error(error, program["source"])
        code = 1
    os._exit(_finished(code))


def _run_python(request: dict[str, Any], report_fd: int) -> None:
    program = request["program"]
    module = _main_module(program, request["args"])
    code = compile(program["source"], NAME, "exec", dont_inherit=True)
    given = dict(module.__dict__)
    if program["function"] is None and program["harness"] is None:
        exec(code, module.__dict__)
        return
    sys.stdout = sys.stderr
    exec(code, module.__dict__)
    value: Any = True
    if program["harness"] is not None:
        exec(compile(program["harness"], "tests.py", "exec", dont_inherit=True), module.__dict__)
    else:
        name = program["function"]
        if module.__dict__.get(name) is given.get(name) and name not in program["source"]:
            # From the prelude: nothing that the program can be credited with.
            module.__dict__.pop(name, None)
        value = plain(call(module, name, json.loads(request["call"])))
    with os.fdopen(report_fd, "w") as results:
        results.write(json.dumps(value))


def _exit_code(leaving: SystemExit, *, ignored: bool) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return 0 if ignored else int(leaving.code or 0) & 0xFF
    print(leaving.code, file=sys.stderr)
    return 0 if ignored else 1


def _finished(code: int) -> int:
    """What the interpreter does at its end: wait for threads, call exit handlers, let go of the program's
    objects, which closes its files, and flush.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _flush()
        sys.modules["__main__"].__dict__.clear()
        _flush()
    except BaseException as error:
        _show_error(error, "")
        return 120
    return code


def _flush() -> None:
    """Also what the program has put something else in place of."""
    for stream in (sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__):
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()


def _be_command(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        os._exit(MISSING_COMMAND)


def _main_module(program: dict[str, Any], args: list[str]) -> types.ModuleType:
    # The driver's own was opened on a pipe; this one can be sought in, as a file's.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it ends with the process
    sys.argv = [NAME, *args]
    sys.path[:] = [*(entry for entry in sys.path if entry), os.getcwd()]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    if program["prelude"]:
        for name in PRELUDE:
            exec(f"from {name} import *\nimport {name}", module.__dict__)
        sys.setrecursionlimit(50_000)
    # As where a harness imports it: the part of a program under its guard is for running it alone.
    alone = program["function"] is None and program["harness"] is None
    module.__dict__.update(
        __name__="__main__" if alone else "solution", __file__=NAME, __builtins__=sys.modules["builtins"]
    )
    sys.modules.setdefault(module.__name__, module)
    return module


def _show_error(error: BaseException, source: str) -> None:
    """A traceback that begins in the program."""
    # Imported here, as every sandbox would pay for it and few programs need it.
    import linecache
    import traceback

    linecache.cache[NAME] = (len(source), None, source.splitlines(keepends=True), NAME)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    with contextlib.suppress(Exception):
        sys.stderr.flush()


def call(module: types.ModuleType, function: str, arguments: list[Any]) -> Any:
    """Call the function or, where there is a class Solution, its method."""
    holder: Any = module.Solution() if hasattr(module, "Solution") else module
    if not hasattr(holder, function):
        raise AttributeError(f"the program has no function {function!r}")
    return getattr(holder, function)(*arguments)


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON, tagged where JSON has no such type; of what is no plain data only the type's name."""
    if depth > _DEPTH:
        return {"other": "nested"}
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"int": hex(value)}
    if isinstance(value, float):
        return {"float": float.hex(value)}
    if isinstance(value, dict):
        return {"dict": [[plain(key, depth + 1), plain(held, depth + 1)] for key, held in value.items()]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [plain(held, depth + 1) for held in value]}
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return plain(value.tolist(), depth + 1)
    return {"other": type(value).__name__}
