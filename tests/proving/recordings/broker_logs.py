"""Helpers: a request log followed and replayed in this process, and what the broker's own offsets log says."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from coordinator_state import Coordinator, LogRecord, Output, group_event
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.following import Following, follow
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from schemas.events import decode_group_event, decode_tick
from schemas.records import GroupMetadataKey, GroupMetadataValue, decode_record

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = sorted((FIXTURES / "recordings").glob("*.request.log.gz"))
CLUSTERS = sorted((FIXTURES / "clusters").glob("*.offsets.jsonl.gz"))
"""The dump of each cluster's offsets topic; the request logs of its brokers lie beside it."""

Owners = dict[str, list[tuple[int, dict[str, bytes]]]]
"""Group -> its generations in order, each with every member's assignment."""


def name_of(path: Path) -> str:
    return path.name.removesuffix(".request.log.gz")


def followed_lines(tmp_path: Path, lines: Iterable[str]) -> Following:
    path = tmp_path / "changed.request.log"
    path.write_text("".join(lines))
    return followed(path)


def followed(*paths: Path) -> Following:
    """Follow logs; those of the recordings once in a process."""
    return _followed_once(*paths) if all(FIXTURES in path.parents for path in paths) else _followed(*paths)


def _followed(*paths: Path) -> Following:
    log = RequestLog(paths)
    log.read()
    return follow(log, {})


_followed_once = cache(_followed)


def request_logs_of(dump: Path) -> list[Path]:
    name = dump.name.removesuffix(".offsets.jsonl.gz")
    return [path for path in dump.parent.glob(f"{name}.*") if path.name.endswith("request.log.gz")]


def lines_of(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)


def outputs_of(following: Following) -> list[Output]:
    """What the events of a log that was followed give."""
    coordinator, clock_ms, outputs = Coordinator(following.settings.config), 0, []
    for record in EventsImport(following):
        assert record.value is not None
        assert record.offset is not None
        if record.key is None:
            clock_ms = decode_tick(record.value).clock_ms
            outputs += coordinator.advance_to(clock_ms)
        else:
            group_id = record.key.decode()
            event = decode_group_event(group_id, record.value)
            outputs += coordinator.handle(
                group_id, group_event(event, record.offset, clock_ms, record.timestamp_ms or 0)
            )
    return outputs


def owners_told(outputs: Iterable[Output]) -> Owners:
    return owners_of((output.key, output.value) for output in outputs if isinstance(output, LogRecord))


def owners_of_broker(request_log: Path) -> Owners:
    """What lies beside a request log: the broker's `__consumer_offsets`."""
    return owners_of_dump(request_log.with_name(f"{name_of(request_log)}.offsets.jsonl.gz"))


def owners_of_dump(path: Path) -> Owners:
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return owners_of(
        (b64decode(line["key"]), None if line["value"] is None else b64decode(line["value"]))
        for line in lines
        if "control" not in line
    )


def owners_of(records: Iterable[tuple[bytes, bytes | None]]) -> Owners:
    owners: Owners = {}
    for key, value in records:
        decoded_key, decoded = decode_record(key, value)
        if isinstance(decoded_key, GroupMetadataKey) and isinstance(decoded, GroupMetadataValue):
            shares = {member.member_id: member.assignment for member in decoded.members}
            owners.setdefault(decoded_key.group_id, []).append((decoded.generation, shares))
    return owners
