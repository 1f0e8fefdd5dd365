"""Making references fit the window: a fixed rule, so that the same run trims the same way twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pacore.errors import ContextOverflowError
from pacore.sampling.sampler import Capabilities
from pacore.types import CompactMessage, Reference

SHORTENED = "[the beginning of this reference was cut to fit]\n"
_MIN_KEPT_CHARS = 80
_HEADING_CHARS = len("Reference 32:\n\n\n")


@dataclass(frozen=True, slots=True)
class FittedReferences:
    """References as a prompt will show them, and in words what was done to make them fit."""

    references: tuple[Reference, ...]
    texts: tuple[str, ...]
    trimmed: str | None = None


def fit_references(
    messages: Sequence[CompactMessage],
    *,
    fixed_chars: int,
    max_tokens: int | None,
    capabilities: Capabilities,
) -> FittedReferences:
    """Trim ``messages`` until prompt and answer fit the window, where it is known.

    First references that repeat an earlier text are dropped; then the longest are shortened to a
    common length, keeping their ends, where answers stand. ``fixed_chars`` is the size of the prompt
    without references.
    """
    room = _room_for_references(fixed_chars, max_tokens, capabilities)
    if room is None or _size(messages) <= room:
        return _shown(messages, None, None)
    kept = _without_repeats(messages)
    done = [f"{len(messages) - len(kept)} repeated ones dropped"] if len(kept) < len(messages) else []
    if _size(kept) <= room:
        return _shown(kept, None, done[0])
    longest = _common_length([len(m.text) for m in kept], room - _HEADING_CHARS * len(kept))
    done.append(f"{sum(len(m.text) > longest for m in kept)} shortened to {longest} characters")
    return _shown(kept, longest, ", ".join(done))


def _shown(messages: Sequence[CompactMessage], longest: int | None, trimmed: str | None) -> FittedReferences:
    references = tuple(_reference(message, longest) for message in messages)
    texts = tuple(map(shown_text, messages, references))
    return FittedReferences(references, texts, trimmed)


def _reference(message: CompactMessage, longest: int | None) -> Reference:
    if longest is None or len(message.text) <= longest:
        return Reference(message.round, message.index)
    return Reference(message.round, message.index, max(_MIN_KEPT_CHARS, longest - len(SHORTENED)))


def fit_cap(max_tokens: int | None, prompt_chars: int, capabilities: Capabilities) -> int | None:
    """The cap of tokens to send: never more than the window has left, never less than 1."""
    if max_tokens is None or capabilities.window is None:
        return max_tokens
    return max(1, min(max_tokens, capabilities.window - capabilities.prompt_tokens(prompt_chars)))


def learn_from_overflow(error: ContextOverflowError, prompt_chars: int, capabilities: Capabilities) -> None:
    """Correct what we believe of the window and of the size of a token by the endpoint's own figures."""
    if error.window is not None:
        capabilities.window = error.window
    if error.prompt_tokens:
        # A little less than measured, as the next prompt may be denser.
        measured = prompt_chars / error.prompt_tokens * 0.97
        capabilities.chars_per_token = min(capabilities.chars_per_token, measured)
    else:
        capabilities.chars_per_token *= 0.8


def shown_text(message: CompactMessage, reference: Reference) -> str:
    """The text of ``message`` as the prompt with ``reference`` showed it."""
    if reference.kept_chars is None:
        return message.text
    return SHORTENED + message.text[-reference.kept_chars :]


def _room_for_references(fixed_chars: int, max_tokens: int | None, capabilities: Capabilities) -> int | None:
    window = capabilities.window
    if window is None:
        return None
    # The answer needs room too: its cap, but at most half of the window; without a cap a quarter.
    answer = min(max_tokens, window // 2) if max_tokens is not None else window // 4
    tokens = window - answer - capabilities.prompt_tokens(fixed_chars)
    return max(0, int(tokens * capabilities.chars_per_token))


def _size(messages: Sequence[CompactMessage]) -> int:
    return sum(len(message.text) + _HEADING_CHARS for message in messages)


def _without_repeats(messages: Sequence[CompactMessage]) -> list[CompactMessage]:
    seen: set[str] = set()
    kept = []
    for message in messages:
        key = " ".join(message.text.split())
        if key not in seen:
            seen.add(key)
            kept.append(message)
    return kept


def _common_length(lengths: Sequence[int], room: int) -> int:
    """The largest length L for which the sum of min(length, L) stays within ``room``."""
    left, remaining = room, len(lengths)
    for length in sorted(lengths):
        if length * remaining > left:
            return max(0, left // remaining)
        left -= length
        remaining -= 1
    return max(lengths, default=0)
