"""Frames between the host and a sandbox, with deadlines: neither side may keep the host waiting."""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any

_MOST_HEADER = 1 << 20


class PipeEndedError(Exception):
    """The other side has gone, is too slow, or sends what no driver sends."""


class HostPipe:
    """A length, a JSON header with the payload's length, the payload; both ways."""

    def __init__(self, to_sandbox: int, from_sandbox: int) -> None:
        self._to, self._from = to_sandbox, from_sandbox
        os.set_blocking(to_sandbox, False)
        os.set_blocking(from_sandbox, False)

    def send(self, header: dict[str, Any], payload: bytes, deadline: float) -> None:
        """Send a frame; ``deadline`` by the monotonic clock."""
        text = json.dumps({**header, "payload": len(payload)}).encode()
        for part in (struct.pack("=I", len(text)) + text, payload):
            view = memoryview(part)
            while view:
                _wait(self._to, deadline, writing=True)
                try:
                    view = view[os.write(self._to, view) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError as error:
                    raise PipeEndedError("the sandbox has ended") from error

    def receive(self, deadline: float, *, most: int) -> tuple[dict[str, Any], bytes]:
        """The next frame, with a payload of no more than ``most`` bytes."""
        size = struct.unpack("=I", self._exactly(4, deadline))[0]
        if size > _MOST_HEADER:
            raise PipeEndedError(f"a header of {size} bytes")
        header: dict[str, Any] = json.loads(self._exactly(size, deadline))
        if not 0 <= header["payload"] <= most:
            raise PipeEndedError(f"a payload of {header['payload']} bytes, where {most} are allowed")
        return header, self._exactly(header["payload"], deadline)

    def _exactly(self, size: int, deadline: float) -> bytes:
        text = bytearray()
        while len(text) < size:
            _wait(self._from, deadline, writing=False)
            try:
                chunk = os.read(self._from, min(size - len(text), 1 << 20))
            except BlockingIOError:
                continue
            if not chunk:
                raise PipeEndedError("the sandbox has ended")
            text += chunk
        return bytes(text)


def _wait(fd: int, deadline: float, *, writing: bool) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLOUT if writing else select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise PipeEndedError("no answer in time")
