"""Three brokers in one cluster: the first is its controller, too, and is never ended."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from group_coordinator.proving.embedded_kafka import broker_properties
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka

OFFSETS_PARTITIONS = 6
_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
}
_CONTROLLER_IS_ANOTHER = {
    "process.roles": "broker",
    "controller.listener.names": "UPSTREAM",
    "listener.security.protocol.map": "UPSTREAM:PLAINTEXT",
}


@contextmanager
def three_brokers(directory: Path) -> Iterator[dict[int, EmbeddedKafka]]:
    """Yield running brokers by their ids."""
    with ExitStack() as stack:
        first = stack.enter_context(EmbeddedKafka(directory / "1", properties=_REPLICATED, heap_mb=256))
        voters = broker_properties.read(directory / "1" / "server.properties")["controller.quorum.voters"]
        brokers = {1: first}
        for number in (2, 3):
            _format(directory / str(number) / "logs", number, first.cluster_id)
            joining = {"node.id": str(number), "controller.quorum.voters": voters}
            properties = _REPLICATED | _CONTROLLER_IS_ANOTHER | joining
            brokers[number] = stack.enter_context(
                EmbeddedKafka(directory / str(number), properties=properties, heap_mb=256)
            )
        yield brokers


def _format(storage: Path, node: int, cluster_id: str) -> None:
    """Make the storage of a broker of a cluster that is there."""
    storage.mkdir(parents=True)
    directory_id = base64.urlsafe_b64encode(b"\x01" + secrets.token_bytes(15)).rstrip(b"=").decode()
    settings = {"version": "1", "cluster.id": cluster_id, "node.id": str(node), "directory.id": directory_id}
    broker_properties.write(storage / "meta.properties", settings)
