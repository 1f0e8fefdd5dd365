"""A chat endpoint that answers from prepared bytes, in a process of its own, and is not the bottleneck.

It parses just enough of HTTP to find the body, and of the body to find the model and the seed. The
model's name says what it does:

    small          a short whole answer
    whole-100k     100 KB of reasoning and a short conclusion, in one body
    stream-100k    the same in 500 server-sent events, each written by itself
    heavy          a short answer after a log-normal latency that follows from the seed
    faulty         20 % of calls fail in a way that another attempt may not meet

Run ``python -m benchmarks.mock``; the first line on stdout is the base URL. GET /stats tells the calls
taken and answered, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from collections.abc import Callable

CONCLUSION = "The answer is \\boxed{24}."
REASONING_BYTES = 100_000
EVENTS = 500
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_MODEL = re.compile(rb'"model": ?"([^"]+)"')
_SEED = re.compile(rb'"seed": ?(\d+)')
_STREAM = re.compile(rb'"stream": ?true')


def _http(status: str, body: bytes, *, kind: str = "application/json", extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


def _whole(model: str, reasoning: str, conclusion: str = CONCLUSION) -> bytes:
    message = {"role": "assistant", "content": conclusion, "reasoning_content": reasoning}
    tokens = (len(reasoning) + len(conclusion)) // 4
    answer = {
        "id": "mock",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": tokens + 20},
    }
    return _http("200 OK", json.dumps(answer).encode())


def _events(model: str, reasoning: str, pieces: int) -> list[bytes]:
    size = max(1, len(reasoning) // pieces)
    deltas = [{"reasoning_content": reasoning[at : at + size]} for at in range(0, len(reasoning), size)]
    deltas.append({"content": CONCLUSION})
    chunks = [
        {
            "id": "mock",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
        }
        for delta in deltas
    ]
    chunks.append(
        {"id": "mock", "model": model, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    )
    tokens = (len(reasoning) + len(CONCLUSION)) // 4
    chunks.append(
        {
            "id": "mock",
            "model": model,
            "choices": [],
            "usage": {"prompt_tokens": 20, "completion_tokens": tokens},
        }
    )
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_TEXT = ("Let us check the exponents once more: 360 = 2^3 * 3^2 * 5. " * 2_000)[:REASONING_BYTES]
_SMALL = _whole("small", "")
_LARGE = _whole("whole-100k", _TEXT)
_STREAMED = [b"%x\r\n%s\r\n" % (len(event), event) for event in _events("stream-100k", _TEXT, EVENTS)]
_SMALL_STREAMED = [b"%x\r\n%s\r\n" % (len(event), event) for event in _events("small", "", 1)]
_MODELS = _http("200 OK", b'{"object": "list", "data": []}')
_END = b"0\r\n\r\n"


class Endpoint(asyncio.Protocol):
    """One connection."""

    taken = 0
    answered = 0

    def __init__(self) -> None:
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            length = int(match[1]) if (match := _LENGTH.search(head)) else 0
            if len(self._buffer) < end + 4 + length:
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /stats"):
            stats = {"taken": Endpoint.taken, "answered": Endpoint.answered}
            self._write(_http("200 OK", json.dumps(stats).encode()))
            return
        if head.startswith(b"GET"):
            self._write(_MODELS)
            return
        Endpoint.taken += 1
        found = _MODEL.search(body)
        model = found[1].decode() if found else "small"
        seed = int(match[1]) if (match := _SEED.search(body)) else 0
        streamed = _STREAM.search(body) is not None
        if model == "heavy":
            self._later(heavy_latency(seed), lambda: self._send(_SMALL, streamed, _SMALL_STREAMED))
        elif model == "faulty":
            self._later(0.002, lambda: self._maybe_fail(seed, streamed))
        elif model in ("whole-100k", "stream-100k"):
            self._send(_LARGE, streamed, _STREAMED)
        else:
            self._send(_SMALL, streamed, _SMALL_STREAMED)

    def _maybe_fail(self, seed: int, streamed: bool) -> None:
        kind = random.Random(seed).random()
        if kind < 0.05:
            self._write(
                _http(
                    "429 Too Many Requests",
                    b'{"error": {"message": "slow down"}}',
                    extra="Retry-After: 0\r\n",
                )
            )
        elif kind < 0.10:
            self._write(_http("503 Service Unavailable", b'{"error": {"message": "overloaded"}}'))
        elif kind < 0.15 and self._transport is not None:
            self._transport.abort()
        elif kind < 0.20 and self._transport is not None:
            self._transport.write(_HEAD + _SMALL_STREAMED[0][:60])
            self._transport.close()
        else:
            self._send(_SMALL, streamed, _SMALL_STREAMED)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, action)

    def _send(self, whole: bytes, streamed: bool, events: list[bytes]) -> None:
        Endpoint.answered += 1
        if not streamed:
            self._write(whole)
            return
        self._write(_HEAD)
        for event in events:
            self._write(event)
        self._write(_END)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def heavy_latency(seed: int) -> float:
    """Seconds: log-normal with median 0.1 and sigma 1.1, capped at 4; the slowest of 32 takes about 1."""
    return min(4.0, random.Random(seed).lognormvariate(-2.3, 1.1))


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", 0, backlog=512)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}/v1", flush=True)
    # The end of stdin means that whoever started us has gone.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
