"""Reasoning is told from the conclusion by its tags."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pacore.sampling.thinking import Split, ThinkingStream, split_thinking


def test_a_text_is_split_at_its_last_closing_tag() -> None:
    assert split_thinking("<think>a</think>b</think>\n\nc") == Split("a</think>b", "c", True)


def test_thinking_that_begins_in_the_template_has_only_a_closing_tag() -> None:
    assert split_thinking("so 24\n</think>\n\nIt is 24.") == Split("so 24", "It is 24.", True)


def test_thinking_that_never_closes_has_no_conclusion() -> None:
    assert split_thinking("<think>so 24") == Split("so 24", "", False)
    assert split_thinking("so 24", implicit=True) == Split("so 24", "", False)


def test_a_text_without_tags_is_all_conclusion() -> None:
    assert split_thinking("It is 24.") == Split("", "It is 24.", True)


@given(st.lists(st.integers(0, 40), max_size=6))
def test_live_sorting_does_not_depend_on_where_text_was_cut(places: list[int]) -> None:
    text = "  <think>maybe 24?</thin></think>It is 24 < 25."
    cuts = [0, *sorted(places), len(text)]
    sorter = ThinkingStream(implicit=False)
    fed = [sorter.feed(text[start:end]) for start, end in itertools.pairwise(cuts)]
    assert "".join(content for content, _ in fed) == "It is 24 < 25."
    assert "".join(reasoning for _, reasoning in fed) == "maybe 24?</thin>"
