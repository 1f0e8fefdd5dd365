"""The embedded engine: llama.cpp in a child process on a free loopback port.

It is spoken to through the same EndpointSampler as any other endpoint, so nothing else knows of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from pacore.config import Endpoint, Timeouts
from pacore.errors import EngineError, MissingExtraError
from pacore.sampling.bundled_model import MODEL_NAME, Report, ensure_model

NOTICE = (
    f"no endpoint is configured: {MODEL_NAME} answers on this machine. "
    "A 135M model shows the mechanics, not the gains; use --base-url for a real one."
)
START_SECONDS = 180.0


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine runs. ``window`` is in tokens per slot, ``max_tokens`` the cap always sent."""

    gguf: Path | None = None
    slots: int = 4
    window: int = 8192
    threads: int | None = None
    max_tokens: int = 1024
    offline: bool = False


@contextlib.asynccontextmanager
async def embedded_endpoint(settings: EngineSettings, *, report: Report) -> AsyncIterator[Endpoint]:
    """Run the engine for the length of the block; yields the endpoint to use.

    Raises MissingExtraError without xllamacpp, EngineError where model or engine cannot be had.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtraError("the embedded engine", "embedded")
    gguf = await asyncio.to_thread(_find_model, settings, report)
    name = MODEL_NAME if settings.gguf is None else gguf.stem
    with tempfile.TemporaryFile() as log:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pacore.sampling.engine_child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            # A busy-waiting OpenMP slows the engine 10 to 60 times when another process uses a core.
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
            # Ctrl-C is for us: the engine must outlive it until its answers are saved.
            start_new_session=True,
        )
        assert child.stdin is not None
        try:
            address = await _address(child, settings, gguf, name)
            yield _endpoint(address, name, settings)
        finally:
            child.stdin.close()
            await _end(child)


def _find_model(settings: EngineSettings, report: Report) -> Path:
    if settings.gguf is None:
        return ensure_model(offline=settings.offline, report=report)
    if not settings.gguf.is_file():
        raise EngineError(f"there is no model file {settings.gguf}; --gguf takes the path of a .gguf file")
    return settings.gguf


async def _address(child: asyncio.subprocess.Process, settings: EngineSettings, gguf: Path, name: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    threads = settings.threads or os.cpu_count() or 1
    line = {
        "gguf": str(gguf),
        "name": name,
        "slots": settings.slots,
        "window": settings.window,
        "threads": threads,
    }
    child.stdin.write(json.dumps(line).encode() + b"\n")
    try:
        async with asyncio.timeout(START_SECONDS):
            answer = await child.stdout.readline()
    except TimeoutError as error:
        raise EngineError(f"the embedded engine did not load {gguf} within {START_SECONDS:g} s") from error
    said = json.loads(answer) if answer else {"error": f"it ended with status {await child.wait()}"}
    if "error" in said:
        raise EngineError(
            f"the embedded engine could not load {gguf} ({said['error']}); is it a whole .gguf file "
            "that fits into memory?"
        )
    return str(said["address"])


def _endpoint(address: str, name: str, settings: EngineSettings) -> Endpoint:
    return Endpoint(
        name="embedded",
        base_url=f"{address}/v1",
        model=name,
        concurrency=settings.slots,
        window=settings.window,
        # On a busy machine the small engine may think for long before its first token.
        timeouts=Timeouts(first_token=1800.0),
        # The engine's own defaults (top_k 40, min_p 0.05) are not the method's plain sampling, and
        # without a cap a small model may write until its window is full.
        extra_body={"top_k": 0, "min_p": 0.0, "max_tokens": settings.max_tokens},
    )


async def _end(child: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(5):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()
