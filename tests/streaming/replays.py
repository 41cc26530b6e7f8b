"""A log in a file, and its replay in this process."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from schemas.output_records import OutputRecord
from schemas.records_file import Record, encode_record
from streaming.config import StreamingConfig
from streaming.replay import replay_in_process
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.streamed_replay import PartitionFiles

CONFIG = StreamingConfig(**SETTINGS)


def write_log(file: Path, records: Iterable[Record]) -> Path:
    lines = b"".join(encode_record(record) + b"\n" for record in records)
    file.write_bytes(gzip.compress(lines) if file.suffix == ".gz" else lines)
    return file


def write_pieces(pieces: Iterable[Sequence[Record]], directory: Path) -> None:
    """Write the log of one partition as files for a streaming query, one for each piece."""
    files = PartitionFiles(directory, sys.maxsize)
    for piece in pieces:
        for record in piece:
            files.add(msgspec.structs.asdict(record))
        files.write()


def in_process(records: Iterable[Record], config: StreamingConfig = CONFIG, until_ms: int = 0) -> list[OutputRecord]:
    """All outputs, in the order in which a replay writes them."""
    outputs = [
        output for _, group_outputs in replay_in_process(records, config, until_ms=until_ms) for output in group_outputs
    ]
    return sorted(outputs, key=output_order)


def output_order(output: OutputRecord) -> Any:
    """Any order that names an output; only equality counts."""
    return output.topic, output.key or b"", sorted(output.headers.items()), output.value or b""
