"""What the documents say works: every command, snippet and table in them is run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pacore.config import load_config
from pacore.coordination.schedules import PRESETS, parse_schedule
from pacore.data.recipe import load_recipe
from pacore.evals.benchmark import load_benchmark
from support.command import pacore
from support.endpoint import Answer, MockEndpoint

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ADDRESS = "http://127.0.0.1:8000/v1"
# Run elsewhere: the quickstart below, the test command by CI itself, installation by both of them.
ELSEWHERE = ("scripts/quickstart", "scripts/test", "pip install", "python -m benchmarks")


def blocks(document: Path, language: str) -> list[str]:
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", document.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in found]


def all_blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{d.name}-{n}", block) for d in DOCUMENTS for n, block in enumerate(blocks(d, language), start=1)
    ]


# In the shape of the real file, which is not shipped.
STAND_IN = "".join(
    json.dumps({"problem_idx": n, "problem": f"What is {n} + 20?", "answer": str(n + 20)}) + "\n"
    for n in (3, 4)
)


def answer(body: dict[str, Any]) -> Answer:
    """A judge that passes everything, and a model that is right now and then."""
    if "response_format" in body:
        return Answer('{"reasoning": "", "usable": "yes"}')
    return Answer(f"From {body['seed']}: \\boxed{{{24 if body['seed'] % 4 == 0 else 25}}}")


@pytest.fixture
async def served(upstream: MockEndpoint, tmp_path: Path) -> MockEndpoint:
    upstream.models = {"data": [{"id": "my-model"}]}
    upstream.behaviour = answer
    for path in (ROOT / "examples").iterdir():
        if path.suffix in (".jsonl", ".toml"):
            shutil.copy(path, tmp_path)
    (tmp_path / "hmmt_feb_2025.jsonl").write_text(STAND_IN)
    return upstream


# Their commands run whole evaluations, if small ones.
LONG = ("data.md", "evaluation.md")
MARKED = [
    pytest.param(path, marks=pytest.mark.slow if path.name in LONG else (), id=path.name)
    for path in DOCUMENTS
]


@pytest.mark.parametrize("document", MARKED)
async def test_every_command_works(document: Path, served: MockEndpoint, tmp_path: Path) -> None:
    lines = [line.strip() for block in blocks(document, "sh") for line in block.splitlines() if line.strip()]
    for line in lines:
        if line.startswith(ELSEWHERE):
            continue
        program, *arguments = shlex.split(line.replace(ADDRESS, served.url), comments=True)
        assert program == "pacore", line
        outcome = await pacore(*arguments, cwd=tmp_path, OPENAI_BASE_URL=served.url)
        assert outcome.status == 0, f"{line}\n{outcome.err}"


async def python(source: str, cwd: Path, url: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", source),
        cwd=cwd,
        env={**os.environ, "OPENAI_BASE_URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


SNIPPETS = all_blocks("python")


@pytest.mark.parametrize("source", [s for _, s in SNIPPETS], ids=[name for name, _ in SNIPPETS])
async def test_every_snippet_runs(source: str, served: MockEndpoint, tmp_path: Path) -> None:
    assert await python(source.replace(ADDRESS, served.url), tmp_path, served.url)


EXAMPLES = {path.name: path.read_text() for path in sorted((ROOT / "examples").glob("*.py"))}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_every_example_runs(name: str, served: MockEndpoint, tmp_path: Path) -> None:
    assert await python(EXAMPLES[name], tmp_path, served.url)


TABLES = all_blocks("toml")


@pytest.mark.parametrize("text", [text for _, text in TABLES], ids=[name for name, _ in TABLES])
def test_every_configuration_is_valid(text: str, tmp_path: Path) -> None:
    path = tmp_path / "pacore.toml"
    path.write_text(text)
    if "[[step]]" in text:
        assert load_recipe(path).step
        return
    if text.startswith("title"):
        assert load_benchmark(str(path)).title
        return
    config = load_config(path)
    for name in config.schedules:
        parse_schedule(name, config.schedules)


def test_the_table_of_presets_is_complete_and_right() -> None:
    text = (ROOT / "docs" / "schedules.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (\d+) \|", text, re.MULTILINE))
    assert rows == {name: str(schedule.planned_calls) for name, schedule in PRESETS.items()}


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


@pytest.mark.slow
def test_the_quickstart_answers_from_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for name in files:
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    environ = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PACORE_VENV")}
    outcome = subprocess.run(
        ["sh", "scripts/quickstart", "What is 2 + 2?", "--temperature", "0.2"],
        cwd=clone,
        env={**environ, "PACORE_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.strip()
    assert "shows the mechanics, not the gains" in outcome.stderr
