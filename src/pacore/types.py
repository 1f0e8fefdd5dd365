"""The nouns of pacore: what a user hands in, what a call generates, what a run answers.

Glossary
--------
Problem         a chat whose last user or tool message asks for an answer.
ChatMessage     one message of that chat, as the chat API has it.
Schedule        how a run spends its calls: rounds, then a finish. A method is a schedule.
RoundSpec       one round: how many trajectories think in parallel, and what each reads.
Trajectory      all that one call generated (reasoning and conclusion), with where it came from.
CompactMessage  what compaction kept of a trajectory; what the next round reads.
Reference       a compact message as it stood in a prompt.
TTC             test-time compute: tokens generated, summed over all trajectories of a run.
Agreement       the share of messages whose answers are equivalent to the most frequent one.
Result          the answer of a run with its account.
Verdict         what a verifier found: correct, incorrect or unverifiable, with a reward in [0, 1].

All are immutable ``msgspec.Struct``: checked when decoded, and cheap enough for the hot path.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

ChatMessage: TypeAlias = dict[str, Any]
"""A message of the chat API; kept as the plain mapping it is, so unknown keys survive."""

PositiveInt: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]

TrajectoryStatus: TypeAlias = Literal[
    "complete", "truncated", "reasoning_only", "empty", "unclosed", "failed", "dropped"
]
Purpose: TypeAlias = Literal["reason", "select", "summarize"]
RunStatus: TypeAlias = Literal["complete", "degraded", "failed"]


class Problem(Struct, frozen=True, kw_only=True):
    """A question to answer. Build it with :func:`pacore.problems.read_problem` or directly.

    ``carried`` holds the keys of the source record that pacore does not know; they come out again in
    the result.
    """

    id: str
    messages: tuple[ChatMessage, ...]
    ground_truth: Any = None
    carried: dict[str, Any] = {}


class SamplingParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one call samples. The defaults are the method's: temperature 1, top_p 1, no cap of ours.

    ``max_tokens`` caps the tokens of one trajectory; ``None`` leaves the cap to the endpoint. ``extra``
    goes into the request body as it is (``top_k``, ``reasoning_effort``, ``tools`` …).
    """

    temperature: Annotated[float, Meta(ge=0)] = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    max_tokens: PositiveInt | None = None
    stop: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one call or of several. ``estimated`` is true when any part was counted by us."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            estimated=self.estimated or other.estimated,
        )


class Reference(Struct, frozen=True):
    """A message as a prompt showed it: whose it was, and how many characters were kept of it.

    ``kept_chars`` is ``None`` where the whole message stood there.
    """

    round: int
    index: int
    kept_chars: int | None = None


class Trajectory(Struct, frozen=True, kw_only=True):
    """All that one call generated, and where it came from.

    ``round`` counts from 1, ``index`` from 0. ``references`` are in the order of the prompt, so the
    first is "Reference 1". Times are seconds since the epoch; ``usage`` covers every attempt.
    """

    round: int
    index: int
    purpose: Purpose = "reason"
    status: TrajectoryStatus
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str | None = None
    usage: Usage = Usage()
    seed: int | None = None
    sampling: SamplingParams = SamplingParams()
    references: tuple[Reference, ...] = ()
    endpoint: str = ""
    model: str = ""
    request_id: str | None = None
    attempts: int = 1
    started_at: float = 0.0
    first_token_at: float | None = None
    ended_at: float = 0.0
    error: str | None = None
    source: Literal["endpoint", "pool", "journal", "cache"] = "endpoint"


class CompactMessage(Struct, frozen=True):
    """What compaction kept of the trajectory ``index`` of ``round``."""

    round: int
    index: int
    text: str


class Quorum(Struct, frozen=True, forbid_unknown_fields=True):
    """Go on once ``count`` usable trajectories are in and ``grace_s`` more seconds have passed.

    What is still thinking then is dropped by closing its connection. It drops the longest thinkers,
    which on hard problems are often the right ones: opt-in.
    """

    count: PositiveInt
    grace_s: Seconds = 0.0


class AgreementStop(Struct, frozen=True, forbid_unknown_fields=True):
    """Launch a round in stages of ``stage`` calls; once ``share`` of the messages agree, skip the rest.

    The agreed message is then the answer: later rounds are skipped as well.
    """

    stage: PositiveInt = 4
    share: Annotated[float, Meta(gt=0, le=1)] = 1.0


class RoundSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One round of a schedule.

    width           trajectories that think in parallel (K).
    reads           which messages of the previous round each reads: ``"all"``, or a number of messages
                    drawn at random anew for each trajectory.
    compact         what is kept of each trajectory: its ``conclusion``, a ``tail`` of
                    ``tail_tokens`` tokens, a ``summary`` by one more call, ``none`` (all of it), or
                    the name of a compaction of one's own.
    endpoints       names of the endpoints that take turns; empty for the run's own.
    sampling        overrides the run's sampling in this round.
    min_messages    usable messages needed to go on; half the width where not given.
    quorum, stop    opt-in ways to end the round early.
    """

    width: PositiveInt = 1
    reads: Literal["all"] | PositiveInt = "all"
    compact: str = "conclusion"
    tail_tokens: PositiveInt = 2048
    endpoints: tuple[str, ...] = ()
    sampling: SamplingParams | None = None
    min_messages: PositiveInt | None = None
    quorum: Quorum | None = None
    stop: AgreementStop | None = None

    @property
    def needed(self) -> int:
        """How many usable messages the round must leave: half of its width, at least 1, by default."""
        return self.min_messages if self.min_messages is not None else max(1, self.width // 2)


class Schedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A method as data: rounds of parallel thinking, then a finish.

    finish          ``synthesize`` adds a round of 1 whose message is the answer; ``vote`` takes the
                    message of the most frequent answer; ``select`` adds a judge call that picks one.
    final           how the added round samples and on which endpoints.
    final_attempts  how often the added round may fail or stay unusable on one endpoint.
    fallback        an endpoint that the last round turns to when its own has failed.
    on_partial      what a round with too few messages means: ``fail``, or ``degrade`` and go on with
                    what there is.
    """

    rounds: tuple[RoundSpec, ...] = ()
    finish: Literal["synthesize", "vote", "select"] = "synthesize"
    final: RoundSpec = RoundSpec()
    final_attempts: PositiveInt = 2
    fallback: str | None = None
    on_partial: Literal["fail", "degrade"] = "fail"
    name: str = ""

    @property
    def planned_calls(self) -> int:
        """Calls of a run in which nothing fails, is skipped or retried."""
        calls = sum(spec.width * (2 if spec.compact == "summary" else 1) for spec in self.rounds)
        return calls + (0 if self.finish == "vote" else 1)


class RunWarning(Struct, frozen=True):
    """Something the reader of a result should know: a stable ``code`` and a sentence."""

    code: str
    text: str


class Calls(Struct, frozen=True, kw_only=True):
    """Calls of a run. ``made`` counts trajectories asked for, ``failed`` and ``cancelled`` are among them."""

    made: int = 0
    failed: int = 0
    cancelled: int = 0


class Verdict(Struct, frozen=True, kw_only=True):
    """What a verifier found. ``unverifiable`` is neither right nor wrong: callers decide, reports count it.

    ``reward`` is in [0, 1], and 0 where nothing could be verified; ``reason`` is a stable code with
    details after a colon; ``evidence`` is what a reader needs to see it; ``ms`` the time it took. With
    ``transient`` it could not be verified just now (a judge that is down, no sandbox): ask again.
    """

    verdict: Literal["correct", "incorrect", "unverifiable"]
    reward: float = 0.0
    reason: str = ""
    evidence: dict[str, Any] = {}
    ms: float = 0.0
    transient: bool = False


class Result(Struct, frozen=True, kw_only=True):
    """The answer of a run and its account; one line of ``results.jsonl``.

    ``ttc_tokens`` is the paper's effective TTC. ``agreement`` is the share of the last parallel
    round's messages that agree with the most frequent answer, ``None`` where no answer could be read.
    """

    id: str
    status: RunStatus
    answer: str | None
    finish_reason: str | None = None
    ttc_tokens: int = 0
    usage: Usage = Usage()
    calls: Calls = Calls()
    wall_s: float = 0.0
    warnings: tuple[RunWarning, ...] = ()
    agreement: float | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    ground_truth: Any = None
    carried: dict[str, Any] = {}

    def record(self) -> dict[str, Any]:
        """The result as a JSON object. Carried keys stand beside the result's own; those that the result
        has a key of the same name for are kept together under ``carried``.
        """
        own: dict[str, Any] = msgspec.to_builtins(self)
        carried = own.pop("carried")
        own["id"] = carried.pop("id", self.id)
        clashing = {key: value for key, value in carried.items() if key in own}
        if not self.tool_calls:
            del own["tool_calls"]
        return {**carried, **own, **({"carried": clashing} if clashing else {})}
