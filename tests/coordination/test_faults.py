"""Where others fail: calls that break, hang, lie or overflow, over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import pacore
from pacore.config import Budget, Prices, Timeouts
from pacore.errors import EndpointRefusedError
from pacore.events import RoundFinished, TrajectoryFinished, TrajectoryStarted, Warned
from pacore.types import AgreementStop, Quorum, RoundSpec, SamplingParams, Schedule
from support.endpoint import (
    Answer,
    Behaviour,
    Hang,
    MockEndpoint,
    Raw,
    Reply,
    Status,
    event,
    question_of,
    reads_references,
    references_of,
)
from support.running import QUESTION, codes, of_kind, result_of, run_events

LOW = Schedule(rounds=(RoundSpec(width=4),))


def listed(*replies: Reply) -> list[Reply]:
    return list(replies)


def numbered(*first: Reply, final: Reply = "final \\boxed{24}") -> Behaviour:
    """The n-th call of the first round gets ``first[n]``; whatever reads references gets ``final``."""
    rest = iter(listed(*first))
    return lambda body: final if reads_references(body) else next(rest)


@pytest.mark.parametrize(
    ("lost", "status"),
    [
        (Answer("half an ans", finish_reason="length"), "truncated"),
        (Answer(None), "empty"),
        (Answer(None, reasoning="hm"), "reasoning_only"),
        (Answer("<think>hm"), "unclosed"),
        (Status(400, {"error": {"message": "SECRET"}}), "failed"),
    ],
)
async def test_what_came_to_no_conclusion_is_no_reference_but_is_counted_and_reported(
    upstream: MockEndpoint, lost: Reply, status: str
) -> None:
    empties = [lost] * (3 if status == "empty" else 1)  # an empty answer is tried three times
    upstream.behaviour = numbered("a", "b", "c", *empties)
    events = await run_events(endpoint=upstream.endpoint(concurrency=1), schedule="4")
    result = result_of(events)
    assert sorted(references_of(upstream.requests[-1])) == ["a", "b", "c"]
    assert "SECRET" not in question_of(upstream.requests[-1])
    assert [lost.status for lost in of_kind(events, RoundFinished)[0].lost] == [status]
    assert result.status == "complete"
    assert codes(result) == ["lost_references"]
    made = 5 + (2 if status == "empty" else 0)
    assert result.ttc_tokens == 7 * (made - (status == "failed"))


async def test_when_all_calls_fail_the_run_fails_and_no_synthesis_is_asked(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Status(500, {"error": {"message": "engine died"}})
    result = result_of(await run_events(endpoint=upstream.endpoint(), schedule="4"))
    assert (result.status, result.answer) == ("failed", None)
    assert "engine died" in result.warnings[-1].text
    assert len(upstream.requests) == 4 * 3
    assert (result.calls.made, result.calls.failed) == (4, 4)


async def test_when_all_conclusions_are_empty_the_run_fails(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Answer("")
    result = result_of(await run_events(endpoint=upstream.endpoint(), schedule="4"))
    assert (result.status, result.answer) == ("failed", None)
    assert not any(reads_references(body) for body in upstream.requests)
    assert result.ttc_tokens == 4 * 3 * 7


@pytest.mark.parametrize(("policy", "status"), [("fail", "failed"), ("degrade", "degraded")])
async def test_too_few_messages_fail_the_run_or_degrade_it_by_choice(
    upstream: MockEndpoint, policy: Any, status: str
) -> None:
    bad = Status(400, {"error": {"message": "bad"}})
    upstream.behaviour = numbered("a", bad, bad, bad)
    schedule = Schedule(rounds=(RoundSpec(width=4),), on_partial=policy)
    result = result_of(await run_events(endpoint=upstream.endpoint(concurrency=1), schedule=schedule))
    assert result.status == status
    assert ("too_few_messages" in codes(result)) == (policy == "degrade")
    assert (result.answer is None) == (policy == "fail")


async def test_min_messages_is_configurable(upstream: MockEndpoint) -> None:
    bad = Status(400, {})
    upstream.behaviour = numbered("a", bad, bad, bad)
    schedule = Schedule(rounds=(RoundSpec(width=4, min_messages=1),))
    result = result_of(await run_events(endpoint=upstream.endpoint(concurrency=1), schedule=schedule))
    assert result.status == "complete"


@pytest.mark.parametrize("final", [Answer(None, reasoning="hm"), Answer("half", finish_reason="length")])
async def test_a_last_round_without_an_answer_is_tried_again_with_another_seed(
    upstream: MockEndpoint, final: Answer
) -> None:
    finals = iter([final, Answer("final")])
    upstream.behaviour = lambda body: next(finals) if reads_references(body) else "a"
    result = result_of(await run_events(endpoint=upstream.endpoint(), schedule="4"))
    assert (result.status, result.answer) == ("complete", "final")
    seeds = [body["seed"] for body in upstream.requests if reads_references(body)]
    assert len(set(seeds)) == 2


async def test_a_last_round_that_always_fails_goes_to_the_fallback_endpoint(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Status(500, {}) if reads_references(body) else "a"
    async with MockEndpoint(lambda body: "saved") as other:
        result = result_of(
            await run_events(
                endpoint=upstream.endpoint(),
                endpoints={"other": other.endpoint()},
                schedule=Schedule(rounds=LOW.rounds, fallback="other"),
            )
        )
        assert (result.status, result.answer) == ("complete", "saved")
        assert sorted(references_of(other.requests[0])) == ["a"] * 4
    assert "fallback_endpoint" in codes(result)


async def test_then_the_best_message_by_agreement_stands_in_and_is_marked_degraded(
    upstream: MockEndpoint,
) -> None:
    answers = iter(["\\boxed{20}", "\\boxed{24}", "\\boxed{24.0}", "\\boxed{18}"])
    upstream.behaviour = lambda body: Status(500, {}) if reads_references(body) else next(answers)
    result = result_of(await run_events(endpoint=upstream.endpoint(concurrency=1), schedule="4"))
    assert (result.status, result.answer) == ("degraded", "\\boxed{24}")
    assert result.agreement == 0.5
    assert "last_round_failed" in codes(result)


async def test_one_plain_call_that_is_cut_off_is_degraded_not_complete(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Answer("half an ans", finish_reason="length")
    result = result_of(await run_events(endpoint=upstream.endpoint(), schedule="single"))
    assert (result.status, result.answer, result.finish_reason) == ("degraded", "half an ans", "length")
    assert codes(result) == ["truncated"]


async def test_identical_trajectories_are_noticed(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Answer("the same")
    result = result_of(await run_events(endpoint=upstream.endpoint(), schedule="4"))
    assert "3 of 4" in next(
        warning.text for warning in result.warnings if warning.code == "identical_trajectories"
    )
    assert len({body["seed"] for body in upstream.requests}) == 5


@pytest.mark.parametrize("status", [401, 402, 403, 404])
async def test_a_refusal_stops_the_run_at_once_in_the_endpoints_own_words(
    upstream: MockEndpoint, status: int
) -> None:
    upstream.behaviour = lambda body: Status(status, {"error": {"message": "no, and here is why"}})
    with pytest.raises(EndpointRefusedError, match="no, and here is why"):
        await run_events(endpoint=upstream.endpoint(concurrency=1), schedule="16")
    assert len(upstream.requests) == 1


WORDINGS = {
    "vLLM": "This model's maximum context length is {w} tokens. However, you requested {t} tokens ({p} in "
    "the messages, {c} in the completion). Please reduce the length of the messages or completion.",
    "SGLang": "The input ({p} tokens) is longer than the model's context length ({w} tokens).",
    "llama.cpp": "request ({p} tokens) exceeds the available context size ({w} tokens), try increasing it",
    "OpenAI": "This model's maximum context length is {w} tokens. However, your messages "
    "resulted in {p} tokens.",
}


@pytest.mark.parametrize("server", WORDINGS)
async def test_references_are_trimmed_by_the_figures_of_a_context_overflow(
    upstream: MockEndpoint, server: str
) -> None:
    window = 2000

    def behaviour(body: dict[str, Any]) -> Reply:
        prompt = len(question_of(body)) // 2  # this tokenizer is denser than anyone assumes
        cap = body.get("max_tokens", 1)
        assert cap > 0
        if prompt + cap > window:
            words = WORDINGS[server].format(w=window, p=prompt, c=cap, t=prompt + cap)
            return Status(400, {"error": {"message": words, "code": 400}})
        return "final" if reads_references(body) else f"message {body['seed']} " + "long " * 300

    upstream.behaviour = behaviour
    events = await run_events(endpoint=upstream.endpoint(), schedule="4")
    result = result_of(events)
    assert (result.status, result.answer) == ("complete", "final")
    assert codes(result) == ["references_trimmed"]
    final = of_kind(events, TrajectoryFinished)[-1].trajectory
    assert len(final.references) == 4
    assert all(reference.kept_chars for reference in final.references)


async def test_a_known_window_is_kept_without_an_error_first(upstream: MockEndpoint) -> None:
    upstream.models = {"data": [{"id": "mock", "max_model_len": 1000}]}
    upstream.behaviour = lambda body: (
        "final" if reads_references(body) else f"{body['seed']} " + "long " * 400
    )
    sampling = SamplingParams(max_tokens=5000)
    result = result_of(await run_events(endpoint=upstream.endpoint(), schedule="4", sampling=sampling))
    assert result.status == "complete"
    assert len(upstream.requests) == 5
    for body in upstream.requests:
        assert 0 < body["max_tokens"] <= 1000 - len(question_of(body)) // 4


async def test_a_problem_that_does_not_fit_by_itself_is_told(upstream: MockEndpoint) -> None:
    words = WORDINGS["llama.cpp"].format(w=100, p=5000)
    upstream.behaviour = lambda body: Status(400, {"error": {"message": words}})
    result = result_of(await run_events("long " * 5000, endpoint=upstream.endpoint(), schedule="4"))
    assert result.status == "failed"
    assert "does not fit the model's window" in result.warnings[-1].text
    assert "shorten it" in result.warnings[-1].text


async def test_an_endpoint_that_hangs_after_the_headers_costs_one_trajectory_not_the_run(
    upstream: MockEndpoint,
) -> None:
    hangs = iter([Hang(), Hang(), Hang()])
    upstream.behaviour = lambda body: next(hangs, Answer("a"))
    endpoint = upstream.endpoint(concurrency=4, timeouts=Timeouts(first_token=0.05))
    result = result_of(await run_events(endpoint=endpoint, schedule="4"))
    assert result.status == "complete"
    await upstream.wait_for_disconnects(3)


async def test_the_runs_deadline_drops_what_still_thinks_and_leaves_the_last_round_its_time(
    upstream: MockEndpoint,
) -> None:
    answers = iter(listed(Answer("a"), Answer("b"), Answer("c"), Hang([event({"content": "x" * 40})])))
    upstream.behaviour = lambda body: "final" if reads_references(body) else next(answers)
    events = await run_events(
        endpoint=upstream.endpoint(concurrency=4), schedule="4,4", budget=Budget(seconds=0.8, final_share=0.5)
    )
    result = result_of(events)
    assert result.answer == "final"
    assert "deadline" in codes(result)
    assert sorted(references_of(upstream.requests[-1])) == ["a", "b", "c"]
    (dropped,) = [
        e.trajectory for e in of_kind(events, TrajectoryFinished) if e.trajectory.status == "dropped"
    ]
    assert dropped.usage.completion_tokens == 10
    assert dropped.usage.estimated
    assert result.calls.cancelled == 1
    await upstream.wait_for_disconnects(1)


async def test_a_deadline_holds_also_while_text_never_stops_coming(upstream: MockEndpoint) -> None:
    endless = Raw([event({"content": "x" * 50}) for _ in range(200_000)])
    upstream.behaviour = lambda body: endless
    events = await run_events(endpoint=upstream.endpoint(), schedule="4", budget=Budget(seconds=0.4))
    result = result_of(events)
    assert (result.status, result.calls.cancelled) == ("failed", 4)
    assert result.wall_s < 5


async def test_sixteen_overflows_at_once_are_learned_from_once(upstream: MockEndpoint) -> None:
    words = "the prompt is beyond the context length"  # and no figures

    def behaviour(body: dict[str, Any]) -> Reply:
        if len(question_of(body)) > 9000:
            return Status(400, {"error": {"message": words}})
        return "final" if reads_references(body) else f"message {body['seed']} " + "long " * 300

    upstream.models = {"data": [{"id": "mock", "max_model_len": 4000}]}
    upstream.behaviour = behaviour
    events = await run_events(endpoint=upstream.endpoint(), schedule="8,16")
    assert result_of(events).status == "complete"
    second = [e.trajectory for e in of_kind(events, TrajectoryFinished) if e.trajectory.round == 2]
    assert len({trajectory.references for trajectory in second}) == 1
    sent = [len(question_of(body)) for body in upstream.requests if reads_references(body)]
    assert min(sent[:-1]) > 6000


async def test_a_last_round_past_the_deadline_ends_with_the_best_message(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Hang() if reads_references(body) else "\\boxed{24}"
    result = result_of(
        await run_events(endpoint=upstream.endpoint(), schedule="4", budget=Budget(seconds=0.4))
    )
    assert (result.status, result.answer) == ("degraded", "\\boxed{24}")


async def test_a_token_budget_holds_over_the_whole_run_and_keeps_the_last_rounds_share(
    upstream: MockEndpoint,
) -> None:
    def behaviour(body: dict[str, Any]) -> Reply:
        usage = {"prompt_tokens": 9, "completion_tokens": body["max_tokens"]}  # as much as it may
        return Answer("final" if reads_references(body) else f"a{body['seed']}", usage=usage)

    upstream.behaviour = behaviour
    result = result_of(
        await run_events(endpoint=upstream.endpoint(), schedule="4", budget=Budget(tokens=1000))
    )
    assert (result.status, result.answer) == ("complete", "final")
    assert [body["max_tokens"] for body in upstream.requests] == [200] * 5
    assert result.ttc_tokens == 1000


async def test_rounds_that_the_budget_cannot_pay_are_left_out_and_said_so(upstream: MockEndpoint) -> None:
    def behaviour(body: dict[str, Any]) -> Reply:
        usage = {"prompt_tokens": 9, "completion_tokens": body["max_tokens"] + 60}  # a cap that leaks
        return Answer("final" if reads_references(body) else f"a{body['seed']}", usage=usage)

    upstream.behaviour = behaviour
    result = result_of(
        await run_events(endpoint=upstream.endpoint(), schedule="4,4", budget=Budget(tokens=470))
    )
    assert (result.status, result.answer) == ("degraded", "final")
    assert "budget" in codes(result)
    assert len(upstream.requests) == 5


async def test_a_money_budget_caps_calls_by_their_price(upstream: MockEndpoint) -> None:
    def behaviour(body: dict[str, Any]) -> Reply:
        usage = {"prompt_tokens": 60, "completion_tokens": body["max_tokens"]}
        return Answer("final" if reads_references(body) else f"a{body['seed']}", usage=usage)

    upstream.behaviour = behaviour
    endpoint = upstream.endpoint(prices=Prices(prompt=1.0, completion=10.0))
    result = result_of(await run_events(endpoint=endpoint, schedule="4", budget=Budget(usd=0.02)))
    assert result.status == "complete"
    assert result.usage.completion_tokens * 10e-6 + result.usage.prompt_tokens * 1e-6 <= 0.02
    assert result.usage.completion_tokens > 1500


async def test_a_quorum_goes_on_without_the_slowest_and_counts_their_tokens(upstream: MockEndpoint) -> None:
    answers = iter(listed(Answer("a"), Answer("b"), Answer("c"), Hang([event({"content": "x" * 80})])))
    upstream.behaviour = lambda body: "final" if reads_references(body) else next(answers)
    schedule = Schedule(rounds=(RoundSpec(width=4, quorum=Quorum(3, grace_s=0.1)),))
    events = await run_events(endpoint=upstream.endpoint(concurrency=4), schedule=schedule)
    result = result_of(events)
    assert (result.status, result.answer) == ("complete", "final")
    assert sorted(references_of(upstream.requests[-1])) == ["a", "b", "c"]
    assert result.calls.cancelled == 1
    assert result.ttc_tokens == 7 * 4 + 20
    assert "1 × dropped" in result.warnings[0].text
    await upstream.wait_for_disconnects(1)


async def test_a_quorum_waits_its_grace_time_for_a_straggler(upstream: MockEndpoint) -> None:
    answers = iter([Answer("a"), Answer("b"), Answer("late", seconds=0.1)])
    upstream.behaviour = lambda body: "final" if reads_references(body) else next(answers)
    schedule = Schedule(rounds=(RoundSpec(width=3, quorum=Quorum(2, grace_s=5)),))
    await run_events(endpoint=upstream.endpoint(concurrency=3), schedule=schedule)
    assert sorted(references_of(upstream.requests[-1])) == ["a", "b", "late"]


async def test_an_agreement_stop_saves_the_calls_that_are_left(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Answer(f"{body['seed']}: \\boxed{{24}}")
    schedule = Schedule(rounds=(RoundSpec(width=16, stop=AgreementStop(stage=4)), RoundSpec(width=4)))
    events = await run_events(endpoint=upstream.endpoint(), schedule=schedule)
    result = result_of(events)
    assert len(upstream.requests) == 4
    assert result.answer is not None
    assert "\\boxed{24}" in result.answer
    assert result.agreement == 1.0
    assert of_kind(events, RoundFinished)[0].skipped == 12
    assert "12 calls of round 1 were saved" in result.warnings[0].text


async def test_an_agreement_stop_launches_the_next_stage_while_messages_differ(
    upstream: MockEndpoint,
) -> None:
    values = iter([1, 2, 3, 4, *[5] * 28])
    upstream.behaviour = lambda body: f"\\boxed{{{next(values)}}}"
    schedule = Schedule(rounds=(RoundSpec(width=32, stop=AgreementStop(stage=4, share=0.75)),), finish="vote")
    result = result_of(await run_events(endpoint=upstream.endpoint(concurrency=1), schedule=schedule))
    assert len(upstream.requests) == 16
    assert result.answer == "\\boxed{5}"


async def test_a_reader_that_goes_away_closes_every_call_and_starts_none(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Hang()
    started = 0
    async with contextlib.aclosing(
        pacore.stream(QUESTION, endpoint=upstream.endpoint(concurrency=3), schedule="8")
    ) as events:
        async for found in events:
            started += isinstance(found, TrajectoryStarted)
            if started == 3:
                await upstream.wait_for_requests(3)
                break
    await upstream.wait_for_disconnects(3)
    assert len(upstream.requests) == 3


async def test_a_cancelled_solve_closes_every_call(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Hang()
    task = asyncio.create_task(pacore.solve(QUESTION, endpoint=upstream.endpoint(), schedule="4"))
    await upstream.wait_for_requests(4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await upstream.wait_for_disconnects(4)


async def test_the_model_that_answered_is_in_the_record_not_the_one_asked_for(upstream: MockEndpoint) -> None:
    upstream.behaviour = lambda body: Answer(f"{body['seed']}", model="rerouted-model")
    events = await run_events(endpoint=upstream.endpoint(name="here"), schedule="2")
    for finished in of_kind(events, TrajectoryFinished):
        assert (finished.trajectory.model, finished.trajectory.endpoint) == ("rerouted-model", "here")
        assert finished.trajectory.request_id == "chatcmpl-1"
        assert 0 < finished.trajectory.started_at <= finished.trajectory.ended_at


async def test_usage_is_summed_over_all_trajectories(upstream: MockEndpoint) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "completion_tokens_details": {"reasoning_tokens": 4},
        "prompt_tokens_details": {"cached_tokens": 80},
    }
    upstream.behaviour = lambda body: Answer(f"{body['seed']}", usage=usage)
    result = result_of(await run_events(endpoint=upstream.endpoint(), schedule="4"))
    found = result.usage
    assert (found.prompt_tokens, found.completion_tokens, found.reasoning_tokens, found.cached_tokens) == (
        500,
        50,
        20,
        400,
    )
    assert result.ttc_tokens == 50


async def test_twenty_percent_of_transient_faults_lose_nothing(upstream: MockEndpoint) -> None:
    count = 0

    def behaviour(body: dict[str, Any]) -> Reply:
        nonlocal count
        count += 1
        if count % 5 == 0:
            faults: list[Reply] = [
                Status(503, {}),
                Raw([event({"content": "2"})], cut=True),
                Raw([], cut=True),
            ]
            return faults[count // 5 % 3]
        return f"{body['seed']}"

    upstream.behaviour = behaviour
    events = await run_events(endpoint=upstream.endpoint(), schedule="32,4")
    assert result_of(events).status == "complete"
    assert len(references_of(next(body for body in upstream.requests if reads_references(body)))) == 32
    assert not of_kind(events, Warned)
