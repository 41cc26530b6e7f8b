"""The status of a watched cluster: its sources and how far they were read, and what is therefore not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from group_coordinator.watching.broker_logs.broker_log import FileRead
from group_coordinator.watching.dashboard.watched import Watched, WatchedSource
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.clock_skew import Skew
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC

NO_LOG = (
    "No broker's log is read (--broker-log): when a rebalance began and why is not known, nor whether a member that is "
    "gone left or expired."
)
NOT_FOLLOWED = "Brokers' logs are read once (without --follow): what they say later is not known."
NO_REQUESTS = "No request log is read: refused requests, and when each member was told to rejoin, are not known."
BETWEEN_POLLS = (
    "What happens between two polls is not seen: reasons, the beginnings of rebalances, and members that came and went "
    "meanwhile are not known."
)


OFFSETS_LOG = partial(WatchedSource, kind="offsets_log", name=OFFSETS_TOPIC)
"""Returns the source that the offsets topic is."""


def name_of(cluster: str, properties: Mapping[str, str]) -> str:
    """Return a cluster's name for people. `cluster`: its name, where there are several."""
    servers = properties.get("bootstrap.servers", "")
    return f"{cluster} ({servers})" if cluster else servers


def in_cluster(cluster: str, sentences: Iterable[str]) -> tuple[str, ...]:
    """Return sentences about a cluster, each with its name where there are several."""
    return tuple(f"{cluster}: {sentence}" if cluster else sentence for sentence in sentences)


class Cluster(Struct, frozen=True, kw_only=True):
    """A cluster, as far as it has answered."""

    servers: str
    """As they were named to us."""
    id: str = ""
    brokers: Mapping[int, str] = {}
    """Number -> host and port."""

    @property
    def detail(self) -> str:
        brokers = words.count(len(self.brokers), "broker") if self.brokers else ""
        return ", ".join(part for part in (brokers, self.id and f"cluster id {self.id}") if part)


def of_logs(files: Iterable[FileRead], cluster: Cluster, skews: Mapping[int | None, Skew]) -> Iterator[WatchedSource]:
    """Yield the logs that are read, by broker, and the brokers whose logs are not read.

    A log that does not name its broker may be of any: then none is said to be missing.
    """
    by_broker: dict[int | None, list[FileRead]] = {}
    for file in files:
        by_broker.setdefault(file.broker, []).append(file)
    expected = set() if None in by_broker else cluster.brokers.keys()
    for broker in sorted(by_broker.keys() | expected, key=lambda number: (number is None, number or 0)):
        name = "log of a broker" if broker is None else f"log of broker {broker}"
        read = by_broker.get(broker)
        if read is None:
            yield WatchedSource(kind="broker_log", name=name, problem="not read")
            continue
        parts = [words.listed([file.name for file in read]), words.count(sum(file.lines for file in read), "line")]
        skew = skews.get(broker)
        if skew is not None and skew.skew_ms:
            way = "ahead of" if skew.skew_ms > 0 else "behind"
            parts.append(f"its clock is {words.duration(abs(skew.skew_ms))} {way} its records', which is corrected")
        last_ms = max((file.last_ms for file in read if file.last_ms is not None), default=None)
        yield WatchedSource(kind="broker_log", name=name, detail="; ".join(parts), to_ms=last_ms, last_ms=last_ms)


def ends_polled(at_ms: int | None, impossible: int = 0) -> WatchedSource:
    """Return the source that lag is made of: the ends of the partitions that groups have committed for.

    `impossible`: so many of these cannot be.
    """
    detail = "asked every 15 s, for lag"
    if impossible:
        detail += f"; {words.count(impossible, 'partition')} left out, of topics with names that no topic can have"
    return WatchedSource(kind="poll", name="ends of partitions", detail=detail, to_ms=at_ms)


def not_known(sources: Sequence[WatchedSource], *, follow: bool = True) -> Iterator[str]:
    """Yield what follows from the sources that are missing. `follow`: logs are read as they grow, or nothing grows."""
    logs = [source for source in sources if source.kind == "broker_log"]
    missing = [source for source in logs if source.problem]
    if len(missing) == len(logs):
        yield NO_LOG
    else:
        if missing:
            named = words.listed([source.name.removeprefix("log of ") for source in missing])
            yield (
                f"The log of {named} is not read: of groups while they are coordinated there, the beginnings and "
                "reasons of rebalances are not known."
            )
        if not follow:
            yield NOT_FOLLOWED
    yield NO_REQUESTS


def watched(cluster: Cluster, sources: Sequence[WatchedSource], missing: Iterable[str]) -> Watched:
    return Watched(cluster=cluster.servers, detail=cluster.detail, sources=tuple(sources), not_known=tuple(missing))
