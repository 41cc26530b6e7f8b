"""Records in files: exact to the byte, and clear about what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records_file import Record, RecordsFileError, decode_event_record, decode_record, encode_record

_bytes = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))


@given(st.builds(Record, partition=st.none() | st.integers(0, 99), key=_bytes, value=_bytes,
                 headers=st.dictionaries(st.text("abc", max_size=3), st.text("xyz", max_size=3), max_size=2)))  # fmt: skip
def test_what_is_written_is_read(record: Record) -> None:
    line = encode_record(record)
    assert b"\n" not in line
    assert decode_record(line) == record


def test_text_is_readable_and_other_bytes_are_base64() -> None:
    record = Record(partition=0, offset=17, timestamp_ms=5, key="größe".encode(), value=b"\xff\x00")
    assert (
        encode_record(record).decode()
        == '{"partition":0,"offset":17,"timestamp_ms":5,"key":"größe","value_b64":"/wA="}'
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"partition":"x"}', "Expected `int"),
        (b'{"partition":0,"offset":1,"timestamp_ms":1,"key_b64":"%"}', "base64"),
        (b'{"partition":0,"key":null}', "offset and timestamp_ms missing"),
        (b'{"partition":0,"offset":1,"timestamp_ms":1,"key":"\xff"}', "utf-8"),
    ],
)
def test_a_damaged_line_is_refused_with_its_reason(line: bytes, problem: str) -> None:
    with pytest.raises(RecordsFileError, match=f"(?i){problem}"):
        decode_event_record(line)
