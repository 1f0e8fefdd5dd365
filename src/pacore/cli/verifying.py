"""The verifiers that several verbs use: rules, and a judge for what they leave undecided."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pacore.config import Config, unknown_name
from pacore.errors import ConfigError
from pacore.session import DEFAULT, open_session
from pacore.verifiers.code.verifier import CodeVerifier
from pacore.verifiers.fallback import FallbackVerifier
from pacore.verifiers.judge.cache import JudgmentCache
from pacore.verifiers.judge.protocols import PROTOCOLS, JudgeProtocol, with_words
from pacore.verifiers.judge.verifier import JudgeVerifier
from pacore.verifiers.math.symbolic import SymbolicPool
from pacore.verifiers.math.verifier import MathVerifier
from pacore.verifiers.rules import RuleVerifier
from pacore.verifiers.sandbox.choose import find_sandbox
from pacore.verifiers.verifier import Verifier

Judge = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Endpoint of pacore.toml that judges what rules leave undecided."),
]
Protocol = Annotated[
    str | None,
    typer.Option("--protocol", metavar="NAME", help=f"How it is asked: {', '.join(PROTOCOLS)}."),
]
Words = Annotated[
    Path | None,
    typer.Option(
        "--judge-words", metavar="FILE", help="A Jinja template instead of the protocol's own words."
    ),
]
AllowUnsafe = Annotated[
    bool, typer.Option("--allow-unsafe-exec", help="Run programs even where nothing contains them.")
]
Headers = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of what special judges include, as testlib.h.")
]


class JudgeChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Who judges and how; ``endpoint`` is a name in pacore.toml."""

    endpoint: str
    protocol: JudgeProtocol
    judgments: int = 1
    cache: Path | None = None


def choose_judge(
    config: Config, endpoint: str | None, protocol: str | None, words: Path | None, *, cache: Path | None
) -> JudgeChoice | None:
    """Settle the judge. Raises ConfigError for unknown names, or settings of a judge that is not there."""
    if endpoint is None:
        if protocol is not None or words is not None:
            raise ConfigError("--protocol and --judge-words say how a judge is asked: name it with --judge")
        return None
    config.endpoint(endpoint)
    name = protocol or "consistency"
    if name not in PROTOCOLS:
        raise ConfigError(unknown_name("protocol", name, PROTOCOLS))
    chosen = PROTOCOLS[name]
    if words is not None:
        chosen = with_words(chosen, words)
    return JudgeChoice(endpoint=endpoint, protocol=chosen, cache=cache)


@contextlib.asynccontextmanager
async def open_verifier(
    config: Config,
    judge: JudgeChoice | None = None,
    *,
    allow_unsafe: bool = False,
    headers: Path | None = None,
) -> AsyncIterator[Verifier]:
    """The rules, and after them the judge where there is one."""
    async with contextlib.AsyncExitStack() as stack:
        pool = stack.enter_context(SymbolicPool())
        rules: Verifier = stack.enter_context(
            RuleVerifier(
                MathVerifier(pool),
                lambda: CodeVerifier(find_sandbox(allow_unsafe=allow_unsafe), headers=headers),
            )
        )
        if judge is None:
            yield rules
            return
        settings = config.endpoint(judge.endpoint)
        session = await stack.enter_async_context(open_session(settings))
        asked = JudgeVerifier(
            session.samplers[DEFAULT],
            judge.protocol,
            model=session.models.get(settings.name, ""),
            judgments=judge.judgments,
            cache=JudgmentCache(judge.cache),
        )
        yield FallbackVerifier([rules, asked])
