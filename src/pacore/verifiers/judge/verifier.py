"""The judge: puts a question to a model, as often as the rule needs, and believes only a clear verdict."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Any

import msgspec

from pacore.errors import CallRejectedError, TransientError
from pacore.sampling.sampler import Call, Prompt, Sampler, Unwatched
from pacore.seeds import derive_seed
from pacore.types import Problem, Trajectory, Verdict
from pacore.verifiers.judge.cache import JudgmentCache, cache_key
from pacore.verifiers.judge.protocols import JudgeProtocol
from pacore.verifiers.judge.replies import last_line_rule, read_reply
from pacore.verifiers.judge.votes import Rule, Vote, Votes

_TRIES = 3


class JudgeVerifier:
    """Asks ``sampler`` under a protocol: once, or ``judgments`` times under a ``rule``.

    ``model`` names the judge in the cache and in evidence; name it where the endpoint serves several. A
    vote has three tries, the first with a JSON schema; a judge that then still gave no verdict makes the
    vote unclear, never a no. EndpointRefusedError is raised, as no later verdict could fare better.
    """

    def __init__(
        self,
        sampler: Sampler,
        protocol: JudgeProtocol,
        *,
        model: str = "",
        judgments: int = 1,
        rule: Rule = "majority",
        cache: JudgmentCache | None = None,
        seed: int = 0,
        use_schema: bool = True,
    ) -> None:
        Votes(rule, judgments)
        self.protocol = protocol
        self._sampler = sampler
        self._model = model
        self._judgments = judgments
        self._rule: Rule = rule
        self._cache = cache or JudgmentCache()
        self._seed = seed
        self._schema_refused = not use_schema

    async def verify(self, problem: Problem, text: str) -> Verdict:
        """The judge's verdict on ``text``. Raises ProblemError where the truth is not the protocol's."""
        begun = time.perf_counter()
        shown, why = self.protocol.shown(text)
        if shown is None:
            return Verdict(verdict="incorrect", reason=f"{why}: nothing for the judge to see")
        if len(shown) > self.protocol.longest:
            reason = f"too_long: {len(shown)} characters, where the judge sees {self.protocol.longest}"
            return Verdict(verdict="unverifiable", reason=reason)
        prompt = self.protocol.prompt(problem, shown, _mark(shown, problem.id))
        passing = self.protocol.passes(problem) if self.protocol.passes else self.protocol.choices[0]
        votes = Votes(self._rule, self._judgments)
        judgments = await self._collect(problem, prompt, passing, votes)
        verdict = _decided(votes, shown, judgments)
        return msgspec.structs.replace(verdict, ms=round((time.perf_counter() - begun) * 1e3, 3))

    async def _collect(
        self, problem: Problem, prompt: str, passing: str, votes: Votes
    ) -> list[dict[str, Any]]:
        """Ask until the votes decide; what is still being asked then is cancelled."""
        judgments: list[dict[str, Any]] = []
        number = 0
        while votes.outcome is None:
            wave = [
                asyncio.create_task(self._vote(problem, prompt, number + place))
                for place in range(votes.next_wave)
            ]
            number += len(wave)
            try:
                for next_done in asyncio.as_completed(wave):
                    fields = await next_done
                    votes.cast.append(_vote(fields, self.protocol, passing))
                    judgments.append(fields)
                    if votes.outcome is not None:
                        break
            finally:
                for task in wave:
                    task.cancel()
                await asyncio.gather(*wave, return_exceptions=True)
        return judgments

    async def _vote(self, problem: Problem, prompt: str, number: int) -> dict[str, Any]:
        """The fields of one judgment; only ``error`` where three tries brought none."""
        error = ""
        for attempt in range(_TRIES):
            with_schema = attempt == 0 and not self._schema_refused
            call = self._call(problem, prompt, derive_seed(self._seed, "judge", number, attempt), with_schema)
            key = cache_key(call, f"{self.protocol.name}/{self._model}")
            known = self._cache.get(key)
            reply = known["reply"] if known is not None else ""
            if known is None:
                trajectory, error = await self._asked(call, with_schema=with_schema)
                if trajectory is None:
                    continue
                reply = trajectory.content
            fields = read_reply(reply, self.protocol)
            if fields is None:
                error = f"no verdict in {reply[-200:]!r}"
                continue
            if known is None:
                self._cache.put(key, {"reply": reply, "model": self._model})
            return fields
        return {"error": error}

    async def _asked(self, call: Call, *, with_schema: bool) -> tuple[Trajectory | None, str]:
        """A finished answer of the judge, or why there is none."""
        try:
            trajectory = await self._sampler.sample(call, Unwatched())
        except CallRejectedError as error:
            # Most likely the endpoint takes no schema; the next try goes without.
            self._schema_refused = self._schema_refused or with_schema
            return None, str(error)
        except TransientError as error:
            return None, str(error)
        if trajectory.status == "failed":
            self._schema_refused = self._schema_refused or with_schema
        if trajectory.status != "complete":
            return None, trajectory.error or f"the judge's answer is {trajectory.status}"
        return trajectory, ""

    def _call(self, problem: Problem, prompt: str, seed: int, with_schema: bool) -> Call:
        sampling = self.protocol.sampling
        if with_schema:
            extra = {**sampling.extra, "response_format": self.protocol.schema}
            sampling = msgspec.structs.replace(sampling, extra=extra)
        else:
            prompt += last_line_rule(self.protocol)
        return Call(
            problem_id=problem.id,
            round=1,
            index=0,
            prompt=Prompt([{"role": "user", "content": prompt}]),
            sampling=sampling,
            seed=seed,
        )


def _mark(shown: str, problem_id: str) -> str:
    """A line that ``shown`` cannot contain, as it would have to contain its own hash; the same each time,
    so that judgments can be cached.
    """
    digest = hashlib.blake2b(f"{problem_id}\0{shown}".encode("utf-8", "surrogatepass"), digest_size=12)
    return f"=== {digest.hexdigest()} ==="


def _vote(fields: dict[str, Any], protocol: JudgeProtocol, passing: str) -> Vote:
    if protocol.verdict_field not in fields:
        return "unclear"
    return "pass" if fields[protocol.verdict_field] == passing else "fail"


def _decided(votes: Votes, shown: str, judgments: list[dict[str, Any]]) -> Verdict:
    evidence = {
        "judged": shown[:200],
        "votes": {name: votes.count(name) for name in ("pass", "fail", "unclear") if votes.count(name)},
        "disputed": votes.disputed,
        "judgments": judgments,
    }
    if votes.outcome == "pass":
        return Verdict(verdict="correct", reward=1.0, reason="judged: passes", evidence=evidence)
    if votes.outcome == "fail":
        return Verdict(verdict="incorrect", reason="judged: fails", evidence=evidence)
    errors = [fields["error"] for fields in judgments if "error" in fields]
    reason = f"judge: no verdict after {_TRIES} tries: {errors[0]}" if errors else "judge: undecided"
    return Verdict(verdict="unverifiable", reason=reason[:300], evidence=evidence, transient=bool(errors))
