"""Which cluster a file is of: brokers say it when they start, and dumps of the offsets topic have it in a line.

Evidence of two clusters must not be put together: brokers have the same numbers everywhere, groups may have the same
names, and then the lines of the one would end what the records of the other tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAMED = re.compile(
    rb"INFO Cluster ID = ([\w-]{1,64})(?:[ \r\n\"\\]|$)"
    rb"|\[BrokerLifecycleManager id=\d+\] Incarnation [\w-]+ of broker \d+ in cluster ([\w-]{1,64}) is now "
    rb"|\[QuorumController id=\d+\] Creating new QuorumController with clusterId ([\w-]{1,64})[.,]"
)
"""Source: `kafka.server.KafkaServer`, `BrokerLifecycleManager`, `QuorumController`."""


def cluster_id_in(entry: bytes) -> str | None:
    """Return the cluster that the first line of an entry of a broker's log names."""
    match = _NAMED.search(entry) if b"luster" in entry else None
    return None if match is None else next(name for name in match.groups() if name is not None).decode()


def is_foreign(named: Iterable[str], cluster_id: str | None) -> bool:
    """Return whether a file that names these clusters is of others than this one; what is not known is not foreign."""
    names = set(named)
    return cluster_id is not None and bool(names) and cluster_id not in names


def left_out(file: str, named: Iterable[str], cluster_id: str) -> str:
    """Return what is said of a broker's log of another cluster."""
    clusters = ", ".join(sorted(set(named)))
    return f"{file} is the log of a broker of cluster {clusters}, not of {cluster_id}: it is left out."
