"""Synthesis episodes for the local trainer: records and their pools, in a model's own tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pacore.coordination.agreement import Equivalence
from pacore.data.record import Record
from pacore.errors import ConfigError
from pacore.seeds import derive_random
from pacore.training.episode import Episode, Grade
from pacore.training.grading import Grader
from pacore.training.synthesis import SynthesisTask, with_pools


class TextEnvironment:
    """``prompts`` records an iteration, each with a message set of its own.

    A pass takes every record once, in an order of its own, before any comes again. Prompts longer than
    ``longest`` tokens raise ConfigError, as cutting one would cut its references.
    """

    def __init__(
        self,
        records: Sequence[Record],
        task: SynthesisTask,
        tokenizer: Any,
        grader: Grader,
        *,
        prompts: int,
        longest: int,
        equivalence: Equivalence | None = None,
    ) -> None:
        self._records = with_pools(records) if task.high else list(records)
        if not self._records:
            raise ConfigError("there is no record to train on")
        self._task = task
        self._tokenizer = tokenizer
        self._grader = grader
        self._prompts = prompts
        self._longest = longest
        self._equivalence = equivalence

    def episodes(self, iteration: int) -> list[Episode]:
        """The episodes of an iteration."""
        begin = iteration * self._prompts
        return [
            self._episode(*divmod(place, len(self._records))) for place in range(begin, begin + self._prompts)
        ]

    def _episode(self, lap: int, place: int) -> Episode:
        order = list(range(len(self._records)))
        derive_random("pass", self._task.seed, lap).shuffle(order)
        episode = self._task.episode(self._records[order[place]], lap)
        tokens = self._tokenizer.apply_chat_template(
            list(episode.messages), add_generation_prompt=True, tokenize=True, return_dict=False
        )
        if len(tokens) > self._longest:
            raise ConfigError(
                f"the prompt of record {episode.record.id!r} with {len(episode.responses)} messages has "
                f"{len(tokens)} tokens, more than {self._longest}; draw fewer messages, or raise the limit"
            )
        majority = None if self._equivalence is None else episode.majority(self._equivalence)
        return Episode(tokens, episode.truth, episode.message_accuracy, majority)

    def grade(
        self, episodes: Sequence[Episode], tokens: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[Grade]]:
        """The grades of the trajectories' texts."""
        pairs = [
            (episode.task, self._text(trajectory))
            for episode, rows in zip(episodes, tokens, strict=True)
            for trajectory in rows
        ]
        grades = iter(self._grader.grade_all(pairs))
        return [[next(grades) for _ in rows] for rows in tokens]

    def replay(self, iteration: int) -> Any:
        """There is none: the paper's method has no replay."""
        raise ConfigError("training on records has no replay; leave replay_weight at 0")

    def _text(self, tokens: Sequence[int]) -> str:
        # Special tokens are kept: the end of thinking is one for some models. The last token ends the
        # trajectory, and a limit that cut it leaves nothing to take away.
        special = set(self._tokenizer.all_special_ids)
        kept = tokens[:-1] if tokens and tokens[-1] in special else tokens
        text: str = self._tokenizer.decode(kept, skip_special_tokens=False)
        return text
