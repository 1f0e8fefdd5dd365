"""Every method is a schedule of the one loop: these tests say who read what."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from typing import Any

import pytest

from pacore.coordination.prompt import render_synthesis, task_text
from pacore.errors import ConfigError
from pacore.events import RoundStarted, TrajectoryFinished
from pacore.problems import read_problem
from pacore.sampling.sampler import Call
from pacore.sampling.scripted import Line, ScriptedSampler
from pacore.types import Problem, RoundSpec, SamplingParams, Schedule, Trajectory
from support.running import QUESTION, codes, of_kind, result_of, run_events


def named(call: Call) -> Line:
    """A message that says which trajectory left it."""
    return Line(content=f"message {call.round}.{call.index}", reasoning=f"thoughts {call.round}.{call.index}")


def last_text(call: Call) -> str:
    text: str = call.prompt.messages[-1]["content"]
    return text


def by_round(sampler: ScriptedSampler) -> dict[int, list[Call]]:
    found: dict[int, list[Call]] = defaultdict(list)
    for call in sampler.calls:
        found[call.round].append(call)
    return found


def read_by(call: Call) -> set[str]:
    """Which of the scripted messages stand in a prompt."""
    words = last_text(call).split()
    return {f"{a} {b}" for a, b in itertools.pairwise(words) if a in ("message", "thoughts") and "." in b}


def all_of(round_number: int, width: int) -> set[str]:
    return {f"message {round_number}.{index}" for index in range(width)}


@pytest.mark.parametrize(
    ("schedule", "widths"),
    [("low", [4, 1]), ("medium", [16, 1]), ("high", [32, 4, 1]), ("step", [4, 4, 4, 4, 1])],
)
async def test_pacore_reads_all_messages_of_the_round_before_and_adds_a_round_of_one(
    schedule: str, widths: list[int]
) -> None:
    sampler = ScriptedSampler(named)
    events = await run_events(endpoint=sampler, schedule=schedule)
    calls = by_round(sampler)
    assert [len(calls[number]) for number in sorted(calls)] == widths
    assert all(last_text(call) == QUESTION for call in calls[1])
    for number in range(2, len(widths) + 1):
        assert all(read_by(call) == all_of(number - 1, widths[number - 2]) for call in calls[number])
    assert result_of(events).answer == f"message {len(widths)}.0"


async def test_a_round_of_references_is_the_template_over_whole_messages_in_order() -> None:
    sampler = ScriptedSampler(named)
    events = await run_events(endpoint=sampler, schedule="4")
    final = of_kind(events, TrajectoryFinished)[-1].trajectory
    texts = [f"message {reference.round}.{reference.index}" for reference in final.references]
    assert last_text(sampler.calls[-1]) == render_synthesis(QUESTION, texts)
    assert sorted(texts) == sorted(all_of(1, 4))


async def test_one_plain_call_reads_the_problem_as_it_is() -> None:
    sampler = ScriptedSampler(named)
    result = result_of(await run_events(endpoint=sampler, schedule="single"))
    assert [last_text(call) for call in sampler.calls] == [QUESTION]
    assert result.answer == "message 1.0"


async def test_sequential_refinement_reads_the_one_message_before() -> None:
    sampler = ScriptedSampler(named)
    await run_events(endpoint=sampler, schedule="1,1,1")
    assert [read_by(call) for call in sampler.calls] == [set(), *(all_of(number, 1) for number in (1, 2, 3))]


async def test_self_consistency_votes_by_equivalent_answers_without_another_call() -> None:
    answers = ["\\boxed{0.5}", "\\boxed{3}", "\\boxed{\\frac12}", "\\boxed{1/2}", "\\boxed{3}"]
    sampler = ScriptedSampler(lambda call: answers[call.index])
    result = result_of(
        await run_events(endpoint=sampler, schedule=Schedule(rounds=(RoundSpec(width=5),), finish="vote"))
    )
    assert len(sampler.calls) == 5
    assert result.answer in answers[::2] or result.answer == answers[3]
    assert result.agreement == 0.6
    assert result.status == "complete"


async def test_a_tied_vote_is_drawn_by_the_seed() -> None:
    def winner(seed: int) -> Any:
        sampler = ScriptedSampler(lambda call: f"\\boxed{{{call.index}}}")
        return run_events(
            endpoint=sampler, schedule=Schedule(rounds=(RoundSpec(width=2),), finish="vote"), seed=seed
        )

    first = {seed: result_of(await winner(seed)).answer for seed in range(12)}
    again = {seed: result_of(await winner(seed)).answer for seed in range(12)}
    assert first == again
    assert set(first.values()) == {"\\boxed{0}", "\\boxed{1}"}


async def test_best_of_n_takes_the_candidate_that_a_judge_names() -> None:
    def script(call: Call) -> str:
        return (
            "Both hold, but...\nBest: 3" if call.purpose == "select" else f"message {call.round}.{call.index}"
        )

    sampler = ScriptedSampler(script)
    events = await run_events(
        endpoint=sampler, schedule=Schedule(rounds=(RoundSpec(width=4),), finish="select")
    )
    judge = of_kind(events, TrajectoryFinished)[-1].trajectory
    third = judge.references[2]
    assert result_of(events).answer == f"message {third.round}.{third.index}"
    assert f"Candidate 3:\nmessage 1.{third.index}" in last_text(sampler.calls[-1])
    assert of_kind(events, RoundStarted)[-1].purpose == "select"


async def test_a_judge_that_names_no_candidate_is_asked_again_and_then_replaced_by_agreement() -> None:
    def script(call: Call) -> str:
        return "Best: 17" if call.purpose == "select" else "\\boxed{24}"

    sampler = ScriptedSampler(script)
    result = result_of(
        await run_events(endpoint=sampler, schedule=Schedule(rounds=(RoundSpec(width=3),), finish="select"))
    )
    assert [call.purpose for call in sampler.calls].count("select") == 2
    assert (result.status, result.answer) == ("degraded", "\\boxed{24}")
    assert "last_round_failed" in codes(result)


async def test_recursive_self_aggregation_reads_a_subset_drawn_anew_for_each() -> None:
    sampler = ScriptedSampler(named)
    rsa = RoundSpec(width=8, reads=3)
    await run_events(endpoint=sampler, schedule=Schedule(rounds=(rsa, rsa)))
    second, final = by_round(sampler)[2], by_round(sampler)[3]
    subsets = [read_by(call) for call in second]
    assert all(len(subset) == 3 and subset <= all_of(1, 8) for subset in subsets)
    assert len({frozenset(subset) for subset in subsets}) > 1
    assert read_by(final[0]) == all_of(2, 8)


async def test_a_mixture_of_agents_takes_turns_among_its_endpoints_and_reads_them_all() -> None:
    a, b, c = (ScriptedSampler(named) for _ in range(3))
    mixed = RoundSpec(width=4, endpoints=("a", "b"))
    schedule = Schedule(rounds=(mixed, mixed), final=RoundSpec(endpoints=("c",)))
    await run_events(endpoint=ScriptedSampler([]), endpoints={"a": a, "b": b, "c": c}, schedule=schedule)
    assert [call.index for call in by_round(a)[1]] == [0, 2]
    assert [call.index for call in by_round(b)[1]] == [1, 3]
    assert all(read_by(call) == all_of(1, 4) for call in (*by_round(a)[2], *by_round(b)[2]))
    assert read_by(c.calls[0]) == all_of(2, 4)


async def test_parallel_distil_refine_reads_summaries_made_by_further_calls() -> None:
    def script(call: Call) -> Line:
        return Line(content=f"message 9.{call.index}") if call.purpose == "summarize" else named(call)

    sampler = ScriptedSampler(script)
    schedule = Schedule(rounds=(RoundSpec(width=3, compact="summary"),))
    result = result_of(await run_events(endpoint=sampler, schedule=schedule))
    summaries = [call for call in sampler.calls if call.purpose == "summarize"]
    assert sorted(call.index for call in summaries) == [0, 1, 2]
    for call in summaries:
        assert {f"message 1.{call.index}", f"thoughts 1.{call.index}"} == read_by(call)
    assert read_by(sampler.calls[-1]) == all_of(9, 3)
    assert result.calls.made == 7


async def test_markovian_thinking_reads_the_tails_also_of_what_was_cut_off() -> None:
    def script(call: Call) -> Line:
        return Line(reasoning="a" * 400 + f"end {call.index}", finish_reason="length")

    sampler = ScriptedSampler(lambda call: script(call) if call.round == 1 else named(call))
    schedule = Schedule(rounds=(RoundSpec(width=2, compact="tail", tail_tokens=10),))
    await run_events(endpoint=sampler, schedule=schedule)
    prompt = last_text(sampler.calls[-1])
    assert "end 0" in prompt
    assert "end 1" in prompt
    assert "a" * 41 not in prompt


async def test_without_compaction_whole_trajectories_are_read() -> None:
    sampler = ScriptedSampler(named)
    await run_events(endpoint=sampler, schedule="no-compaction")
    both = all_of(1, 4) | {f"thoughts 1.{index}" for index in range(4)}
    assert read_by(sampler.calls[-1]) == both


async def test_a_compaction_of_ones_own_is_used_by_its_name() -> None:
    class FirstWord:
        def follow_up(self, problem: Problem, trajectory: Trajectory) -> None:
            return None

        def message(self, trajectory: Trajectory, followed: Trajectory | None) -> str | None:
            return trajectory.content.split()[0]

    sampler = ScriptedSampler(lambda call: f"word{call.index} and more")
    schedule = Schedule(rounds=(RoundSpec(width=2, compact="first-word"),))
    await run_events(endpoint=sampler, schedule=schedule, compactions={"first-word": FirstWord()})
    assert "word0" in last_text(sampler.calls[-1])
    assert "and more" not in last_text(sampler.calls[-1])
    with pytest.raises(ConfigError, match="no compaction 'first-wrd'; did you mean 'first-word'"):
        wrong = Schedule(rounds=(RoundSpec(width=2, compact="first-wrd"),))
        await run_events(endpoint=sampler, schedule=wrong, compactions={"first-word": FirstWord()})


async def test_a_round_may_sample_in_its_own_way() -> None:
    sampler = ScriptedSampler(named)
    schedule = Schedule(rounds=(RoundSpec(width=1, sampling=SamplingParams(temperature=0.3)),))
    await run_events(endpoint=sampler, schedule=schedule, sampling=SamplingParams(temperature=0.9))
    assert [call.sampling.temperature for call in sampler.calls] == [0.3, 0.9]


async def test_the_order_of_references_follows_from_seed_and_problem_not_from_arrival_or_length() -> None:
    async def order(seconds: list[float], texts: list[str], **options: Any) -> list[int]:
        script = ScriptedSampler(
            lambda call: (
                Line(content=texts[call.index], seconds=seconds[call.index]) if call.round == 1 else "x"
            )
        )
        events = await run_events(endpoint=script, schedule="4", **options)
        final: Trajectory = of_kind(events, TrajectoryFinished)[-1].trajectory
        return [reference.index for reference in final.references]

    first = await order([0.0, 0.01, 0.02, 0.03], ["a", "bb", "ccc", "dddd"])
    assert first == await order([0.03, 0.02, 0.01, 0.0], ["aaaa", "bbb", "cc", "d"])
    seeds = {tuple(await order([0.0] * 4, list("abcd"), seed=seed)) for seed in range(8)}
    assert len(seeds) > 2


async def test_every_trajectory_has_its_own_seed_that_follows_from_the_runs() -> None:
    async def seeds(seed: int) -> list[int]:
        sampler = ScriptedSampler(named)
        await run_events(endpoint=sampler, schedule="high", seed=seed)
        return [call.seed for call in sampler.calls]

    first = await seeds(0)
    assert len(set(first)) == 37
    assert first == await seeds(0)
    assert not set(first) & set(await seeds(1))


async def test_trajectories_of_a_round_share_one_prompt_so_prefixes_can_be_cached() -> None:
    sampler = ScriptedSampler(named)
    await run_events(endpoint=sampler, schedule="16,4")
    assert len({id(call.prompt) for call in by_round(sampler)[1]}) == 1
    assert len({id(call.prompt) for call in by_round(sampler)[2]}) == 1


async def test_tool_calls_of_a_trajectory_are_its_message() -> None:
    call_of = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}

    def script(call: Call) -> Line:
        return Line(tool_calls=(call_of,), finish_reason="tool_calls")

    sampler = ScriptedSampler(script)
    result = result_of(await run_events(endpoint=sampler, schedule="2"))
    assert json.dumps(call_of["function"], separators=(",", ":")) in last_text(sampler.calls[-1])
    assert result.tool_calls == (call_of,)
    assert (result.status, result.answer, result.finish_reason) == ("complete", "", "tool_calls")


async def test_images_reach_every_round() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    chat = [{"role": "user", "content": [image, {"type": "text", "text": "What is this?"}]}]
    sampler = ScriptedSampler(named)
    await run_events(chat, endpoint=sampler, schedule="2,2")
    assert all(call.prompt.messages[0]["content"][0] == image for call in sampler.calls)
    assert task_text(read_problem(chat)) == "What is this?"
