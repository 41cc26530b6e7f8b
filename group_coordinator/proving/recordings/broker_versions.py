"""Which version of Kafka a log is of, by what the log itself shows. The habits: `coordinator_state.kafka_versions`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coordinator_state.kafka_versions import KAFKA_VERSIONS, KafkaVersion, version_named
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.proving.recordings.old_brokers import is_of_old_broker
from group_coordinator.watching.observed.offsets_log import CommitRecord
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.consumer_group_records import METADATA_TYPE, TARGET_METADATA_TYPE
from schemas.error_codes import ErrorCode
from schemas.records import OFFSET_COMMIT_TYPE
from schemas.wire import INT16

_OF_EPOCHS = frozenset({METADATA_TYPE, TARGET_METADATA_TYPE})
_WITH_TIMES, _EMPTIED_AT_ONCE = "4.3", "4.4"
"""The one tells the time of a target; the other writes one without where a group becomes empty, and commits in
transactions with the ids of their topics."""


def shown_version(
    told: str | None, answered: str | None, records: Mapping[str, list[LoggedRecord]]
) -> tuple[KafkaVersion, str] | None:
    """Return the version of the brokers, and what shows it; None if nothing does.

    `told`: what a broker's log says. `answered`: what the answers to ApiVersions show. `records`: those of the offsets
    log.
    """
    if told is not None:
        return version_named(told), f"as the broker's log tells: Kafka {told}"
    if answered is not None:
        return version_named(answered), "as the answers to ApiVersions show"
    by_records = _version_of_records(records.values())
    return None if by_records is None else (version_named(by_records), "as the offsets log shows")


def version_of_requests(groups: Mapping[str, Sequence[GroupRequest]]) -> tuple[KafkaVersion, str] | None:
    """Return the version that the answers to members show, where nothing else does."""
    if any(is_of_old_broker(request.logged.connection) for requests in groups.values() for request in requests):
        return version_named("3.9"), "as its connections show"
    if any(_names_member_epochs(request) for requests in groups.values() for request in requests):
        return KAFKA_VERSIONS["4.4"], "as requests are printed"
    if any(_began_at_epoch_0(requests) for requests in groups.values()):
        return KAFKA_VERSIONS["4.2"], "as the first epochs of groups show: 4.2 at most"
    return None


def _names_member_epochs(request: GroupRequest) -> bool:
    """Return whether a broker prints a commit in a transaction with the name that a field has since 4.4."""
    return request.logged.api == "TxnOffsetCommit" and b'"generationIdOrMemberEpoch"' in request.logged.request


def _began_at_epoch_0(requests: Sequence[GroupRequest]) -> bool:
    """Return whether a member got partitions in epoch 1 of a group that was no classic one before."""
    joins = [request.request for request in requests if request.logged.api == "JoinGroup"]
    return not joins and any(
        isinstance(request.request, ConsumerGroupHeartbeatRequest)
        and request.request.member_epoch == JOIN_EPOCH
        and request.response.get("errorCode") == ErrorCode.NONE
        and request.response.get("memberEpoch") == 1
        and bool((request.response.get("assignment") or {}).get("topicPartitions"))
        for request in requests
    )


def _version_of_records(groups: Iterable[Iterable[LoggedRecord]]) -> str | None:
    """Return the version by the fields that each version has added to records."""
    versions = [version for records in groups if (version := _version_of_group(records)) is not None]
    return max(versions, default=None)


def _version_of_group(records: Iterable[LoggedRecord]) -> str | None:
    version = None
    for record in records:
        if record.value is None:
            continue
        record_type = INT16.unpack_from(record.key)[0]
        in_transaction = record_type <= OFFSET_COMMIT_TYPE and record.producer_id is not None
        if not (in_transaction or record_type in _OF_EPOCHS):
            continue
        entry = record.decoded()
        if isinstance(entry, CommitRecord):
            if entry.value is not None and entry.value.topic_id is not None:
                return _EMPTIED_AT_ONCE
            continue
        value = entry.value or {}
        if "assignment_timestamp" in value:
            version = _WITH_TIMES
        elif version == _WITH_TIMES and record_type == TARGET_METADATA_TYPE:
            return _EMPTIED_AT_ONCE  # a target without a time, after one that has it
        else:
            version = max(version or "4.0", "4.2" if "metadata_hash" in value else "4.0")
    return version
