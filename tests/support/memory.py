"""Peak memory of a process."""

from __future__ import annotations

import re
from pathlib import Path


def peak_mib() -> int:
    """The most memory that this process held, in MiB. Unlike getrusage, which remembers what the process
    that it was forked from held before.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) // 1024
