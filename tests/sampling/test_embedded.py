"""The embedded engine, for real: a llama.cpp child process and the bundled model."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from aiohttp import ClientSession

import pacore
from pacore.errors import EngineError, MissingExtraError
from pacore.events import TrajectoryFinished
from pacore.sampling.bundled_model import MODEL_NAME, ensure_model
from pacore.sampling.embedded import EngineSettings, embedded_endpoint
from pacore.types import SamplingParams
from support.command import pacore as command
from support.running import of_kind, run_events

pytestmark = pytest.mark.slow
SMALL = EngineSettings(slots=2, window=1024)


def quiet(line: str) -> None:
    """Nobody needs to hear it."""


async def test_the_bundled_model_answers_and_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    calm = SamplingParams(temperature=0.2)
    question = "What is 2 + 2? Answer in one short sentence."
    result = await pacore.solve(question, schedule="2", engine=SMALL, sampling=calm)
    assert result.answer
    assert result.calls.made >= 3
    assert not result.usage.estimated
    assert "shows the mechanics, not the gains" in capsys.readouterr().err


async def test_its_calls_sample_plainly_with_their_own_seeds_and_a_cap() -> None:
    async with embedded_endpoint(SMALL, report=quiet) as endpoint:
        assert endpoint.extra_body["top_k"] == 0
        assert endpoint.extra_body["min_p"] == 0.0
        assert endpoint.extra_body["max_tokens"] == SMALL.max_tokens
        async with ClientSession() as session, session.get(endpoint.base_url + "/models") as response:
            listed = await response.json()
        assert [model["id"] for model in listed["data"]] == [MODEL_NAME]
        assert listed["data"][0]["meta"]["n_ctx"] == SMALL.window
        events = await run_events(
            "Name a colour.", endpoint=endpoint, schedule="4", sampling=SamplingParams(max_tokens=24)
        )
    texts = [finished.trajectory.content for finished in of_kind(events, TrajectoryFinished)]
    assert len(set(texts[:4])) == 4


def children_of(process: int) -> list[psutil.Process]:
    return psutil.Process(process).children(recursive=True)


async def test_the_engine_ends_with_the_block() -> None:
    # Other tests may have left helpers of their own, as multiprocessing does.
    before = set(children_of(os.getpid()))
    async with embedded_endpoint(SMALL, report=quiet):
        (child,) = set(children_of(os.getpid())) - before
    assert not child.is_running()


async def test_the_engine_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import asyncio\n"
        "from pacore.sampling.embedded import EngineSettings, embedded_endpoint\n"
        "async def main():\n"
        "    async with embedded_endpoint(EngineSettings(slots=1, window=512), report=print):\n"
        "        print('up', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    assert (await parent.stdout.readline()).strip() == b"up"
    (engine,) = children_of(parent.pid)
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    await asyncio.to_thread(psutil.wait_procs, [engine], timeout=10)
    assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE


async def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF nothing more")
    with pytest.raises(EngineError, match=r"could not load .*broken\.gguf"):
        async with embedded_endpoint(EngineSettings(gguf=broken), report=quiet):
            pass


async def test_another_model_is_served_by_its_path(tmp_path: Path) -> None:
    own = tmp_path / "own-model.gguf"
    own.symlink_to(ensure_model(offline=False, report=quiet))
    outcome = await command("ask", "Say hi.", "--gguf", str(own), "--schedule", "single", "--max-tokens", "8")
    assert outcome.out.strip() or outcome.status == 2
    assert "no endpoint is configured" not in outcome.err


async def test_without_the_engine_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pacore\[embedded\]'"):
        async with embedded_endpoint(SMALL, report=quiet):
            pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "gpt-9"], f"does not serve the model 'gpt-9'; it serves '{MODEL_NAME}'"),
        (
            ["--base-url", "http://127.0.0.1:9/v1"],
            "nothing answers at http://127.0.0.1:9/v1 (Connection refused)",
        ),
        (["--schedule", "4", "--max-tokens", "16"], "does not fit the model's window (request ("),
    ],
)
async def test_mistakes_against_a_llama_cpp_endpoint_are_one_sentence_that_says_what_to_do(
    arguments: list[str], words: str
) -> None:
    question = "Why? " * 2000 if "--schedule" in arguments else "Why?"
    async with embedded_endpoint(SMALL, report=quiet) as endpoint:
        outcome = await command("ask", question, "--base-url", endpoint.base_url, "-q", *arguments)
    assert outcome.status in (1, 2)
    assert words in outcome.err
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
