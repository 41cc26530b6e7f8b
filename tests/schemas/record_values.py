"""Random values of the records that the coordinator writes."""

from __future__ import annotations

from hypothesis import strategies as st

from schemas.records import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)

INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)

TOPIC_IDS = st.uuids().map(str)

OFFSETS = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=INT32,
    metadata=TEXT,
    commit_timestamp_ms=INT64,
    topic_id=st.none() | TOPIC_IDS,
)

MEMBERS = st.builds(
    MemberMetadata,
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=INT32,
    session_timeout_ms=INT32,
    subscription=st.binary(max_size=30),
    assignment=st.binary(max_size=30),
)

GROUPS = st.builds(
    GroupMetadataValue,
    protocol_type=TEXT,
    generation=INT32,
    protocol=st.none() | TEXT,
    leader=st.none() | TEXT,
    current_state_timestamp_ms=INT64,
    members=st.lists(MEMBERS, max_size=4).map(tuple),
)
