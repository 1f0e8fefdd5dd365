"""Server-sent events survive however they are cut up."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacore.sampling.sse import SSEDecoder

STREAM = (
    b': keep-alive\n\ndata: {"a": "\xe6\xb1\x82"}\n\nevent: x\nid: 7\ndata: one\ndata: two\n\n'
    b"data:no space\n\nretry: 3\n\ndata: [DONE]\n\n"
)
EXPECTED = [b'{"a": "\xe6\xb1\x82"}', b"one\ntwo", b"no space", b"[DONE]"]


def decoded(pieces: list[bytes]) -> list[bytes]:
    decoder = SSEDecoder()
    found = [data for piece in pieces for data in decoder.feed(piece)]
    return found + decoder.finish()


@given(st.lists(st.integers(0, len(STREAM)), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_do_not_depend_on_where_reads_were_split(places: list[int], line_end: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end)
    cuts = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(cuts)]
    assert decoded(pieces) == EXPECTED


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_events_arrive_byte_by_byte(line_end: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end)
    assert decoded([bytes([byte]) for byte in stream]) == EXPECTED


def test_a_byte_order_mark_is_skipped() -> None:
    assert decoded([b"\xef\xbb\xbfdata: x\n\n"]) == [b"x"]


def test_a_last_event_without_its_blank_line_is_still_delivered_at_the_end() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: x") == []
    assert decoder.finish() == [b"x"]


def test_comments_alone_are_no_events() -> None:
    assert decoded([b": ping\n\n", b":\n\n\n\n"]) == []


def test_an_event_of_a_megabyte_in_small_reads_is_delivered_whole() -> None:
    event = b"data: " + b"x" * 1_000_000 + b"\n\n"
    assert decoded([event[at : at + 997] for at in range(0, len(event), 997)]) == [b"x" * 1_000_000]
