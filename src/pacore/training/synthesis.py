"""Synthesis episodes in text: a record with a pool gives a prompt ``P(x, M)``, M drawn at every access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pacore.coordination.agreement import Equivalence
from pacore.coordination.prompt import synthesis_messages
from pacore.data.episodes import draw_responses
from pacore.data.record import Record, Response
from pacore.data.truths import Truth
from pacore.errors import ConfigError
from pacore.evals.outcome import majority_reward
from pacore.types import ChatMessage


@dataclass(frozen=True, slots=True)
class SynthesisEpisode:
    """One round to act in: the chat to answer, and what the answer is held against.

    ``responses`` are the messages it reads, in the prompt's order.
    """

    record: Record
    messages: tuple[ChatMessage, ...]
    responses: tuple[Response, ...]

    @property
    def truth(self) -> Truth:
        """What the answer is held against."""
        return self.record.truth

    @property
    def message_accuracy(self) -> float | None:
        """Mean reward of the messages; ``None`` where there are none, or one was never verified."""
        rewards = [response.reward for response in self.responses]
        known = [reward for reward in rewards if reward is not None]
        return sum(known) / len(known) if known and len(known) == len(rewards) else None

    def majority(self, equivalence: Equivalence) -> float | None:
        """The expected reward of the most frequent answer among the messages, where they were verified."""
        rewards = [response.reward for response in self.responses if response.reward is not None]
        if not rewards or len(rewards) < len(self.responses):
            return None
        return majority_reward([response.content for response in self.responses], rewards, equivalence)


@dataclass(frozen=True, kw_only=True)
class SynthesisTask:
    """How episodes are made of records: |M| ~ U(low, high) messages in random order.

    The paper draws from 16 to 24; ``high`` 0 gives the bare problems (RLVR of a starting checkpoint).
    """

    low: int = 16
    high: int = 24
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ConfigError(f"|M| is drawn from [{self.low}, {self.high}]; give 0 <= low <= high")

    def episode(self, record: Record, access: int) -> SynthesisEpisode:
        """The episode of a record's ``access``: a function of seed, record and access alone, so that a run
        can be resumed. Raises ProblemError for a record that has no pool, where messages are read.
        """
        responses = draw_responses(record, access, low=self.low, high=self.high, seed=self.seed)
        prompt = synthesis_messages(record.problem(), [response.content for response in responses])
        return SynthesisEpisode(record, prompt, tuple(responses))


def with_pools(records: Sequence[Record]) -> list[Record]:
    """The records that episodes with messages can be made of. Raises ConfigError where there is none."""
    usable = [record for record in records if record.pool]
    if not usable:
        raise ConfigError(
            "no record has a pool of messages; `pacore data pool` makes them, and "
            "`pacore data convert --pool` puts them beside their problems"
        )
    return usable
