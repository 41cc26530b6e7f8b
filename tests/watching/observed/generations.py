"""Records of one classic group, as they lie in the offsets topic."""

from __future__ import annotations

from group_coordinator.watching.observed.offsets_log import Entry
from schemas.records import GroupMetadataValue, MemberMetadata, encode_group_metadata_key
from tests.encoded_records import encode_group_metadata_value
from tests.watching.observed.commits import read, text

GROUP = "g"


def generation(place: int, number: int, *member_ids: str, instance_id: str | None = None) -> Entry:
    """Return a record of the group."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol="range" if member_ids else None,
        leader=member_ids[0] if member_ids else None,
        current_state_timestamp_ms=1_000 + place,
        members=tuple(
            MemberMetadata(
                member_id=member_id,
                group_instance_id=instance_id if member_id.startswith("s") else None,
                client_id=member_id,
                client_host="/10.0.0.1",
                rebalance_timeout_ms=1_000,
                session_timeout_ms=1_000,
                subscription=b"",
                assignment=b"",
            )
            for member_id in member_ids
        ),
    )
    return group_record(place, encode_group_metadata_value(value))


def group_record(place: int, value: bytes | None, at_ms: int | None = None) -> Entry:
    """Return a record with this value; None: its tombstone."""
    key = text(encode_group_metadata_key(GROUP))
    line: dict[str, object] = {"partition": 7, "offset": place, "timestamp_ms": at_ms or 1_000 + place, "key": key}
    return read({**line, "value": None if value is None else text(value)})
