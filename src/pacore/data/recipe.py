"""The recipe of a corpus: where problems come from, and the steps they go through, as a TOML file.

name = "math for synthesis"

[[source]]
path = "problems.jsonl"

[[step]]
use = "rules"

[[step]]
use = "decontaminate"
against = ["aime_2025.jsonl"]
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from pacore.config import convert, unknown_name
from pacore.data.steps.accuracy import CODE_BELOW, MATH_BELOW
from pacore.data.steps.arithmetic import OPERATIONS, Operation
from pacore.data.steps.rules import CODE_RULES, LEAST_TESTS, MATH_RULES
from pacore.errors import ConfigError
from pacore.traces.store import KeepReasoning
from pacore.types import PositiveInt, SamplingParams

Share: TypeAlias = Annotated[float, Meta(gt=0, le=1)]


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One source: a ``path`` (or ``hub:NAME``), or ``arithmetic`` to be made.

    ``name`` and ``license`` fill what records leave open; ``prefix`` makes ids of several sources differ.
    """

    path: str | None = None
    arithmetic: Arithmetic | None = None
    format: str | None = None
    name: str = ""
    license: str = ""
    prefix: str = ""
    skip_bad: bool = False


class Arithmetic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Synthetic arithmetic: how many, of which operations, with operands between what."""

    number: PositiveInt
    low: Annotated[int, Meta(ge=0)] = 10**11
    high: PositiveInt = 10**13
    operations: tuple[Operation, ...] = OPERATIONS
    seed: int = 0


class _Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="use"):
    pass


class Rules(_Step, frozen=True, kw_only=True, tag="rules"):
    """Rule filters; ``without`` names some not to apply."""

    without: tuple[str, ...] = ()
    least_tests: Annotated[int, Meta(ge=0)] = LEAST_TESTS

    def __post_init__(self) -> None:
        known = {**MATH_RULES, **CODE_RULES}
        for name in self.without:
            if name not in known:
                raise ConfigError(unknown_name("rule", name, known))


class Deduplicate(_Step, frozen=True, kw_only=True, tag="deduplicate"):
    """Exact and near duplicates; ``near = 1`` leaves only those with all 5-grams in common."""

    near: Share = 0.8
    same_numbers: bool = True


class Decontaminate(_Step, frozen=True, kw_only=True, tag="decontaminate"):
    """Leaves out what is in the benchmark files ``against``."""

    against: tuple[str, ...]


class Validity(_Step, frozen=True, kw_only=True, tag="validity"):
    """The judge ``endpoint`` must pass question and answer ``passes`` times of as many."""

    endpoint: str | None = None
    passes: PositiveInt = 4
    words: str | None = None


class CodeTests(_Step, frozen=True, kw_only=True, tag="tests"):
    """Generates ``number`` tests a programming problem."""

    number: PositiveInt = 20
    required: bool = False


class Checker(_Step, frozen=True, kw_only=True, tag="checker"):
    """Chooses a testlib checker where none is named."""


class Pool(_Step, frozen=True, kw_only=True, tag="pool"):
    """Draws and verifies ``size`` trajectories a problem from ``endpoint``."""

    size: PositiveInt = 24
    endpoint: str | None = None
    sampling: SamplingParams = SamplingParams()
    reasoning: KeepReasoning = "packed"


class Stage1(_Step, frozen=True, kw_only=True, tag="stage1"):
    """Keeps 0 < mean message accuracy < ``math_below`` or ``code_below``; ``pool`` is the step before's, or
    a path.
    """

    pool: str | None = None
    math_below: Share = MATH_BELOW
    code_below: Share = CODE_BELOW


class Stage2(_Step, frozen=True, kw_only=True, tag="stage2"):
    """Keeps 0 < synthesis accuracy < 1 over ``episodes`` of a checkpoint behind ``endpoint``."""

    endpoint: str | None = None
    episodes: PositiveInt = 16
    low: PositiveInt = 16
    high: PositiveInt = 24
    sampling: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ConfigError(f"stage2: between {self.low} and {self.high} messages; low is at most high")


StepConfig: TypeAlias = (
    Rules | Deduplicate | Decontaminate | Validity | CodeTests | Checker | Pool | Stage1 | Stage2
)
STEPS = ("rules", "deduplicate", "decontaminate", "validity", "tests", "checker", "pool", "stage1", "stage2")


class Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A corpus to be built. ``seed`` is that of everything drawn; paths are seen from the recipe's folder."""

    name: str
    source: Annotated[tuple[Source, ...], Meta(min_length=1)]
    step: tuple[StepConfig, ...] = ()
    seed: int = 0
    about: str = ""
    license: str = ""
    folder: str = "."


def step_name(config: StepConfig) -> str:
    """What a step is called in a recipe."""
    return str(config.__struct_config__.tag)


def load_recipe(path: Path) -> Recipe:
    """Read a recipe. Raises ConfigError, naming the place, for what does not fit."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    for number, step in enumerate(table.get("step") or (), start=1):
        if isinstance(step, dict) and step.get("use") not in STEPS:
            known = dict.fromkeys(STEPS)
            raise ConfigError(f"{path}: step {number}: {unknown_name('step', str(step.get('use')), known)}")
    recipe = convert({**table, "folder": str(path.parent)}, Recipe, str(path))
    for number, source in enumerate(recipe.source, start=1):
        if (source.path is None) == (source.arithmetic is None):
            raise ConfigError(f"{path}: source {number} needs either a path or arithmetic")
    return recipe


def describe(config: StepConfig | Source) -> dict[str, Any]:
    """The settings as they stand in a recipe, for a card."""
    described: dict[str, Any] = msgspec.to_builtins(config)
    return {key: value for key, value in described.items() if value not in (None, "", [], {}, False)}
