"""A chat endpoint on a loopback socket whose answers, faults and timing a test writes down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeAlias

from aiohttp import web

from pacore.config import Endpoint, Retries


@dataclass
class Answer:
    """A good answer, streamed when the request asks for it."""

    content: str | list[dict[str, Any]] | None = "The answer is \\boxed{24}."
    reasoning: str = ""
    reasoning_field: str = "reasoning_content"
    finish_reason: str = "stop"
    tool_calls: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = field(
        default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}
    )
    model: str = "mock-served"
    seconds: float = 0.0


@dataclass
class Status:
    """An HTTP error."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Raw:
    """Pieces of a stream, each written by itself; ``cut`` breaks the connection after the last."""

    pieces: list[bytes]
    cut: bool = False
    content_type: str = "text/event-stream"


@dataclass
class Hang:
    """Headers, then ``pieces``, then nothing more until the client goes."""

    pieces: list[bytes] = field(default_factory=list)


Reply: TypeAlias = Answer | Status | Raw | Hang | str
Behaviour: TypeAlias = Callable[[dict[str, Any]], Reply | Awaitable[Reply]]


class MockEndpoint:
    """The endpoint; use as an async context manager. ``requests`` are the bodies it got, in order."""

    def __init__(self, behaviour: Behaviour | None = None, *, models: Any = None) -> None:
        self.behaviour: Behaviour = behaviour or (lambda body: Answer())
        self.models = models
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.disconnected = 0
        self.connections: set[int] = set()
        self.in_flight = 0
        self.most_in_flight = 0
        self.arrived = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> MockEndpoint:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def endpoint(self, **settings: Any) -> Endpoint:
        """Settings to reach it, with quick retries."""
        settings.setdefault("retries", Retries(attempts=3, base_s=0.001, cap_s=0.01))
        settings.setdefault("model", "mock")
        return Endpoint(base_url=self.url, **settings)

    async def wait_for_requests(self, number: int) -> None:
        """Wait until that many calls have come."""
        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(lambda: len(self.requests) >= number), 10)

    async def wait_for_disconnects(self, number: int) -> None:
        """Wait until that many callers have gone before their answer."""
        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(lambda: self.disconnected >= number), 10)

    async def _models(self, request: web.Request) -> web.Response:
        if isinstance(self.models, Status):
            return web.json_response(self.models.body, status=self.models.status)
        if self.models is None:
            return web.json_response({"error": {"message": "no such route"}}, status=404)
        return web.json_response(self.models)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        async with self.arrived:
            self.requests.append(body)
            self.headers.append(dict(request.headers))
            self.arrived.notify_all()
        self.connections.add(id(request.transport))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            reply = self.behaviour(body)
            if not isinstance(reply, (Answer, Status, Raw, Hang, str)):
                reply = await reply
            return await self._send(request, body, Answer(content=reply) if isinstance(reply, str) else reply)
        except (asyncio.CancelledError, ConnectionResetError):
            self.disconnected += 1
            async with self.arrived:
                self.arrived.notify_all()
            raise
        finally:
            self.in_flight -= 1

    async def _send(
        self, request: web.Request, body: dict[str, Any], reply: Answer | Status | Raw | Hang
    ) -> web.StreamResponse:
        if isinstance(reply, Status):
            if isinstance(reply.body, str):
                return web.Response(text=reply.body, status=reply.status, headers=reply.headers)
            return web.json_response(reply.body, status=reply.status, headers=reply.headers)
        if isinstance(reply, Answer):
            if reply.seconds:
                await asyncio.sleep(reply.seconds)
            if not body.get("stream"):
                return web.json_response(whole(reply))
            usage = reply.usage if body.get("stream_options", {}).get("include_usage") else None
            reply = Raw(events(reply, usage))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if isinstance(reply, Raw):
            response.headers["Content-Type"] = reply.content_type
        await response.prepare(request)
        for piece in reply.pieces:
            await response.write(piece)
            # Each piece leaves as a packet of its own, so that the client's reads are split there.
            await asyncio.sleep(0)
        if isinstance(reply, Hang):
            await asyncio.Event().wait()
        if isinstance(reply, Raw) and reply.cut and request.transport is not None:
            request.transport.abort()
        return response


def message_of(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.reasoning:
        message[answer.reasoning_field] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = answer.tool_calls
    return message


def whole(answer: Answer) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    body = {
        "id": "chatcmpl-1",
        "model": answer.model,
        "choices": [{"index": 0, "message": message_of(answer), "finish_reason": answer.finish_reason}],
    }
    return body if answer.usage is None else {**body, "usage": answer.usage}


def event(delta: dict[str, Any], *, finish_reason: str | None = None, model: str = "mock-served") -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return sse({"id": "chatcmpl-1", "model": model, "choices": [choice]})


def sse(data: Any) -> bytes:
    """``data`` as a server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def events(answer: Answer, usage: dict[str, Any] | None) -> list[bytes]:
    """The events of a streamed answer, with its reasoning and content in two pieces each."""
    pieces = [event({"role": "assistant", "content": None}, model=answer.model)]
    for name, text in ((answer.reasoning_field, answer.reasoning), ("content", answer.content)):
        if isinstance(text, str) and text:
            half = len(text) // 2
            pieces += [event({name: part}, model=answer.model) for part in (text[:half], text[half:]) if part]
        elif isinstance(text, list):
            pieces.append(event({name: text}, model=answer.model))
    for index, call in enumerate(answer.tool_calls or []):
        pieces.append(event({"tool_calls": [{**call, "index": index}]}, model=answer.model))
    pieces.append(event({}, finish_reason=answer.finish_reason, model=answer.model))
    if usage is not None:
        pieces.append(sse({"id": "chatcmpl-1", "model": answer.model, "choices": [], "usage": usage}))
    return [*pieces, b"data: [DONE]\n\n"]


def question_of(body: dict[str, Any]) -> str:
    """The last message's text of a request."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def reads_references(body: dict[str, Any]) -> bool:
    """Whether a request is of a later round."""
    return "Reference Responses:" in question_of(body)


def references_of(body: dict[str, Any]) -> list[str]:
    """The references in a request's prompt, in their order."""
    text = question_of(body)
    if not reads_references(body):
        return []
    listed = text.split("Reference Responses:\n", 1)[1].rsplit("\n\nNow, based on", 1)[0]
    parts: list[str] = []
    number = 1
    while (mark := f"Reference {number}:\n") in listed:
        rest = listed.split(mark, 1)[1]
        following = f"\n\nReference {number + 1}:\n"
        parts.append(rest.split(following, 1)[0].removesuffix("\n"))
        number += 1
    return parts
