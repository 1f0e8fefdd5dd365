"""Reading a judge's verdict: from the JSON it was asked for, or from its last line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pacore.verifiers.judge.protocols import JudgeProtocol

_FENCE = re.compile(r"^```(?:json)?\s*\n(?P<body>.*?)\n?```\s*$", re.DOTALL)


def last_line_rule(protocol: JudgeProtocol) -> str:
    """What is added to a prompt that is sent without a schema."""
    yes, no = protocol.choices
    others = [name for name in protocol.properties if name not in ("reasoning", protocol.verdict_field)]
    lines = "".join(f"\n{name}: …" for name in others)
    return (
        "\n\nReason first, briefly. Then end with these lines and nothing after them, the last one being "
        f"either {yes} or {no}:{lines}\n{protocol.verdict_field}: {yes}"
    )


def read_reply(text: str, protocol: JudgeProtocol) -> dict[str, Any] | None:
    """The fields of a reply, of which the verdict is one of the protocol's choices; ``None`` without one.

    Only a whole JSON object or the last line counts, so that a verdict quoted from the judged text does not.
    """
    found = _from_json(text, protocol) or _from_last_lines(text, protocol)
    if found is None:
        return None
    said = str(found[protocol.verdict_field]).strip().casefold()
    for choice in protocol.choices:
        if said == choice.casefold():
            return {**found, protocol.verdict_field: choice}
    return None


def _from_json(text: str, protocol: JudgeProtocol) -> dict[str, Any] | None:
    body = text.strip()
    if (fenced := _FENCE.match(body)) is not None:
        body = fenced["body"]
    try:
        found = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, Mapping) or protocol.verdict_field not in found:
        return None
    return dict(found)


def _from_last_lines(text: str, protocol: JudgeProtocol) -> dict[str, Any] | None:
    lines = [line.strip().strip("*`_ ") for line in text.strip().splitlines() if line.strip()]
    field = re.escape(protocol.verdict_field)
    if not lines or (last := re.fullmatch(rf"{field}\W{{1,6}}(\w+)\W*", lines[-1], re.IGNORECASE)) is None:
        return None
    found: dict[str, Any] = {protocol.verdict_field: last[1], "reasoning": "\n".join(lines[:-1])}
    for line in lines[-1 - len(protocol.properties) : -1]:
        name, colon, value = line.partition(":")
        key = name.strip("*`_ ").casefold()
        if colon and key in protocol.properties and key != "reasoning":
            found[key] = value.strip("*`_ ")
    return found
