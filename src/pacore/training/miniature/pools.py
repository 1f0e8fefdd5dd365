"""Message pools of digit-lock problems, and the episodes that training draws from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pacore.seeds import derive_random
from pacore.training.episode import Episode, Grade
from pacore.training.miniature import locks
from pacore.training.miniature.locks import LockProblem
from pacore.training.miniature.thinking import Thought, majority, read_thought, think
from pacore.training.network import Network


@dataclass(frozen=True, slots=True)
class Pool:
    """A problem with its cached trajectories."""

    problem: LockProblem
    thoughts: tuple[Thought, ...]

    @property
    def accuracy(self) -> float:
        """The share of trajectories that are right."""
        return sum(thought.code == self.problem.code for thought in self.thoughts) / len(self.thoughts)


def fill_pools(model: Network, problems: Sequence[LockProblem], size: int, *, seed: int) -> list[Pool]:
    """A pool of ``size`` trajectories for each problem."""
    thoughts = think(model, [locks.prompt_tokens(problem) for problem in problems], size, seed=seed)
    return [Pool(problem, tuple(found)) for problem, found in zip(problems, thoughts, strict=True)]


def stage_one(pools: Sequence[Pool], *, below: float = 9 / 24) -> list[Pool]:
    """The pools that synthesis can learn from: some messages are right, but not so many that it is easy."""
    return [pool for pool in pools if 0 < pool.accuracy < below]


def stage_two(
    model: Network, pools: Sequence[Pool], *, low: int, high: int, number: int, seed: int
) -> list[Pool]:
    """The pools that the model synthesises sometimes rightly and sometimes not."""
    drawn = [
        draw_episode(pool, low=low, high=high, seed=seed, key=("stage two", place))
        for place, pool in enumerate(pools)
    ]
    kept = []
    thoughts = think(model, [episode.prompt for episode in drawn], number, seed=seed)
    for pool, found in zip(pools, thoughts, strict=True):
        right = sum(thought.code == pool.problem.code for thought in found)
        if 0 < right < number:
            kept.append(pool)
    return kept


def draw_episode(pool: Pool, *, low: int, high: int, seed: int, key: tuple[str | int, ...]) -> Episode:
    """|M| ~ U(low, high) messages of a pool in random order, as an episode; none where ``high`` is 0."""
    draw = derive_random("locks", seed, *key)
    usable = [thought for thought in pool.thoughts if thought.code is not None]
    chosen = draw.sample(usable, min(draw.randint(low, high), len(usable)))
    codes = [thought.code for thought in chosen]
    prompt = locks.prompt_tokens(pool.problem, [locks.code_text(code) for code in codes if code is not None])
    if not codes:
        return Episode(prompt, pool.problem)
    truth = pool.problem.code
    return Episode(
        prompt,
        pool.problem,
        message_accuracy=sum(code == truth for code in codes) / len(codes),
        majority=float(majority(codes, draw) == truth),
    )


@dataclass(frozen=True, kw_only=True)
class LocksEnvironment:
    """Episodes over pools of digit locks, |M| drawn from U(low, high) at each access.

    ``replayed`` trajectories of the pools, on bare prompts, are what replay shows an iteration.
    """

    pools: Sequence[Pool]
    prompts: int
    low: int
    high: int
    seed: int
    replayed: int = 128

    def episodes(self, iteration: int) -> list[Episode]:
        """Some of the pools, each with a message set of its own; those of few locks first, so that the parts
        of an update have trajectories of like length.
        """
        chosen = derive_random("locks", self.seed, iteration).sample(range(len(self.pools)), self.prompts)
        chosen.sort(key=lambda place: len(self.pools[place].problem.locks))
        return [
            draw_episode(
                self.pools[place], low=self.low, high=self.high, seed=self.seed, key=(iteration, place)
            )
            for place in chosen
        ]

    def grade(
        self, episodes: Sequence[Episode], tokens: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[Grade]]:
        """1 for the right code, else 0."""
        return [
            [_grade(episode.task, read_thought(trajectory)) for trajectory in rows]
            for episode, rows in zip(episodes, tokens, strict=True)
        ]

    def replay(self, iteration: int) -> tuple[list[list[int]], list[tuple[int, ...]]]:
        """Bare prompts, each with one of its pool's trajectories, whatever its verdict."""
        draw = derive_random("replay", self.seed, iteration)
        chosen = [draw.choice(self.pools) for _ in range(self.replayed)]
        trajectories = [draw.choice(pool.thoughts).tokens for pool in chosen]
        return [locks.prompt_tokens(pool.problem) for pool in chosen], trajectories


def _grade(problem: LockProblem, thought: Thought) -> Grade:
    return Grade(float(thought.code == problem.code), thought.mentions)
