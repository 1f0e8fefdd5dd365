"""References are made to fit the window by a fixed rule."""

from __future__ import annotations

from pacore.coordination.fit import SHORTENED, fit_cap, fit_references, learn_from_overflow
from pacore.errors import ContextOverflowError
from pacore.sampling.sampler import Capabilities
from pacore.types import CompactMessage


def messages(*texts: str) -> list[CompactMessage]:
    return [CompactMessage(1, index, text) for index, text in enumerate(texts)]


def test_without_a_known_window_nothing_is_trimmed() -> None:
    fitted = fit_references(
        messages("x" * 10_000_000), fixed_chars=0, max_tokens=None, capabilities=Capabilities()
    )
    assert fitted.trimmed is None


def test_repeated_references_go_first() -> None:
    capabilities = Capabilities(window=1000)
    found = fit_references(
        messages("a" * 900, "b" * 900, "a" * 900, "a" * 900),
        fixed_chars=100,
        max_tokens=None,
        capabilities=capabilities,
    )
    assert [reference.index for reference in found.references] == [0, 1]
    assert found.trimmed == "2 repeated ones dropped"
    assert all(reference.kept_chars is None for reference in found.references)


def test_then_the_longest_are_shortened_to_a_common_length_and_keep_their_ends() -> None:
    capabilities = Capabilities(window=1000)
    long = ["p" * 4000 + "end1", "q" * 3000 + "end2", "short"]
    found = fit_references(messages(*long), fixed_chars=100, max_tokens=200, capabilities=capabilities)
    assert found.texts[2] == "short"
    assert found.texts[0].startswith(SHORTENED)
    assert found.texts[0].endswith("end1")
    assert found.texts[1].endswith("end2")
    assert len(found.texts[0]) == len(found.texts[1])
    room = (1000 - 200 - capabilities.prompt_tokens(100)) * 4
    assert sum(map(len, found.texts)) <= room


def test_trimming_is_the_same_every_time() -> None:
    capabilities = Capabilities(window=500)
    texts = ["x" * 3000, "y" * 2000, "z" * 100]
    runs = [
        fit_references(messages(*texts), fixed_chars=50, max_tokens=None, capabilities=capabilities)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_the_cap_is_never_more_than_the_window_has_left_nor_less_than_one() -> None:
    capabilities = Capabilities(window=1000)
    assert fit_cap(5000, 400, capabilities) == 1000 - 100 - 64
    assert fit_cap(5000, 40_000, capabilities) == 1
    assert fit_cap(None, 400, capabilities) is None
    assert fit_cap(5000, 400, Capabilities()) == 5000


def test_the_endpoints_own_figures_correct_the_estimate() -> None:
    capabilities = Capabilities(window=8000)
    learn_from_overflow(ContextOverflowError("", window=4096, prompt_tokens=5000), 10_000, capabilities)
    assert capabilities.window == 4096
    assert 1.9 < capabilities.chars_per_token < 2.0
