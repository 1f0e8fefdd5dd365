"""One call to an endpoint on a real socket, in every spelling and with every fault of the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pacore.config import Timeouts
from pacore.errors import (
    CallRejectedError,
    ContextOverflowError,
    EndpointRefusedError,
    TransientError,
)
from pacore.sampling.openai import EndpointSampler
from pacore.types import SamplingParams, Trajectory
from support.endpoint import Answer, Hang, MockEndpoint, Raw, Status, event, events, sse
from support.watching import Watching, a_call

STREAMED = [True, False]


async def sample(upstream: MockEndpoint, watcher: Watching | None = None, **settings: Any) -> Trajectory:
    call = a_call(sampling=settings.pop("sampling", SamplingParams()))
    async with EndpointSampler(upstream.endpoint(**settings)) as sampler:
        await sampler.probe()
        return await sampler.sample(call, watcher or Watching())


@pytest.mark.parametrize("stream", STREAMED)
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_read_from_its_own_field(upstream: MockEndpoint, field: str, stream: bool) -> None:
    upstream.behaviour = lambda body: Answer("24", reasoning="factor 360", reasoning_field=field)
    watcher = Watching()
    trajectory = await sample(upstream, watcher, stream=stream)
    assert (trajectory.content, trajectory.reasoning) == ("24", "factor 360")
    assert (watcher.content, watcher.reasoning) == ("24", "factor 360")
    assert trajectory.status == "complete"
    assert trajectory.model == "mock-served"
    assert trajectory.request_id == "chatcmpl-1"


@pytest.mark.parametrize("stream", STREAMED)
async def test_reasoning_details_are_read(upstream: MockEndpoint, stream: bool) -> None:
    details = [{"type": "reasoning.text", "text": "factor"}, {"type": "reasoning.summary", "summary": " 360"}]
    message = {"role": "assistant", "content": "24", "reasoning_details": details}
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    pieces = [event({"reasoning_details": details}), event({"content": "24"}, finish_reason="stop")]
    reply = Raw(pieces) if stream else Raw([json.dumps(body).encode()], content_type="application/json")
    upstream.behaviour = lambda body: reply
    trajectory = await sample(upstream, stream=stream)
    assert (trajectory.content, trajectory.reasoning) == ("24", "factor 360")


async def test_two_reasoning_fields_with_the_same_text_are_read_once(upstream: MockEndpoint) -> None:
    pieces = [
        event({"reasoning": "a", "reasoning_content": "a"}),
        event({"content": "b"}, finish_reason="stop"),
    ]
    upstream.behaviour = lambda body: Raw(pieces)
    assert (await sample(upstream)).reasoning == "a"


@pytest.mark.parametrize("stream", STREAMED)
async def test_inline_thinking_is_split_off(upstream: MockEndpoint, stream: bool) -> None:
    upstream.behaviour = lambda body: Answer("<think>factor 360</think>\n\n24")
    watcher = Watching()
    trajectory = await sample(upstream, watcher, stream=stream)
    assert (trajectory.content, trajectory.reasoning) == ("24", "factor 360")
    if stream:
        assert (watcher.content.strip(), watcher.reasoning) == ("24", "factor 360")


@pytest.mark.parametrize("stream", STREAMED)
async def test_an_answer_about_the_tag_survives_where_reasoning_has_its_field(
    upstream: MockEndpoint, stream: bool
) -> None:
    code = "Split at it:\n```python\ntext.rpartition('</think>')\n```\nDone."
    upstream.behaviour = lambda body: Answer(code, reasoning="they ask about the tag")
    assert (await sample(upstream, stream=stream)).content == code


async def test_the_field_is_remembered_for_answers_without_reasoning(upstream: MockEndpoint) -> None:
    code = "Use `</think>` here."
    replies = iter([Answer("24", reasoning="short"), Answer(code)])
    upstream.behaviour = lambda body: next(replies)
    async with EndpointSampler(upstream.endpoint()) as sampler:
        await sampler.sample(a_call(), Watching())
        assert (await sampler.sample(a_call(), Watching())).content == code


@pytest.mark.parametrize("stream", STREAMED)
@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answer(None), "empty"),
        (Answer(""), "empty"),
        (Answer("half an ans", finish_reason="length"), "truncated"),
        (Answer("half an ans", finish_reason="MAX_TOKENS"), "truncated"),
        (Answer(None, reasoning="so", finish_reason="length"), "truncated"),
        (Answer(None, reasoning="so"), "reasoning_only"),
        (Answer("<think>and then"), "unclosed"),
    ],
)
async def test_a_trajectory_without_a_conclusion_says_why(
    upstream: MockEndpoint, answer: Answer, status: str, stream: bool
) -> None:
    upstream.behaviour = lambda body: answer
    trajectory = await sample(upstream, stream=stream)
    assert trajectory.status == status
    assert trajectory.usage.completion_tokens == 7


@pytest.mark.parametrize("stream", STREAMED)
async def test_content_as_a_list_of_parts_is_joined(upstream: MockEndpoint, stream: bool) -> None:
    upstream.behaviour = lambda body: Answer([{"type": "text", "text": "2"}, {"type": "text", "text": "4"}])
    assert (await sample(upstream, stream=stream)).content == "24"


@pytest.mark.parametrize("stream", STREAMED)
async def test_tool_calls_are_kept(upstream: MockEndpoint, stream: bool) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    upstream.behaviour = lambda body: Answer(None, tool_calls=[call], finish_reason="tool_calls")
    trajectory = await sample(upstream, stream=stream)
    assert trajectory.tool_calls == (call,)
    assert (trajectory.status, trajectory.finish_reason) == ("complete", "tool_calls")


async def test_tool_calls_in_pieces_are_put_together(upstream: MockEndpoint) -> None:
    first = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"x"'}}
    pieces = [
        event({"tool_calls": [first]}),
        event({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "g", "arguments": "{}"}}]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}, finish_reason="tool_calls"),
    ]
    upstream.behaviour = lambda body: Raw(pieces)
    calls = (await sample(upstream)).tool_calls
    assert [(call["id"], call["function"]["arguments"]) for call in calls] == [
        ("c1", '{"x": 1}'),
        ("c2", "{}"),
    ]


async def test_a_stream_split_at_every_byte_with_comments_and_crlf_is_read(upstream: MockEndpoint) -> None:
    stream = b": ping\r\n\r\n" + b"".join(events(Answer("求和是 5050 ✓", reasoning="想"), None)).replace(
        b"\n", b"\r\n"
    )
    upstream.behaviour = lambda body: Raw([stream[at : at + 1] for at in range(len(stream))])
    trajectory = await sample(upstream)
    assert (trajectory.content, trajectory.reasoning) == ("求和是 5050 ✓", "想")


async def test_a_missing_done_is_no_fault_after_a_finish_reason(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Raw([event({"content": "24"}, finish_reason="stop")])
    assert (await sample(upstream)).status == "complete"


async def test_a_done_without_a_finish_reason_is_an_end_too(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Raw([event({"content": "24"}), b"data: [DONE]\n\n"])
    assert (await sample(upstream)).status == "complete"


async def test_a_whole_answer_to_a_request_for_a_stream_is_read(upstream: MockEndpoint) -> None:
    body = {"choices": [{"message": {"content": "24"}, "finish_reason": "stop"}]}
    upstream.behaviour = lambda request: Raw([json.dumps(body).encode()], content_type="application/json")
    assert (await sample(upstream)).content == "24"


MULTI_BYTE = event({"content": "求和"})


@pytest.mark.parametrize(
    "reply",
    [
        Raw([MULTI_BYTE[: MULTI_BYTE.index("求".encode()) + 1]], cut=True),
        Raw([MULTI_BYTE[: MULTI_BYTE.index("求".encode()) + 1]]),
        Raw([event({"content": "2"})]),
        Raw([b"data: {not json\n\n"]),
        Raw([b"<html>502</html>"], content_type="text/html"),
        Raw([sse({"error": {"message": "engine died", "code": 500}})]),
        Status(503, {"error": {"message": "loading"}}),
        Status(429, "slow down"),
        Status(408),
        Status(409),
        Status(425),
    ],
)
async def test_faults_that_may_pass_are_transient(upstream: MockEndpoint, reply: Raw | Status) -> None:
    upstream.behaviour = lambda body: reply
    with pytest.raises(TransientError):
        await sample(upstream)


async def test_what_a_cut_stream_had_generated_is_estimated(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Raw([event({"content": "x" * 400})], cut=True)
    with pytest.raises(TransientError) as caught:
        await sample(upstream)
    assert caught.value.generated_tokens == 100


async def test_retry_after_is_read_in_seconds_and_as_a_date(upstream: MockEndpoint) -> None:
    for value, expected in (("1", 1.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0)):
        reply = Status(429, {}, {"Retry-After": value})
        upstream.behaviour = lambda body, reply=reply: reply  # type: ignore[misc]
        with pytest.raises(TransientError) as caught:
            await sample(upstream)
        assert caught.value.retry_after == expected


@pytest.mark.parametrize("status", [401, 402, 403, 404])
async def test_a_refusal_is_told_in_the_endpoints_own_words(upstream: MockEndpoint, status: int) -> None:
    upstream.behaviour = lambda body: Status(status, {"error": {"message": "Incorrect key sk-12"}})
    with pytest.raises(EndpointRefusedError, match="Incorrect key sk-12") as caught:
        await sample(upstream)
    assert str(status) in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [{"detail": "no such role"}, {"message": "no such role"}, "no such role", {"error": "no such role"}],
)
async def test_another_4xx_is_a_rejection_in_the_endpoints_own_words(
    upstream: MockEndpoint, body: Any
) -> None:
    upstream.behaviour = lambda request: Status(400, body)
    with pytest.raises(CallRejectedError, match="no such role"):
        await sample(upstream)


@pytest.mark.parametrize("in_stream", STREAMED)
async def test_an_overflow_is_raised_as_one(upstream: MockEndpoint, in_stream: bool) -> None:
    error = {"message": "request (50 tokens) exceeds the available context size (40 tokens)", "code": 400}
    upstream.behaviour = lambda body: (
        Raw([sse({"error": error})]) if in_stream else Status(400, {"error": error})
    )
    with pytest.raises(ContextOverflowError) as caught:
        await sample(upstream)
    assert caught.value.window == 40


@pytest.mark.parametrize(
    ("pieces", "timeouts", "words"),
    [
        ([], Timeouts(first_token=0.05), "no token for 0.05 s"),
        ([b": ping\n\n"], Timeouts(first_token=0.05), "no token for 0.05 s"),
        ([event({"content": "2"})], Timeouts(silence=0.05), "0.05 s between tokens"),
        ([event({"content": "2"})], Timeouts(call=0.05), "no complete answer within 0.05 s"),
    ],
)
async def test_an_endpoint_that_hangs_is_left_at_its_deadline(
    upstream: MockEndpoint, pieces: list[bytes], timeouts: Timeouts, words: str
) -> None:
    upstream.behaviour = lambda body: Hang(pieces)
    with pytest.raises(TransientError, match=words):
        await sample(upstream, timeouts=timeouts)
    await upstream.wait_for_disconnects(1)


async def test_sampling_parameters_and_seed_are_sent(upstream: MockEndpoint) -> None:
    sampling = SamplingParams(temperature=0.5, top_p=0.9, max_tokens=100, stop=("END",), extra={"top_k": 20})
    await sample(upstream, sampling=sampling, extra_body={"min_p": 0.1, "top_k": 5})
    sent = upstream.requests[0]
    assert {
        key: sent[key] for key in ("temperature", "top_p", "max_tokens", "stop", "top_k", "min_p", "seed")
    } == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 100,
        "stop": ["END"],
        "top_k": 20,
        "min_p": 0.1,
        "seed": 7,
    }
    assert "n" not in sent


async def test_no_cap_is_sent_unless_asked_for(upstream: MockEndpoint) -> None:
    await sample(upstream)
    assert "max_tokens" not in upstream.requests[0]


@pytest.mark.parametrize("name", ["stream_options", "seed", "temperature"])
async def test_a_refused_optional_parameter_is_left_out_from_then_on(
    upstream: MockEndpoint, name: str
) -> None:
    def behaviour(body: dict[str, Any]) -> Answer | Status:
        return (
            Status(400, {"error": {"message": f"Unsupported parameter: '{name}'"}})
            if name in body
            else Answer()
        )

    upstream.behaviour = behaviour
    async with EndpointSampler(upstream.endpoint()) as sampler:
        for _ in range(2):
            assert (await sampler.sample(a_call(), Watching())).status == "complete"
    assert [name in request for request in upstream.requests] == [True, False, False]


async def test_max_completion_tokens_takes_over_where_max_tokens_is_refused(upstream: MockEndpoint) -> None:
    def behaviour(body: dict[str, Any]) -> Answer | Status:
        return (
            Status(400, {"error": {"message": "'max_tokens' is not supported"}})
            if "max_tokens" in body
            else Answer()
        )

    upstream.behaviour = behaviour
    await sample(upstream, sampling=SamplingParams(max_tokens=9))
    assert upstream.requests[1]["max_completion_tokens"] == 9


@pytest.mark.parametrize("stream", STREAMED)
async def test_usage_is_read_with_reasoning_and_cached_tokens(upstream: MockEndpoint, stream: bool) -> None:
    usage = {
        "prompt_tokens": 50,
        "completion_tokens": 90,
        "completion_tokens_details": {"reasoning_tokens": 60},
        "prompt_tokens_details": {"cached_tokens": 32},
    }
    upstream.behaviour = lambda body: Answer("24", reasoning="so", usage=usage)
    found = (await sample(upstream, stream=stream)).usage
    assert (found.prompt_tokens, found.completion_tokens, found.reasoning_tokens, found.cached_tokens) == (
        50,
        90,
        60,
        32,
    )
    assert not found.estimated


@pytest.mark.parametrize(
    ("usage", "reasoning_tokens"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 20, "reasoning_tokens": 15}, 15),
        ({"prompt_tokens": 5, "completion_tokens": 20}, 10),
    ],
)
async def test_reasoning_tokens_are_found_or_parted_from_the_sum(
    upstream: MockEndpoint, usage: dict[str, Any], reasoning_tokens: int
) -> None:
    upstream.behaviour = lambda body: Answer("x" * 40, reasoning="y" * 40, usage=usage)
    assert (await sample(upstream)).usage.reasoning_tokens == reasoning_tokens


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": -3, "completion_tokens": -1}, {"completion_tokens": None}]
)
async def test_missing_or_impossible_usage_is_estimated_and_says_so(
    upstream: MockEndpoint, usage: dict[str, Any] | None
) -> None:
    upstream.behaviour = lambda body: Answer("x" * 40, reasoning="y" * 80, usage=usage)
    found = (await sample(upstream, stream=False)).usage
    assert found.estimated
    assert (found.completion_tokens, found.reasoning_tokens) == (30, 20)
    assert found.prompt_tokens > 0


async def test_an_answer_that_writes_about_the_tag_does_not_make_the_model_a_thinking_one(
    upstream: MockEndpoint,
) -> None:
    replies = iter(
        ["Close it with `</think>` and go on.", "It is 24.", "so 24\n</think>\n\nIt is 24.", "hm, 24"]
    )
    upstream.behaviour = lambda body: Answer(next(replies))
    async with EndpointSampler(upstream.endpoint()) as sampler:
        found = [await sampler.sample(a_call(), Watching()) for _ in range(4)]
    assert [trajectory.status for trajectory in found] == ["complete", "complete", "complete", "unclosed"]


async def test_a_connection_is_used_again_after_a_stream(upstream: MockEndpoint) -> None:
    async with EndpointSampler(upstream.endpoint()) as sampler:
        for _ in range(5):
            await sampler.sample(a_call(), Watching())
    assert len(upstream.connections) == 1


@pytest.mark.parametrize("tail", [[b"data: [DONE]\n\n"], []])
async def test_a_connection_that_breaks_after_the_finish_loses_nothing(
    upstream: MockEndpoint, tail: list[bytes]
) -> None:
    upstream.behaviour = lambda body: Raw([event({"content": "24"}, finish_reason="stop"), *tail], cut=True)
    assert (await sample(upstream)).content == "24"


async def test_a_connection_that_lingers_after_its_end_holds_nobody_up(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Hang(
        [event({"content": "24"}, finish_reason="stop"), b"data: [DONE]\n\n"]
    )
    assert (await sample(upstream)).content == "24"


async def test_characters_sent_as_halves_of_surrogate_pairs_are_joined(upstream: MockEndpoint) -> None:
    pieces = [
        b'data: {"choices": [{"delta": {"content": "ok \\ud83d"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\\ude00 \\ud83d"}, "finish_reason": "stop"}]}\n\n',
    ]
    upstream.behaviour = lambda body: Raw(pieces)
    assert (await sample(upstream)).content == "ok 😀 \ufffd"


async def test_a_connection_that_is_refused_in_a_run_is_transient(upstream: MockEndpoint) -> None:
    async with MockEndpoint() as gone:
        endpoint = gone.endpoint()
    async with EndpointSampler(endpoint) as sampler:
        with pytest.raises(TransientError, match="cannot connect"):
            await sampler.sample(a_call(), Watching())


async def test_the_key_is_sent_and_headers_too(upstream: MockEndpoint) -> None:
    await sample(upstream, api_key="sk-secret", headers={"X-Team": "maths"})
    assert upstream.headers[0]["Authorization"] == "Bearer sk-secret"
    assert upstream.headers[0]["X-Team"] == "maths"
