"""Fixtures of the whole suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.endpoint import MockEndpoint

ROOT = Path(__file__).parent.parent


@pytest.fixture
async def upstream() -> AsyncIterator[MockEndpoint]:
    """A chat endpoint on a real socket; set its ``behaviour``."""
    async with MockEndpoint() as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
