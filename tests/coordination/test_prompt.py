"""Prompts are byte for byte what trained models expect, and stand where the method puts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pacore.coordination.prompt import render_synthesis, select_messages, synthesis_messages
from pacore.problems import read_problem

GOLDEN = json.loads((Path(__file__).parent.parent / "cases" / "golden_prompts.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=[case["case"] for case in GOLDEN])
def test_the_prompt_equals_the_golden_rendering(case: dict[str, Any]) -> None:
    assert render_synthesis(case["original_prompt"], case["ref_responses"]) == case["rendered"]


def test_without_references_the_chat_stays_as_it_is() -> None:
    problem = read_problem("Why?")
    assert synthesis_messages(problem, []) == problem.messages


def test_only_the_last_user_message_is_replaced() -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "second", "name": "ann"},
    ]
    messages = synthesis_messages(read_problem(chat), ["a"])
    assert list(messages[:3]) == chat[:3]
    assert messages[3] == {"role": "user", "content": render_synthesis("second", ["a"]), "name": "ann"}


def test_a_tool_result_after_the_user_is_the_newest_observation() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "rain"},
    ]
    messages = synthesis_messages(read_problem(chat), ["a"])
    assert list(messages[:2]) == chat[:2]
    assert messages[2] == {"role": "tool", "tool_call_id": "c", "content": render_synthesis("rain", ["a"])}


def test_a_final_assistant_prefix_stays_behind_the_replaced_message() -> None:
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "So"}]
    messages = synthesis_messages(read_problem(chat), ["a"])
    assert messages[0]["content"] == render_synthesis("q", ["a"])
    assert messages[1] == chat[1]


def test_images_stay_and_text_parts_become_the_prompt() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    parts = [image, {"type": "text", "text": "What is"}, image, {"type": "text", "text": "this?"}]
    (message,) = synthesis_messages(read_problem([{"role": "user", "content": parts}]), ["a cat"])
    expected = {"type": "text", "text": render_synthesis("What is\nthis?", ["a cat"])}
    assert message["content"] == [image, expected, image]


def test_braces_in_problem_and_candidates_pass_through_the_judge_prompt() -> None:
    (message,) = select_messages(read_problem("What is {x}?"), ["{y}", "{0}"])
    assert "What is {x}?" in message["content"]
    assert "Candidate 1:\n{y}" in message["content"]
    assert "Candidate 2:\n{0}" in message["content"]
