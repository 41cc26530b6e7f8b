"""A client is offered the APIs and versions that both the broker and the gateway know. Source: Kafka 4.4's definitions.

Group APIs are answered here, so the broker's own versions of them do not matter. All others go through untouched, as
far as their versions are known: one that is not could carry a broker's address past us.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from schemas.messages import APIS, ApiKey


class OtherApi(IntEnum):
    """API keys outside of the group protocol to which the gateway pays attention."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    DELETE_TOPICS = 20
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    LIST_PARTITION_REASSIGNMENTS = 46
    DESCRIBE_QUORUM = 55
    DESCRIBE_CLUSTER = 60
    DESCRIBE_TRANSACTIONS = 65
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


Versions = Mapping[int, tuple[int, int]]
"""API key -> first and last version."""

API_VERSIONS_MAX = 5
"""From version 5 on a client may say which broker of which cluster it means (KIP-1242). The gateway's address for a
broker leads to that broker and no other, so the broker's own check holds."""

_LAST_BEFORE_SHARE_GROUPS = 5

_OFFERED = {name: api for name, api in APIS.items() if api.key != ApiKey.TXN_OFFSET_COMMIT}

GROUP_APIS: dict[int, str] = {int(api.key): name for name, api in _OFFERED.items()} | {
    int(ApiKey.LIST_GROUPS): "ListGroups"
}
"""The APIs that the gateway answers, or takes notice of, by key."""

GROUP_VERSIONS: dict[int, tuple[int, int]] = {
    int(api.key): (api.min_version, api.max_version) for api in _OFFERED.values()
} | {
    int(ApiKey.LIST_GROUPS): (0, 5),
    int(ApiKey.FIND_COORDINATOR): (0, _LAST_BEFORE_SHARE_GROUPS),
}

TRANSACTION_APIS: dict[int, str] = {
    int(ApiKey.ADD_OFFSETS_TO_TXN): "AddOffsetsToTxn",
    int(ApiKey.TXN_OFFSET_COMMIT): "TxnOffsetCommit",
}
"""Those that are offered where there is a log of transactions."""
ANSWERED_APIS = GROUP_APIS | TRANSACTION_APIS
PRODUCE_OF_VERSION_2, COMMIT_OF_VERSION_2 = 12, 5
"""From these versions of Produce and TxnOffsetCommit on transactions are of version 2: they begin by such a request,
and have an epoch of their own (KIP-890)."""
_TRANSACTION_VERSIONS: dict[int, tuple[int, int]] = {
    int(ApiKey.ADD_OFFSETS_TO_TXN): (0, 4),
    int(ApiKey.TXN_OFFSET_COMMIT): (0, COMMIT_OF_VERSION_2),
    OtherApi.PRODUCE: (0, PRODUCE_OF_VERSION_2),
}

_BY_NAME: dict[int, tuple[int, int]] = {int(ApiKey.OFFSET_COMMIT): (2, 9), int(ApiKey.OFFSET_FETCH): (1, 9)}
"""The versions of these in which topics have names; from the next one on they have their ids only."""
_TELLS_NAMES = 12
"""From this version of Metadata on a broker says which topics have these ids."""

_PASSED: dict[int, int] = {
    # Produce 10 and Fetch 16 tell of new leaders with their addresses (KIP-951), as Metadata does: all answers would
    # have to be decoded, bulk data among them. DescribeQuorum 2 has the controllers' addresses.
    OtherApi.PRODUCE: 9,
    OtherApi.FETCH: 15,
    2: 11,  # ListOffsets
    OtherApi.METADATA: 13,
    OtherApi.SASL_HANDSHAKE: 1,
    OtherApi.API_VERSIONS: API_VERSIONS_MAX,
    19: 7,  # CreateTopics
    OtherApi.DELETE_TOPICS: 6,
    21: 2,  # DeleteRecords
    22: 5,  # InitProducerId
    23: 4,  # OffsetForLeaderEpoch
    24: 5,  # AddPartitionsToTxn
    26: 5,  # EndTxn
    29: 3,  # DescribeAcls
    30: 3,  # CreateAcls
    31: 3,  # DeleteAcls
    OtherApi.DESCRIBE_CONFIGS: 4,
    OtherApi.ALTER_CONFIGS: 2,
    34: 2,  # AlterReplicaLogDirs
    OtherApi.DESCRIBE_LOG_DIRS: 5,
    OtherApi.SASL_AUTHENTICATE: 2,
    37: 3,  # CreatePartitions
    38: 3,  # CreateDelegationToken
    39: 2,  # RenewDelegationToken
    40: 2,  # ExpireDelegationToken
    41: 3,  # DescribeDelegationToken
    OtherApi.ELECT_LEADERS: 2,
    OtherApi.INCREMENTAL_ALTER_CONFIGS: 1,
    45: 1,  # AlterPartitionReassignments
    OtherApi.LIST_PARTITION_REASSIGNMENTS: 0,
    48: 1,  # DescribeClientQuotas
    49: 1,  # AlterClientQuotas
    50: 0,  # DescribeUserScramCredentials
    51: 0,  # AlterUserScramCredentials
    OtherApi.DESCRIBE_QUORUM: 1,
    57: 2,  # UpdateFeatures
    OtherApi.DESCRIBE_CLUSTER: 2,
    61: 0,  # DescribeProducers
    64: 0,  # UnregisterBroker
    OtherApi.DESCRIBE_TRANSACTIONS: 0,
    66: 2,  # ListTransactions
    OtherApi.LIST_CONFIG_RESOURCES: 1,
    OtherApi.DESCRIBE_TOPIC_PARTITIONS: 0,
    94: 0,  # UnregisterController
}
"""APIs that go through, and the last version in which no address hides. Left out, and so hidden from clients: 70 and
71, telemetry and its kin; 76 to 93, other kinds of groups."""

_UNLIMITED: dict[int, int] = {OtherApi.PRODUCE: PRODUCE_OF_VERSION_2, OtherApi.FETCH: 18, OtherApi.DESCRIBE_QUORUM: 2}
"""The last known versions where the brokers themselves name the gateway's addresses. Produce 13 names topics by id,
in the midst of bulk data, where a broker cannot be asked first which topics they are."""

TOPIC_APIS: dict[int, str] = {
    OtherApi.PRODUCE: "Produce",
    OtherApi.FETCH: "Fetch",
    2: "ListOffsets",
    OtherApi.METADATA: "Metadata",
    19: "CreateTopics",
    OtherApi.DELETE_TOPICS: "DeleteTopics",
    21: "DeleteRecords",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    OtherApi.DESCRIBE_CONFIGS: "DescribeConfigs",
    OtherApi.ALTER_CONFIGS: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    OtherApi.DESCRIBE_LOG_DIRS: "DescribeLogDirs",
    37: "CreatePartitions",
    OtherApi.ELECT_LEADERS: "ElectLeaders",
    OtherApi.INCREMENTAL_ALTER_CONFIGS: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    OtherApi.LIST_PARTITION_REASSIGNMENTS: "ListPartitionReassignments",
    OtherApi.DESCRIBE_QUORUM: "DescribeQuorum",
    61: "DescribeProducers",
    OtherApi.DESCRIBE_TRANSACTIONS: "DescribeTransactions",
    OtherApi.LIST_CONFIG_RESOURCES: "ListConfigResources",
    OtherApi.DESCRIBE_TOPIC_PARTITIONS: "DescribeTopicPartitions",
}
"""The APIs that go through and whose requests or answers name topics."""

_FIRST_KNOWN: dict[int, int] = {
    OtherApi.FETCH: 4,
    2: 1,  # ListOffsets
    19: 2,  # CreateTopics
    OtherApi.DELETE_TOPICS: 1,
    23: 2,  # OffsetForLeaderEpoch
    OtherApi.DESCRIBE_CONFIGS: 1,
    34: 1,  # AlterReplicaLogDirs
    OtherApi.DESCRIBE_LOG_DIRS: 1,
}
"""The first version in which the topics of a message are found: Kafka 4 took away the older ones."""

_HIDDEN_FEATURES = frozenset({"share.version", "streams.version"})
_TRANSACTION_FEATURE = "transaction.version"

_PASSED_BY_A_TAP: dict[int, int] = {
    25: 4,  # AddOffsetsToTxn
    28: 6,  # TxnOffsetCommit
}
"""What a broker that keeps its groups can be asked through the gateway as well."""

SASL_HANDSHAKE_FIRST = 1
"""Version 0 is followed by frames without a Kafka header."""


def accepted_versions(*, rewrites_addresses: bool, taps: bool, transactions: bool = False) -> Versions:
    """Return all that the gateway can take, whatever the broker has. `transactions`: also offsets in them."""
    last_versions = _PASSED | ({} if rewrites_addresses else _UNLIMITED) | (_PASSED_BY_A_TAP if taps else {})
    versions = {key: (0 if taps else _FIRST_KNOWN.get(key, 0), last) for key, last in last_versions.items()}
    versions[OtherApi.SASL_HANDSHAKE] = (SASL_HANDSHAKE_FIRST, last_versions[OtherApi.SASL_HANDSHAKE])
    return versions | GROUP_VERSIONS | (_TRANSACTION_VERSIONS if transactions else {})


def offered_versions(broker: Versions, gateway: Versions, *, taps: bool) -> dict[int, tuple[int, int]]:
    """Return the versions offered to a client of this broker: those of both; the group APIs in the gateway's
    versions, as far as the broker can say which topics they name.

    FindCoordinator is of both kinds: that of a transaction goes through.
    """
    offered = {} if taps else {key: gateway[key] for key in GROUP_APIS}
    for key, (first, last) in broker.items():
        if key in gateway and (key not in offered or key == ApiKey.FIND_COORDINATOR):
            common = max(first, gateway[key][0]), min(last, gateway[key][1])
            if common[0] <= common[1]:
                offered[key] = common
    if not taps and broker.get(OtherApi.METADATA, (0, 0))[1] < _TELLS_NAMES:
        offered |= _BY_NAME
    return dict(sorted(offered.items()))


def hidden_features(offered: Versions) -> frozenset[str]:
    """Return the finalized features that rest on what is not offered: other kinds of groups, and transactions of
    version 2 where one of the two requests that begin them is not."""
    begins = ((OtherApi.PRODUCE, PRODUCE_OF_VERSION_2), (ApiKey.TXN_OFFSET_COMMIT, COMMIT_OF_VERSION_2))
    has_version_2 = all(offered.get(key, (0, -1))[1] >= version for key, version in begins)
    return _HIDDEN_FEATURES if has_version_2 else _HIDDEN_FEATURES | {_TRANSACTION_FEATURE}
