"""The lines of a dump: what is written is what was recorded, and is read as the record itself."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from typing import Any

import pytest

from group_coordinator.watching.observed.offsets_log import dump_line, raw_line, read_raw
from schemas.kafka.record_batches import RawRecord
from tests.watching.observed.recorded import CLUSTERS


@pytest.mark.parametrize("name", ["transactions", "old-2.8", "share-streams", "three-brokers"])
def test_lines_are_those_of_a_recording(name: str) -> None:
    with gzip.open(CLUSTERS / f"{name}.offsets.jsonl.gz") as file:
        for line in file:
            recorded = json.loads(line)
            raw = raw_record(recorded)
            written = dump_line(recorded["partition"], raw)
            assert {"coordinator_epoch": 0, **json.loads(written)} == {"coordinator_epoch": 0, **recorded}
            assert (recorded["partition"], raw) == raw_line(written) == raw_line(line)
            read_raw(recorded["partition"], raw)


def raw_record(line: dict[str, Any]) -> RawRecord:
    """Return a record as it lay in the log."""
    return RawRecord(
        offset=line["offset"],
        timestamp_ms=line["timestamp_ms"],
        leader_epoch=line["leader_epoch"],
        key=b64decode(line["key"]),
        value=None if line["value"] is None else b64decode(line["value"]),
        producer_id=line.get("producer_id", -1),
        producer_epoch=line.get("producer_epoch", -1),
        is_transactional=line.get("is_transactional", False),
        control=line.get("control"),
    )
