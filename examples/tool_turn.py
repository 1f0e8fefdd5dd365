"""A turn of an agent: the newest tool result is what the rounds think about, tools go with the last round."""

import asyncio
from typing import Any

import pacore

PARAMETERS = {"type": "object", "properties": {"train": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "timetable", "parameters": PARAMETERS}}
CALL = {"id": "c1", "type": "function", "function": {"name": "timetable", "arguments": '{"train": "A"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "Which of the two trains is faster?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "Train A: 120 km in 90 min."},
]


async def main() -> None:
    last = pacore.RoundSpec(sampling=pacore.SamplingParams(extra={"tools": [TOOL]}))
    schedule = pacore.Schedule(rounds=(pacore.RoundSpec(width=4),), final=last)
    result = await pacore.solve(CHAT, schedule=schedule)
    print(result.tool_calls or result.answer)


asyncio.run(main())
