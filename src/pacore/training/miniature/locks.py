"""Digit locks, the miniature's task: easy to check, hard to find, and wrong in independent ways.

A lock ``(a, b, t)`` opens for the one digit d in 0..10 with ``((d + a) * b) mod 11 == t``. A problem has
one to three locks; its answer is the code, a digit a lock. A lock may be tried three times, then it jams: a
trajectory that checks a fourth digit comes to no conclusion, so that nobody finds a code by trying them all.
The teacher, from which the base model learns, guesses three digits a lock and checks each, then guesses once
more unchecked, and states the code: full solutions are rare, while a set of messages holds most of the right
digits.

Everything is written in words of a closed vocabulary, parted by blanks: a lock is ``A +3 *4 =5``, a code
``A7 B0``, a checked guess ``try A2 +3 :5 *4 =9 =5 not``. Other words of a prompt (the synthesis
template's) are not seen.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MODULUS = 11
LARGEST = 3
TRIES = 3
FEW_REFERENCES = 3
COPYING = {"few": 0.5, "many": 0.1}
"""How often the teacher takes a guess from a reference: at random, aggregating nothing.

Of few references every second guess, so that the model learns to read them; of many only every tenth, so that
they are of no use to it yet.
"""

TASK = (
    "Find the digits, each from zero to ten, that open these locks: "
    "a digit fits where (digit + a) * b leaves t modulo eleven."
)

PAD, END = "<pad>", "<end>"
_WORDS = ("</think>", "try", "copy", "opens", "not", "unchecked")
NAMES = ("A", "B", "C")
VOCABULARY: tuple[str, ...] = (
    PAD,
    END,
    *_WORDS,
    *NAMES,
    *(f"{name}{digit}" for name in NAMES for digit in range(MODULUS)),
    *(f"+{term}" for term in range(MODULUS)),
    *(f"*{factor}" for factor in range(1, MODULUS)),
    *(f":{total}" for total in range(MODULUS)),
    *(f"={rest}" for rest in range(MODULUS)),
)
_TOKENS = {word: token for token, word in enumerate(VOCABULARY)}
PAD_TOKEN, END_TOKEN = _TOKENS[PAD], _TOKENS[END]
CLOSE_TOKEN = _TOKENS["</think>"]
COPY_TOKEN = _TOKENS["copy"]

LONGEST_TRAJECTORY = LARGEST * (4 + 8 * TRIES + 4) + LARGEST + 2
"""All that three locks can need, in tokens."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Opens for the digit d with ``((d + term) * factor) mod 11 == rest``."""

    term: int
    factor: int
    rest: int

    def outcome(self, digit: int) -> int:
        """What is left for ``digit``."""
        return (digit + self.term) * self.factor % MODULUS

    @property
    def digit(self) -> int:
        """The digit that opens it."""
        return (self.rest * pow(self.factor, -1, MODULUS) - self.term) % MODULUS

    @property
    def words(self) -> tuple[str, ...]:
        """The lock as the problem states it, after its name."""
        return (f"+{self.term}", f"*{self.factor}", f"={self.rest}")


@dataclass(frozen=True, slots=True)
class LockProblem:
    """One to three locks."""

    locks: tuple[Lock, ...]

    @property
    def code(self) -> tuple[int, ...]:
        """The answer: a digit a lock."""
        return tuple(lock.digit for lock in self.locks)

    @property
    def text(self) -> str:
        """The problem as a prompt."""
        lines = (" ".join([name, *lock.words]) for name, lock in zip(NAMES, self.locks, strict=False))
        return "\n".join([TASK, *lines])


def make_problem(draw: random.Random, size: int | None = None) -> LockProblem:
    """A problem of ``size`` locks, or of one to three."""
    number = size or draw.randint(1, LARGEST)
    locks = (
        Lock(draw.randrange(MODULUS), draw.randrange(1, MODULUS), draw.randrange(MODULUS))
        for _ in range(number)
    )
    return LockProblem(tuple(locks))


def encode(text: str) -> list[int]:
    """The tokens of a text; words outside the vocabulary are left out."""
    return [_TOKENS[word] for word in text.split() if word in _TOKENS]


def decode(tokens: Iterable[int]) -> str:
    """The text of tokens, to the end of the trajectory."""
    words = []
    for token in tokens:
        if token in (END_TOKEN, PAD_TOKEN):
            break
        words.append(VOCABULARY[token])
    return " ".join(words)


def code_text(code: Sequence[int]) -> str:
    """The message that states ``code``."""
    return " ".join(f"{name}{digit}" for name, digit in zip(NAMES, code, strict=False))


def read_code(message: str) -> tuple[int, ...] | None:
    """The code that a message states, or ``None``."""
    words = message.split()
    digits = [word[1:] for word in words]
    if not words or not all(digit.isdigit() for digit in digits):
        return None
    code = tuple(map(int, digits))
    return code if message.split() == code_text(code).split() else None


def prompt_tokens(problem: LockProblem, references: Sequence[str] = ()) -> list[int]:
    """What the model reads of ``P(x, M)``: the locks, then each reference."""
    tokens = encode(problem.text)
    for reference in references:
        tokens += encode(reference)
    return tokens


def jams(words: Sequence[str]) -> bool:
    """Whether a trajectory tries one of its locks more often than that allows."""
    tries = 0
    for word in words:
        if word in NAMES:
            tries = 0
        elif word in ("opens", "not"):
            tries += 1
            if tries > TRIES:
                return True
    return False


def draw_reference(problem: LockProblem, draw: random.Random) -> tuple[int, ...]:
    """A code as the teacher without references would state it, without the way there."""
    hits = (TRIES + 1) / MODULUS
    return tuple(
        digit if draw.random() < hits else (digit + draw.randrange(1, MODULUS)) % MODULUS
        for digit in problem.code
    )


def teach(problem: LockProblem, references: Sequence[Sequence[int]], draw: random.Random) -> list[int]:
    """A trajectory of the teacher, in tokens, with its end."""
    words: list[str] = []
    code = []
    for place, lock in enumerate(problem.locks):
        offered = [reference[place] for reference in references]
        digit, steps = _teach_lock(NAMES[place], lock, offered, draw)
        code.append(digit)
        words += steps
    words += ["</think>", *code_text(code).split(), END]
    return [_TOKENS[word] for word in words]


def _teach_lock(name: str, lock: Lock, offered: Sequence[int], draw: random.Random) -> tuple[int, list[str]]:
    """The digit for a lock, and the words on the way; ``offered`` is what each reference says of it."""
    words = [name, *lock.words]
    untried = list(range(MODULUS))
    for _ in range(TRIES):
        source, digit = _guess(offered, untried, draw)
        if digit in untried:
            untried.remove(digit)
        total, rest = (digit + lock.term) % MODULUS, lock.outcome(digit)
        words += [
            source,
            f"{name}{digit}",
            f"+{lock.term}",
            f":{total}",
            f"*{lock.factor}",
            f"={rest}",
            f"={lock.rest}",
        ]
        if rest == lock.rest:
            return digit, [*words, "opens", f"{name}{digit}"]
        words.append("not")
    source, digit = _guess(offered, untried, draw)
    return digit, [*words, source, f"{name}{digit}", "unchecked", f"{name}{digit}"]


def _guess(offered: Sequence[int], untried: Sequence[int], draw: random.Random) -> tuple[str, int]:
    copying = COPYING["few" if len(offered) <= FEW_REFERENCES else "many"]
    if offered and draw.random() < copying:
        return "copy", draw.choice(offered)
    return "try", draw.choice(untried)
