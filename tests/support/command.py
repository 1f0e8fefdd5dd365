"""Running the ``pacore`` command as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Outcome:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


async def start(*arguments: str, cwd: Path | None = None, **environ: str) -> asyncio.subprocess.Process:
    """Start ``pacore`` with ``arguments``."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pacore",
        *arguments,
        cwd=cwd,
        env={**os.environ, **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def pacore(*arguments: str, cwd: Path | None = None, seconds: float = 120, **environ: str) -> Outcome:
    """Run ``pacore`` with ``arguments`` to its end."""
    process = await start(*arguments, cwd=cwd, **environ)
    async with asyncio.timeout(seconds):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Outcome(process.returncode, out.decode(), err.decode())
