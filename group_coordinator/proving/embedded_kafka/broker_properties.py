"""The settings of the embedded Kafka broker, and the `.properties` files that carry them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# A caller's value of these is added to ours; of all others it replaces ours.
_LISTS = ("listeners", "advertised.listeners", "listener.security.protocol.map")

_SMALL_SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A request's memory is taken when its length has come: of Kafka's 100 MiB, three would be all of the heap.
    "socket.request.max.bytes": "16777216",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "4",
    # After a crash the controller, which is the same process, holds the old registration for this long (default 9 s).
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    # Kafka's default takes 128 MiB of the heap at once.
    "log.cleaner.dedupe.buffer.size": "16777216",
}


def server(host: str, port: int, controller_port: int, storage: Path, properties: Mapping[str, str]) -> dict[str, str]:
    """Return all settings of a broker on `port` with its data in `storage`; the caller's `properties` come last."""
    settings = {
        **_SMALL_SINGLE_NODE,
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        "controller.quorum.voters": f"1@{host}:{controller_port}",
        "log.dirs": str(storage),
    }
    added = {name: f"{settings[name]},{properties[name]}" for name in _LISTS if name in properties}
    return {**settings, **properties, **added}


def write(path: Path, settings: Mapping[str, str]) -> None:
    """Write a `.properties` file. Backslashes are escaped, as Java reads them."""
    lines = (f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items())
    path.write_text("".join(lines), encoding="utf-8")


def read(path: Path) -> dict[str, str]:
    """Return the names and values of a `.properties` file of plain lines; none if there is no such file."""
    if not path.exists():
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
