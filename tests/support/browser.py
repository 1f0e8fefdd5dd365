"""A real headless Chromium, for pages that people will look at."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


def chromium() -> str | None:
    """The browser's program, where it is installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def dom_of(page: Path | str, *, size: str = "1200,2000", wait_s: float = 0) -> str:
    """The document of a page, by path or address, after ``wait_s`` seconds of its own time."""
    return _run("--dump-dom", page, size, wait_s)


def screenshot_of(page: Path, picture: Path, *, size: str = "1200,2000") -> bytes:
    """What a page looks like, as PNG."""
    _run(f"--screenshot={picture}", page, size, 0)
    return picture.read_bytes()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder on a loopback socket; its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


def _run(action: str, page: Path | str, size: str, wait_s: float) -> str:
    program = chromium()
    assert program is not None, "install chromium"
    address = page.as_uri() if isinstance(page, Path) else page
    with tempfile.TemporaryDirectory() as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", f"--window-size={size}", action]
        if wait_s:
            command.append(f"--virtual-time-budget={int(wait_s * 1000)}")
        run = subprocess.run([*command, address], capture_output=True, text=True, timeout=120, check=True)
        return run.stdout
