"""Server-sent events, decoded from bytes as they come (WHATWG HTML, section 9.2.6)."""

from __future__ import annotations

_SEPARATOR = b"\n\n"


class SSEDecoder:
    """Turns network reads into the data of events, wherever the reads were split.

    Only ``data`` matters to chat endpoints: comments (keep-alives), ``event``, ``id`` and ``retry``
    lines are skipped. Data stays bytes, so a character split between reads is never decoded in half.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next read; return the data of every event that it completes."""
        buffer = self._buffer
        buffer += chunk
        if self._at_start and buffer:
            self._drop_byte_order_mark()
        if b"\r" in buffer:
            self._normalise_line_ends()
        last = buffer.rfind(_SEPARATOR, self._scanned)
        if last < 0:
            self._scanned = max(0, len(buffer) - 1)
            return []
        blocks = bytes(buffer[:last]).split(_SEPARATOR)
        del buffer[: last + 2]
        self._scanned = 0
        return [data for block in blocks if (data := _data_of(block)) is not None]

    def finish(self) -> list[bytes]:
        """The stream ended: the data of a last event that lacked its blank line, if it has any."""
        return self.feed(b"\n\n") if self._buffer.strip() else []

    def _drop_byte_order_mark(self) -> None:
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            del self._buffer[:3]
        self._at_start = False

    def _normalise_line_ends(self) -> None:
        buffer = self._buffer
        # A CR at the very end may be half of a CRLF: it waits for the next read.
        held = buffer.endswith(b"\r")
        text = bytes(buffer[:-1] if held else buffer).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        buffer[:] = text + (b"\r" if held else b"")
        self._scanned = 0


def _data_of(block: bytes) -> bytes | None:
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = [_field_value(line) for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def _field_value(line: bytes) -> bytes:
    value = line[5:]
    return value[1:] if value.startswith(b" ") else value
