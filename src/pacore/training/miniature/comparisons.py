"""Which models the miniature evaluates on which schedules, and the scores as they are kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from pacore.seeds import derive_seed
from pacore.training.miniature.evaluation import Run, Score, evaluate, vote
from pacore.training.miniature.pools import fill_pools
from pacore.training.miniature.stages import MiniatureSettings, Say, problems
from pacore.training.miniature.thinking import Thought, read_thought
from pacore.training.miniature.weights import load_model
from pacore.training.run import write_whole

POOL = 32
"""First-round trajectories of a held-out problem, shared by all schedules."""

PIPELINE = (
    Run(widths=()),
    Run(widths=(4,)),
    Run(widths=(16,)),
    Run(widths=(32, 4)),
    Run(widths=(4, 4, 4, 4)),
)
SYNTHESIS = (Run(widths=(4,)), Run(widths=(16,)), Run(widths=(32, 4)))
DEPTH = (Run(widths=(1,) * 4), Run(widths=(1,) * 16))
WHOLE = (Run(widths=(4,), compact="none"), Run(widths=(16,), compact="none"))
VOTES = (1, 4, 16, 32)


class Comparison(Struct, frozen=True, kw_only=True):
    """A model on schedules; its first rounds are its own, or those of the base model.

    ``small`` takes the first of the held-out problems only.
    """

    name: str
    model: str
    first: str
    schedules: tuple[Run, ...]
    votes: bool = False
    small: bool = False


class Scores(Struct, frozen=True, kw_only=True):
    """What a comparison came to."""

    name: str
    model: str
    first: str
    scores: tuple[Score, ...]

    def of(self, schedule: str) -> Score:
        """The score of a schedule by its name. Raises KeyError where it was not run."""
        for score in self.scores:
            if score.schedule == schedule:
                return score
        raise KeyError(schedule)


COMPARISONS = (
    Comparison(name="before", model="base", first="base", schedules=PIPELINE, votes=True),
    Comparison(name="after", model="stage2", first="stage2", schedules=PIPELINE, votes=True),
    Comparison(name="after, first round of the base", model="stage2", first="base", schedules=SYNTHESIS),
    Comparison(
        name="without references", model="control", first="control", schedules=PIPELINE[:4], small=True
    ),
    Comparison(name="|M| drawn", model="stage1", first="base", schedules=SYNTHESIS, small=True),
    Comparison(name="|M| fixed", model="fixed", first="base", schedules=SYNTHESIS, small=True),
    Comparison(name="without replay", model="plain", first="plain", schedules=PIPELINE[:4], small=True),
    Comparison(
        name="without replay, first round of the base",
        model="plain",
        first="base",
        schedules=SYNTHESIS,
        small=True,
    ),
    Comparison(name="depth", model="stage2", first="stage2", schedules=DEPTH, small=True),
    Comparison(name="without compaction", model="stage2", first="stage2", schedules=WHOLE, small=True),
)


def fill_first_rounds(settings: MiniatureSettings, folder: Path, model: str, number: int) -> None:
    """Cache a model's first rounds of the first ``number`` held-out problems."""
    path = folder / "scores" / f"first.{model}.json"
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    held_out = problems(settings, "held out", settings.held_out)[:number]
    seed = derive_seed("first", model, settings.seed)
    pools = fill_pools(load_model(folder / f"{model}.safetensors"), held_out, POOL, seed=seed)
    write_whole(path, msgspec.json.encode([[list(t.tokens) for t in pool.thoughts] for pool in pools]))


def compare(settings: MiniatureSettings, folder: Path, comparison: Comparison, say: Say) -> None:
    """Evaluate one comparison and keep its scores."""
    path = scores_path(folder, comparison.name)
    if path.exists():
        return
    held_out = problems(settings, "held out", settings.held_out)
    first = _first_rounds(folder, comparison.first)
    number = min(len(first), settings.small if comparison.small else len(held_out))
    held_out, first = held_out[:number], first[:number]
    model = load_model(folder / f"{comparison.model}.safetensors")
    seed = derive_seed("evaluation", settings.seed)
    found = [vote(held_out, first, size, seed=seed) for size in VOTES] if comparison.votes else []
    for run in comparison.schedules:
        score = evaluate(model, held_out, run, first=first, seed=seed)
        say(f"{comparison.name} {score.schedule}: {score.accuracy:.3f} ± {score.error:.3f}")
        found.append(score)
    scores = Scores(name=comparison.name, model=comparison.model, first=comparison.first, scores=tuple(found))
    write_whole(path, msgspec.json.encode(scores))


def scores_path(folder: Path, name: str) -> Path:
    """Where the scores of a comparison are."""
    return folder / "scores" / f"{name.replace(' ', '_').replace('|', '').replace(',', '')}.json"


def read_scores(folder: Path, name: str) -> Scores:
    """The scores of a comparison."""
    return msgspec.json.decode(scores_path(folder, name).read_bytes(), type=Scores)


def _first_rounds(folder: Path, model: str) -> list[list[Thought]]:
    kept = msgspec.json.decode(
        (folder / "scores" / f"first.{model}.json").read_bytes(), type=list[list[list[int]]]
    )
    return [[read_thought(tokens) for tokens in rows] for rows in kept]
