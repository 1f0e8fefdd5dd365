"""The same question under several methods, with what each spent."""

import asyncio

import pacore

QUESTION = "How many positive divisors does 360 have?"


async def main() -> None:
    for schedule in ("single", "4", "2,2", "self-consistency"):
        result = await pacore.solve(QUESTION, schedule=schedule)
        answer = " ".join((result.answer or "none").split())[:60]
        print(f"{schedule:<17} {result.ttc_tokens:>7} tokens  {result.status:<9} {answer}")


asyncio.run(main())
