"""Take Kafka's message definitions from Kafka's jars: `python -m tests.schemas.kafka.take_definitions`.

The definitions are checked in under `schemas/kafka`. They are Kafka's files without their comment lines; the
notice beside them says so. The test of this module fails when the checked-in files differ from those in the jars.
"""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

from group_coordinator.coordinating.jars.resolving import broker_jars

ROOT = Path(__file__).parents[3] / "schemas" / "kafka"

GROUP_APIS = (
    "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch",
    "OffsetDelete", "DescribeGroups", "ListGroups", "DeleteGroups", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe",
    "ShareGroupHeartbeat", "ShareGroupDescribe", "DescribeShareGroupOffsets", "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets", "StreamsGroupHeartbeat", "StreamsGroupDescribe",
)  # fmt: skip
TRANSACTION_APIS = (
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "WriteTxnMarkers",
    "DescribeTransactions", "ListTransactions",
)  # fmt: skip
PASSED_APIS = (
    "Produce", "Fetch", "ListOffsets", "Metadata", "SaslHandshake", "ApiVersions", "CreateTopics", "DeleteTopics",
    "DeleteRecords", "OffsetForLeaderEpoch", "DescribeConfigs", "AlterConfigs", "AlterReplicaLogDirs",
    "DescribeLogDirs", "SaslAuthenticate", "CreatePartitions", "ElectLeaders", "IncrementalAlterConfigs",
    "AlterPartitionReassignments", "ListPartitionReassignments", "DescribeQuorum", "UpdateFeatures", "DescribeCluster",
    "DescribeProducers", "ListConfigResources", "DescribeTopicPartitions",
)  # fmt: skip
"""What the gateway reads, or changes on its way."""
OTHER_MESSAGES = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")

_IN_JAR = "common/message/"
_COMMENT_LINE = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_NOTICE = """\
The JSON files in the folders `messages` and `records` are Apache Kafka's message definitions, taken from the jars
kafka-clients and kafka-group-coordinator of version {version}. Their comment lines were
removed; nothing else was changed.

Apache Kafka
Copyright The Apache Software Foundation.

This product includes software developed at
The Apache Software Foundation (https://www.apache.org/).

Licensed under the Apache License, Version 2.0: http://www.apache.org/licenses/LICENSE-2.0
"""


def definition_files() -> dict[str, str]:
    """What is to be checked in: the text of each file, by its path under `schemas/kafka`. Raises as `broker_jars`."""
    clients, coordinator = _jar("kafka-clients"), _jar("kafka-group-coordinator")
    messages = [api + kind for api in GROUP_APIS + TRANSACTION_APIS + PASSED_APIS for kind in ("Request", "Response")]
    files = {"NOTICE": _NOTICE.format(version=clients.stem.rpartition("-")[2])}
    with ZipFile(clients) as jar:
        files |= {f"messages/{name}.json": _text(jar, f"{_IN_JAR}{name}.json") for name in (*messages, *OTHER_MESSAGES)}
    with ZipFile(coordinator) as jar:
        names = [name for name in jar.namelist() if name.startswith(_IN_JAR) and name.endswith(".json")]
        files |= {f"records/{Path(name).name}": _text(jar, name) for name in names}
    return files


def _jar(module: str) -> Path:
    (path,) = (jar for jar in broker_jars() if re.fullmatch(rf"{module}-[0-9.]+\.jar", jar.name))
    return path


def _text(jar: ZipFile, name: str) -> str:
    return _COMMENT_LINE.sub("", jar.read(name).decode()).strip() + "\n"


def main() -> None:
    """Write the files, and remove definitions that are no longer taken."""
    files = definition_files()
    for path in ROOT.glob("*/*.json"):
        if str(path.relative_to(ROOT)) not in files:
            path.unlink()
    for name, text in files.items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, "utf-8")
    print(f"{len(files)} files are in {ROOT}.")


if __name__ == "__main__":
    main()
