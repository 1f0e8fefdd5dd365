"""The chat-completions dialect: what is sent, and what comes back in its many spellings.

Sources: the OpenAI API reference, and the protocol files of vLLM (``reasoning``), SGLang and DeepSeek
(``reasoning_content``), OpenRouter (``reasoning_details``) and llama.cpp. Decoding is lenient: fields
whose type differs between servers are taken as they come and looked at afterwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from pacore.sampling.sampler import Call, Capabilities, classify, estimate_usage
from pacore.sampling.thinking import opens_in_template, split_thinking
from pacore.types import Trajectory, Usage

REASONING_FIELDS = ("reasoning", "reasoning_content", "reasoning_details")


class Part(Struct):
    """A message, or the next piece of one."""

    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_details: Any = None
    tool_calls: Any = None
    refusal: Any = None


class Choice(Struct):
    """One alternative; we always ask for one."""

    delta: Part | None = None
    message: Part | None = None
    finish_reason: Any = None


class Body(Struct):
    """A whole answer, or one event of a streamed one."""

    choices: list[Choice] | None = None
    usage: Any = None
    model: Any = None
    id: Any = None
    error: Any = None


_decode_strictly = msgspec.json.Decoder(Body).decode


def decode_body(data: bytes) -> Body:
    """An answer or an event of one. Raises msgspec.DecodeError or ValueError for what is neither.

    Servers that cut text by UTF-16 units send halves of surrogate pairs, which strict JSON forbids; the
    halves are joined again when the answer is whole.
    """
    try:
        return _decode_strictly(data)
    except msgspec.DecodeError:
        if b"\\ud" not in data.lower():
            raise
        return msgspec.convert(json.loads(data), Body)


def encode_request(
    call: Call,
    *,
    model: str,
    stream: bool,
    extra_body: Mapping[str, Any],
    unsupported: set[str],
) -> bytes:
    """The request body of ``call``. Parameters that the endpoint was seen to refuse are left out."""
    sampling = call.sampling
    body: dict[str, Any] = {"model": model, "messages": msgspec.Raw(call.prompt.encoded)}
    if "temperature" not in unsupported:
        body["temperature"] = sampling.temperature
    if "top_p" not in unsupported:
        body["top_p"] = sampling.top_p
    if "seed" not in unsupported:
        body["seed"] = call.seed
    if sampling.max_tokens is not None:
        field = "max_completion_tokens" if "max_tokens" in unsupported else "max_tokens"
        body[field] = sampling.max_tokens
    if sampling.stop:
        body["stop"] = sampling.stop
    if stream:
        body["stream"] = True
        if "stream_options" not in unsupported:
            body["stream_options"] = {"include_usage": True}
    # The endpoint's own defaults give way to the schedule's sampling, and that to what a caller adds.
    return msgspec.json.encode({**extra_body, **body, **sampling.extra})


class Reply:
    """What has come back of one call so far."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.tool_calls: dict[int, dict[str, Any]] = {}
        self.finish_reason: str | None = None
        self.usage: Any = None
        self.model = ""
        self.request_id: str | None = None
        self.reasoning_field: str | None = None
        self.first_token_at: float | None = None
        self.chars = 0

    def add(self, body: Body) -> tuple[str, str]:
        """Take an answer or an event of one; return the (content, reasoning) that it added."""
        if body.model and not self.model:
            self.model = str(body.model)
        if body.id and self.request_id is None:
            self.request_id = str(body.id)
        if body.usage:
            self.usage = body.usage
        if not body.choices:
            return "", ""
        choice = body.choices[0]
        if choice.finish_reason:
            self.finish_reason = str(choice.finish_reason)
        part = choice.delta or choice.message
        return self._add_part(part) if part is not None else ("", "")

    def _add_part(self, part: Part) -> tuple[str, str]:
        content = part.content if isinstance(part.content, str) else _text_of_parts(part.content)
        if not content and isinstance(part.refusal, str):
            content = part.refusal
        reasoning = self._reasoning_of(part)
        if part.tool_calls:
            self._add_tool_calls(part.tool_calls)
        if content:
            self.content.append(content)
        if reasoning:
            self.reasoning.append(reasoning)
        if (content or reasoning or part.tool_calls) and self.first_token_at is None:
            self.first_token_at = time.time()
        self.chars += len(content) + len(reasoning)
        return content, reasoning

    def _reasoning_of(self, part: Part) -> str:
        # Some servers send the same text in two fields during a migration: the first one found is kept.
        if self.reasoning_field is not None:
            return _text_of_parts(getattr(part, self.reasoning_field))
        for field in REASONING_FIELDS:
            if text := _text_of_parts(getattr(part, field)):
                self.reasoning_field = field
                return text
        return ""

    def _add_tool_calls(self, pieces: Any) -> None:
        for position, piece in enumerate(pieces if isinstance(pieces, list) else []):
            if not isinstance(piece, dict):
                continue
            index = piece.get("index")
            call = self.tool_calls.setdefault(
                index if isinstance(index, int) else position,
                {"id": None, "type": "function", "function": {"name": "", "arguments": ""}},
            )
            call["id"] = piece.get("id") or call["id"]
            function = piece.get("function")
            if isinstance(function, dict):
                call["function"]["name"] += function.get("name") or ""
                arguments = _arguments_text(function.get("arguments"))
                call["function"]["arguments"] += arguments
                self.chars += len(arguments)

    def trajectory(
        self, call: Call, capabilities: Capabilities, *, thinking: str, **provenance: Any
    ) -> Trajectory:
        """The finished trajectory, its reasoning told from its conclusion."""
        content, reasoning, closed = _joined(self.content), _joined(self.reasoning), True
        if thinking == "inline" or (thinking == "auto" and not self._separated(capabilities)):
            if opens_in_template(content):
                capabilities.implicit_thinking = True
            split = split_thinking(content, implicit=capabilities.implicit_thinking)
            reasoning, content, closed = reasoning or split.reasoning, split.conclusion, split.closed
        tool_calls = tuple(self.tool_calls[index] for index in sorted(self.tool_calls))
        # Several servers say "stop" where tool calls end a message.
        finish_reason = "tool_calls" if tool_calls and self.finish_reason == "stop" else self.finish_reason
        return call.trajectory(
            classify(content, reasoning, finish_reason=finish_reason, tool_calls=tool_calls, closed=closed),
            content=content,
            reasoning=reasoning,
            tool_calls=tool_calls,
            finish_reason=finish_reason,
            usage=read_usage(self.usage, call, content, reasoning, capabilities),
            model=self.model,
            first_token_at=self.first_token_at,
            ended_at=time.time(),
            **provenance,
        )

    def _separated(self, capabilities: Capabilities) -> bool:
        if self.reasoning:
            capabilities.separates_reasoning = True
            capabilities.reasoning_field = self.reasoning_field
        return bool(capabilities.separates_reasoning)


def read_usage(raw: Any, call: Call, content: str, reasoning: str, capabilities: Capabilities) -> Usage:
    """The usage an endpoint reports; what is missing or impossible (negative) is estimated by us."""
    if not isinstance(raw, dict):
        return estimate_usage(call.prompt.chars, content, reasoning, capabilities.chars_per_token)
    prompt = _count(raw.get("prompt_tokens"))
    completion = _count(raw.get("completion_tokens"))
    if not completion and (content or reasoning):
        completion = None
    estimated = prompt is None or completion is None
    if estimated:
        ours = estimate_usage(call.prompt.chars, content, reasoning, capabilities.chars_per_token)
        prompt = ours.prompt_tokens if prompt is None else prompt
        completion = ours.completion_tokens if completion is None else completion
    assert prompt is not None
    assert completion is not None
    reasoned = _detail(raw, "completion_tokens_details", "reasoning_tokens")
    if reasoned is None:
        reasoned = _count(raw.get("reasoning_tokens"))
    if reasoned is None and reasoning:
        # Only the sum is known: part it as the text is parted.
        reasoned = round(completion * len(reasoning) / (len(reasoning) + len(content)))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        reasoning_tokens=min(reasoned or 0, completion),
        cached_tokens=_detail(raw, "prompt_tokens_details", "cached_tokens") or 0,
        estimated=estimated,
    )


def error_text(error: Any, fallback: str = "") -> str:
    """The sentence in an error body, whatever its shape: OpenAI's, FastAPI's, or plain text."""
    if isinstance(error, dict):
        for key in ("error", "message", "detail", "msg"):
            if error.get(key):
                return error_text(error[key], fallback)
        return msgspec.json.encode(error).decode()
    if isinstance(error, list) and error:
        return "; ".join(error_text(item) for item in error)
    return str(error).strip() if error else fallback


def _joined(pieces: list[str]) -> str:
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _text_of_parts(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(
            part if isinstance(part, str) else str(part.get("text") or part.get("summary") or "")
            for part in value
            if isinstance(part, (str, dict))
        )
    return ""


def _arguments_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def _detail(usage: dict[str, Any], group: str, name: str) -> int | None:
    details = usage.get(group)
    return _count(details.get(name)) if isinstance(details, dict) else None


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        return None
    return int(value)
