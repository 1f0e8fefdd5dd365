"""Synthesis episodes: |M| and the messages drawn anew at every access, the same after a restart."""

from __future__ import annotations

from collections import Counter

import pytest

from pacore.coordination.prompt import render_synthesis
from pacore.data.record import Record, Response
from pacore.errors import ConfigError, ProblemError
from pacore.training.synthesis import SynthesisTask, with_pools
from pacore.verifiers.math.equivalence import MathEquivalence


def a_record(pool: int = 24) -> Record:
    return Record(
        id="one",
        messages=({"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 3 + 4?"}),
        pool=tuple(
            Response(
                content=f"The answer is {7 if place % 4 == 0 else place + 100}.", reward=float(place % 4 == 0)
            )
            for place in range(pool)
        ),
    )


def test_the_size_of_the_message_set_is_uniform_and_its_messages_are_distinct() -> None:
    task = SynthesisTask(low=16, high=24, seed=3)
    episodes = [task.episode(a_record(), access) for access in range(900)]
    sizes = Counter(len(episode.responses) for episode in episodes)
    assert set(sizes) == set(range(16, 25))
    # 100 expected of each; 5 standard deviations.
    assert all(abs(count - 100) < 50 for count in sizes.values())
    assert all(len({id(one) for one in episode.responses}) == len(episode.responses) for episode in episodes)


def test_every_access_draws_anew_and_a_restart_draws_the_same() -> None:
    task = SynthesisTask(seed=1)
    first = [task.episode(a_record(), access).messages for access in range(20)]
    assert first == [SynthesisTask(seed=1).episode(a_record(), access).messages for access in range(20)]
    assert len({str(messages) for messages in first}) == 20


def test_the_prompt_is_the_template_in_the_last_user_message() -> None:
    episode = SynthesisTask(low=2, high=2).episode(a_record(), 0)
    texts = [response.content for response in episode.responses]
    assert episode.messages[0] == {"role": "system", "content": "Be brief."}
    assert episode.messages[1]["content"] == render_synthesis("What is 3 + 4?", texts)


def test_without_messages_the_problem_stays_as_it_is() -> None:
    episode = SynthesisTask(low=0, high=0).episode(a_record(pool=0), 5)
    assert episode.messages == a_record().messages
    assert episode.message_accuracy is None
    assert episode.majority(MathEquivalence()) is None


def test_accuracy_and_majority_are_those_of_the_drawn_messages() -> None:
    episode = SynthesisTask(low=24, high=24).episode(a_record(), 0)
    assert episode.message_accuracy == 0.25
    assert episode.majority(MathEquivalence()) == 1.0


def test_records_without_a_pool_are_an_error_where_messages_are_read() -> None:
    with pytest.raises(ProblemError, match="record 'one' has no message"):
        SynthesisTask().episode(a_record(pool=0), 0)
    with pytest.raises(ConfigError, match="no record has a pool"):
        with_pools([a_record(pool=0)])


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (5, 4)])
def test_bounds_that_are_none_are_named(low: int, high: int) -> None:
    with pytest.raises(ConfigError, match="give 0 <= low <= high"):
        SynthesisTask(low=low, high=high)
