"""Kafka's error codes, as far as a group coordinator gives or meets them.

Source: `org.apache.kafka.common.protocol.Errors` (Kafka 4.4).
"""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """An error code of the Kafka protocol; the member's name is Kafka's name."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136

    @property
    def retriable(self) -> bool:
        """True if a client may send the same request again unchanged (Kafka's RetriableException)."""
        return self in _RETRIABLE

    @property
    def meaning(self) -> str:
        """One sentence for people: what the code says and what the client should do."""
        return _MEANINGS[self]


_RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)

_MEANINGS: dict[ErrorCode, str] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: (
        "The coordinator could not make sense of the request; the client should not repeat it unchanged."
    ),
    ErrorCode.NONE: "The request succeeded.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "The topic or partition does not exist.",
    ErrorCode.MESSAGE_TOO_LARGE: "The request, or what it leads to, is larger than the topics allow.",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: (
        "The metadata of the committed offset is longer than offset.metadata.max.bytes."
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading; try again.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "There is no coordinator at present; find it again and retry.",
    ErrorCode.NOT_COORDINATOR: "The request reached another shard than the group's; find the coordinator again.",
    ErrorCode.ILLEGAL_GENERATION: "The member speaks of another generation than the group's; it must rejoin.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "The member offers no protocol that all members support, or another protocol type."
    ),
    ErrorCode.INVALID_GROUP_ID: "The group id is empty.",
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "The coordinator does not know this member (any more); it must rejoin with an empty member id."
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "The session timeout lies outside group.min.session.timeout.ms and group.max.session.timeout.ms."
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing; the member must rejoin.",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The commit is larger than a group may hold.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The client may not use the topic.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The client may not use the group.",
    ErrorCode.UNSUPPORTED_VERSION: "The coordinator does not speak this version of the API.",
    ErrorCode.INVALID_REQUEST: "The request contradicts the protocol.",
    ErrorCode.POLICY_VIOLATION: "The request exceeds a limit set by the operator.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "A newer producer with this transactional id has taken the place of this one.",
    ErrorCode.INVALID_TXN_STATE: "The producer has no open transaction to which this belongs.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The transactional id belongs to another producer id.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "The producer's last transaction is still being ended; try again.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "The client may not use the transactional id.",
    ErrorCode.NON_EMPTY_GROUP: "The group still has members; stop them first.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
    ErrorCode.MEMBER_ID_REQUIRED: (
        "A first join is answered with a member id; the client joins again with it (KIP-394)."
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as group.max.size allows.",
    ErrorCode.FENCED_INSTANCE_ID: "Another client with the same group.instance.id took this member's place (KIP-345).",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to the topic; its offsets cannot be deleted.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "A transaction over this offset is still open.",
    ErrorCode.PRODUCER_FENCED: "A newer producer with this transactional id has taken the place of this one.",
    ErrorCode.UNKNOWN_TOPIC_ID: "No topic has this id.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The member's epoch is not the coordinator's; it must give up all and rejoin.",
    ErrorCode.UNRELEASED_INSTANCE_ID: "Another member uses this group.instance.id and has not left.",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "The coordinator has no assignor of this name.",
    ErrorCode.STALE_MEMBER_EPOCH: "The member's epoch is not the coordinator's; it must heartbeat and try again.",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction cannot go on; the client must abort it.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression of the subscription cannot be read.",
    ErrorCode.GROUP_DELETION_FAILED: "The group could not be deleted; the answer says why.",
    ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: "The topology's description could not be stored.",
    ErrorCode.CONTROLLER_ID_NOT_REGISTERED: "There is no controller with this id.",
}
