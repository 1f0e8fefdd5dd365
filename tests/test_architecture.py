"""The shape of the code, held by tests: layers, cycles, sizes, annotations, and what an import loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pacore"
LAYERS = {
    0: {"version", "types", "events", "errors", "config", "seeds", "problems"},
    1: {"sampling", "coordination"},
    2: {"traces", "verifiers"},
    3: {"session", "admission", "batch", "api", "server", "evals", "training", "data"},
    4: {"cli", "__main__"},
}
LAYER_OF = {name: layer for layer, names in LAYERS.items() for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))
# The public surface: it loads names from any layer when they are first used.
SURFACE = SOURCE / "__init__.py"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path) for path in MODULES}


def imported_by(path: Path) -> set[str]:
    """Our own modules that ``path`` imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            # "from package import module" imports the module.
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & NAMES) or {node.module}
    return found & NAMES


def layer_of(module: str) -> int:
    return LAYER_OF[module.split(".")[1]]


@pytest.mark.parametrize("path", [path for path in MODULES if path != SURFACE], ids=module_name)
def test_imports_point_down(path: Path) -> None:
    own = layer_of(module_name(path))
    for other in imported_by(path) - {"pacore"}:
        assert layer_of(other) <= own, f"{module_name(path)} (layer {own}) imports {other}"


def test_sampling_knows_nothing_of_coordination() -> None:
    for path in (SOURCE / "sampling").glob("*.py"):
        assert not any(name.startswith("pacore.coordination") for name in imported_by(path)), path


def test_there_are_no_import_cycles() -> None:
    graph = {module_name(path): imported_by(path) for path in MODULES if path != SURFACE}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_files_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    assert ast.get_docstring(ast.parse(text))


def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (f"{module_name(path)}:{node.lineno} {node.name}", node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_are_short() -> None:
    lengths = [length(node) for _, node in functions()]
    assert sum(size <= 35 for size in lengths) >= 0.9 * len(lengths)
    assert not [name for name, node in functions() if length(node) > 80]


def test_everything_is_annotated() -> None:
    for name, node in functions():
        assert node.returns is not None or node.name == "__init__", name
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        bare = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
        assert not bare, f"{name}: {bare}"


HEAVY = (
    "torch",
    "transformers",
    "starlette",
    "uvicorn",
    "xllamacpp",
    "aiohttp",
    "jinja2",
    "typer",
    "rich",
    "numpy",
)


def test_importing_pacore_loads_nothing_heavy_and_is_quick() -> None:
    code = (
        "import sys, time; begun = time.perf_counter(); import pacore; "
        "print(time.perf_counter() - begun, *sys.modules)"
    )
    outcomes = [
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
        for _ in range(3)
    ]
    assert min(float(seconds) for seconds, *_ in outcomes) < 0.3
    assert not {module.split(".")[0] for module in outcomes[0][1:]} & set(HEAVY)


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("pacore.api", {"typer", "rich", "xllamacpp", "torch", "starlette"}),
        ("pacore.cli.app", {"xllamacpp", "torch", "starlette", "numpy"}),
    ],
)
def test_optional_parts_are_loaded_only_where_they_are_used(module: str, unneeded: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert not {name.split(".")[0] for name in loaded.split()} & unneeded
