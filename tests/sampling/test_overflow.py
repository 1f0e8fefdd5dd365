"""A context overflow is recognised in the words of each server, with its figures."""

from __future__ import annotations

from typing import Any

import pytest

from pacore.sampling.overflow import read_overflow

VLLM_OLD = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4200 in the "
    "messages, 800 in the completion). Please reduce the length of the messages or completion."
)
VLLM_NEW = (
    "This model's maximum context length is 4096 tokens. However, you requested 800 output tokens and "
    "your prompt contains at least 4200 input tokens, for a total of at least 5000 tokens. Reduce it."
)
VLLM_CAP = (
    "'max_tokens' or 'max_completion_tokens' is too large: 800. This model's maximum context length is 4096 "
    "tokens and your request has 4200 input tokens (800 > 4096 - 4200)."
)
VLLM_DECODER = (
    "The decoder prompt (length 4200) is longer than the maximum model length of 4096. Make sure that ..."
)
SGLANG = "The input (4200 tokens) is longer than the model's context length (4096 tokens)."
SGLANG_TOTAL = (
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total "
    "of 5000 tokens: 4200 tokens from the input messages and 800 tokens for the completion."
)
LLAMA_CPP = "request (4200 tokens) exceeds the available context size (4096 tokens), try increasing it"
OPENAI = (
    "This model's maximum context length is 4096 tokens. However, your messages resulted in 4200 tokens. "
    "Please reduce the length of the messages."
)
OPENAI_NEW = "Input tokens exceed the configured limit of 4096 tokens. Your messages resulted in 4200 tokens."


@pytest.mark.parametrize(
    "message",
    [VLLM_OLD, VLLM_NEW, VLLM_CAP, VLLM_DECODER, SGLANG, SGLANG_TOTAL, LLAMA_CPP, OPENAI, OPENAI_NEW],
)
def test_window_and_prompt_are_read_from_the_servers_words(message: str) -> None:
    overflow = read_overflow(400, message, {"message": message})
    assert overflow is not None
    assert (overflow.window, overflow.prompt_tokens) == (4096, 4200)


def test_the_figures_of_llama_cpp_are_read_from_its_fields() -> None:
    error = {"type": "exceed_context_size_error", "n_ctx": 4096, "n_prompt_tokens": 4200}
    overflow = read_overflow(400, "the request exceeds the available context size", error)
    assert overflow is not None
    assert (overflow.window, overflow.prompt_tokens) == (4096, 4200)


def test_openais_code_is_enough() -> None:
    overflow = read_overflow(400, "too long", {"code": "context_length_exceeded"})
    assert overflow is not None
    assert (overflow.window, overflow.prompt_tokens) == (None, None)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("'temperature' must be at most 2", {"code": 400}),
        ("Invalid role: tutor", None),
        ("max_tokens must be at least 1, got -5.", {"type": "BadRequestError"}),
    ],
)
def test_other_rejections_are_no_overflow(message: str, error: Any) -> None:
    assert read_overflow(400, message, error) is None
