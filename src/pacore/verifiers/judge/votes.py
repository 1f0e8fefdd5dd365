"""Several judgments made into one: all must agree (data curation), or most must (evaluation)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pacore.errors import ConfigError

Rule = Literal["unanimous", "majority"]
Vote = Literal["pass", "fail", "unclear"]


@dataclass
class Votes:
    """The votes of one verdict so far. Raises ConfigError for an even number of a majority."""

    rule: Rule
    wanted: int
    cast: list[Vote] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.wanted < 1 or (self.rule == "majority" and self.wanted % 2 == 0):
            raise ConfigError(f"a majority needs an odd number of judgments, at least 1; not {self.wanted}")

    def count(self, vote: Vote) -> int:
        """How many voted so."""
        return self.cast.count(vote)

    @property
    def outcome(self) -> Vote | None:
        """The verdict, as soon as no further vote could change it; ``unclear`` where votes were lost."""
        passed, failed, unclear = (self.count(vote) for vote in ("pass", "fail", "unclear"))
        left = self.wanted - len(self.cast)
        enough = self.wanted if self.rule == "unanimous" else self.wanted // 2 + 1
        enough_against = 1 if self.rule == "unanimous" else enough
        if passed >= enough:
            return "pass"
        if failed >= enough_against:
            return "fail"
        if left == 0 or (unclear and passed + left < enough and failed + left < enough_against):
            return "unclear"
        return None

    @property
    def next_wave(self) -> int:
        """Votes to ask for at once: as many as the nearest decision needs."""
        passed, failed = self.count("pass"), self.count("fail")
        left = self.wanted - len(self.cast)
        if self.rule == "unanimous":
            return left
        return min(left, self.wanted // 2 + 1 - max(passed, failed))

    @property
    def disputed(self) -> bool:
        """Whether the votes were not all alike."""
        return len(set(self.cast)) > 1
