"""Any OpenAI-compatible endpoint, one call at a time, over one shared session.

It knows the wire and its faults; it knows nothing of slots, retries or rounds (see ``dispatch``).
"""

from __future__ import annotations

import asyncio
import email.utils
import time
from types import TracebackType
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from pacore.config import Endpoint
from pacore.errors import (
    CallRejectedError,
    ConfigError,
    ContextOverflowError,
    EndpointError,
    EndpointRefusedError,
    TransientError,
)
from pacore.sampling.overflow import read_overflow
from pacore.sampling.probe import connection_trouble, probe_endpoint
from pacore.sampling.sampler import Call, Capabilities, Watcher
from pacore.sampling.sse import SSEDecoder
from pacore.sampling.thinking import ThinkingStream
from pacore.sampling.wire import Body, Reply, decode_body, encode_request, error_text
from pacore.types import Trajectory

_TRANSIENT = frozenset({408, 409, 425, 429})
_REMEDIES = {
    401: "check the API key (--api-key-env NAME)",
    402: "the account behind the key cannot pay for the call",
    403: "the key may not use this model or endpoint",
    404: "check --base-url (it usually ends in /v1) and --model",
}
_OPTIONAL = ("stream_options", "seed", "max_tokens", "temperature", "top_p")
_ERROR_BYTES = 65_536
_AFTER_DONE_SECONDS = 0.5
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class EndpointSampler:
    """A chat endpoint as a Sampler. Use it as an async context manager: it owns its connections."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.model = endpoint.model or ""
        self._capabilities = Capabilities(window=endpoint.window, prices=endpoint.prices)
        self._url = URL(endpoint.base_url.rstrip("/") + "/chat/completions")
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if endpoint.stream else "application/json",
            "Accept-Encoding": "identity",
            **endpoint.headers,
        }
        self._session: aiohttp.ClientSession | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What is known about the endpoint by now."""
        return self._capabilities

    async def __aenter__(self) -> EndpointSampler:
        if (key := self.endpoint.key()) is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        # Slots limit the calls, and deadlines are ours: aiohttp's own limits and timers stay off.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.endpoint.timeouts.connect),
            skip_auto_headers=("User-Agent",),
            read_bufsize=1 << 18,
            # Proxies of the environment are for the world outside, not for a server on this machine.
            trust_env=self._url.host not in _LOOPBACK,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def probe(self) -> None:
        """Ask which models there are and how large the window is; settles the model's name.

        Raises EndpointRefusedError where nothing answers or the key is refused, ConfigError where the
        model is not served there.
        """
        self.model = await probe_endpoint(
            self._open_session(), self.endpoint, self._headers, self._capabilities
        )

    async def sample(self, call: Call, watcher: Watcher) -> Trajectory:
        """Make one call. Raises EndpointError and its kinds, each in the endpoint's own words."""
        while True:
            body = encode_request(
                call,
                model=self.model,
                stream=self.endpoint.stream,
                extra_body=self.endpoint.extra_body,
                unsupported=self._capabilities.unsupported,
            )
            try:
                return await self._attempt(call, body, watcher)
            except ContextOverflowError:
                raise
            except CallRejectedError as error:
                if not self._leave_out(str(error), body):
                    raise

    async def _attempt(self, call: Call, body: bytes, watcher: Watcher) -> Trajectory:
        reply = Reply()
        started = time.time()
        header_id: str | None = None
        try:
            async with (
                asyncio.timeout(self.endpoint.timeouts.call),
                self._open_session().post(self._url, data=body, headers=self._headers) as response,
            ):
                if response.status >= 400:
                    raise await self._failure(response)
                header_id = response.headers.get("x-request-id")
                if "event-stream" in response.headers.get("Content-Type", ""):
                    await self._read_stream(response, reply, watcher)
                else:
                    await self._read_whole(response, reply, watcher)
        except TimeoutError as error:
            reason = str(error) or f"no complete answer within {self.endpoint.timeouts.call:g} s"
            raise self._transient(reason, reply) from error
        except aiohttp.ClientConnectorError as error:
            raise self._transient(f"cannot connect: {connection_trouble(error)}", reply) from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise self._transient(f"the connection broke: {_reason(error)}", reply) from error
        return reply.trajectory(
            call,
            self._capabilities,
            thinking=self.endpoint.thinking,
            endpoint=self.endpoint.name,
            request_id=header_id or reply.request_id,
            started_at=started,
        )

    async def _read_whole(self, response: aiohttp.ClientResponse, reply: Reply, watcher: Watcher) -> None:
        content, reasoning = self._take(await response.read(), reply)
        watcher.text(content, reasoning)

    async def _read_stream(self, response: aiohttp.ClientResponse, reply: Reply, watcher: Watcher) -> None:
        decoder = SSEDecoder()
        display = None
        if self.endpoint.thinking != "separate" and not self._capabilities.separates_reasoning:
            display = ThinkingStream(implicit=self._capabilities.implicit_thinking)
        timeouts, loop = self.endpoint.timeouts, asyncio.get_running_loop()
        ended, quiet_since = False, loop.time()
        try:
            async with asyncio.timeout(timeouts.first_token) as deadline:
                async for chunk in response.content.iter_any():
                    if ended:
                        # Read to its end, the connection can be used again; but nothing waits for that.
                        continue
                    chars = reply.chars
                    ended = self._take_events(decoder.feed(chunk), reply, watcher, display)
                    now = loop.time()
                    if ended:
                        deadline.reschedule(now + _AFTER_DONE_SECONDS)
                        continue
                    # Only tokens count as a sign of life, not keep-alive comments. The timer is moved
                    # at most once a second: that is exact enough and costs nothing per token.
                    if reply.chars > chars and (not chars or now - quiet_since > 1.0):
                        quiet_since = now
                        deadline.reschedule(now + timeouts.silence)
                if not ended:
                    ended = self._take_events(decoder.finish(), reply, watcher, display)
        except (TimeoutError, aiohttp.ClientError) as error:
            if ended or reply.finish_reason is not None:
                # All was said; what became of the connection after that does not matter.
                return
            if not isinstance(error, TimeoutError):
                raise
            waited = (
                f"{timeouts.silence:g} s between tokens" if reply.chars else f"{timeouts.first_token:g} s"
            )
            raise TimeoutError(f"no token for {waited}") from error
        self._capabilities.usage_in_stream = reply.usage is not None
        if not ended and reply.finish_reason is None:
            raise self._transient("the stream was cut before its end", reply)

    def _take_events(
        self, events: list[bytes], reply: Reply, watcher: Watcher, display: ThinkingStream | None
    ) -> bool:
        contents: list[str] = []
        reasonings: list[str] = []
        ended = False
        for data in events:
            if data == b"[DONE]":
                ended = True
                break
            content, reasoning = self._take(data, reply)
            if content and display is not None and not reply.reasoning:
                content, reasoning = display.feed(content)
            if content:
                contents.append(content)
            if reasoning:
                reasonings.append(reasoning)
        if contents or reasonings:
            watcher.text("".join(contents), "".join(reasonings))
        return ended

    def _take(self, data: bytes, reply: Reply) -> tuple[str, str]:
        try:
            body = decode_body(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._transient(f"malformed answer ({error}): {_excerpt(data)}", reply) from error
        if body.error:
            raise self._failure_in_answer(body, reply)
        return reply.add(body)

    async def _failure(self, response: aiohttp.ClientResponse) -> EndpointError:
        data = await response.content.read(_ERROR_BYTES)
        try:
            error = msgspec.json.decode(data)
        except msgspec.DecodeError:
            error = data.decode("utf-8", "replace")
        inner = error["error"] if isinstance(error, dict) and "error" in error else error
        return self._classified(
            response.status,
            error_text(error, response.reason or "no reason given"),
            inner,
            _retry_after(response.headers.get("Retry-After")),
        )

    def _failure_in_answer(self, body: Body, reply: Reply) -> EndpointError:
        code = body.error.get("code") if isinstance(body.error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        failure = self._classified(status, error_text(body.error), body.error, None)
        failure.generated_tokens = self._generated(reply)
        return failure

    def _classified(self, status: int, text: str, error: Any, retry_after: float | None) -> EndpointError:
        said = f"{self.endpoint.base_url} answered {status}: {_excerpt(text)}"
        if status in _REMEDIES:
            model = f" (model {self.model!r})" if status in (403, 404) else ""
            return EndpointRefusedError(f"{said}{model}; {_REMEDIES[status]}", status=status)
        if (overflow := read_overflow(status, text, error)) is not None:
            return overflow
        if status in _TRANSIENT or status >= 500:
            return TransientError(said, status=status, retry_after=retry_after)
        return CallRejectedError(said, status=status)

    def _leave_out(self, complaint: str, body: bytes) -> bool:
        """Note an optional parameter that the endpoint complains of; true where that changes the body."""
        for name in _OPTIONAL:
            if (
                name in complaint
                and name not in self._capabilities.unsupported
                and f'"{name}"'.encode() in body
            ):
                self._capabilities.unsupported.add(name)
                return True
        return False

    def _transient(self, reason: str, reply: Reply) -> TransientError:
        return TransientError(f"{self.endpoint.base_url}: {reason}", generated_tokens=self._generated(reply))

    def _generated(self, reply: Reply) -> int:
        return round(reply.chars / self._capabilities.chars_per_token)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise ConfigError("an EndpointSampler makes calls only inside its own 'async with' block")
        return self._session


def _retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header, which may be a number or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _excerpt(text: str | bytes, limit: int = 400) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    shown = " ".join(shown.split())
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."
