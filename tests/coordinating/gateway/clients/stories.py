"""What consumers of every protocol must be able to do, told once."""

from __future__ import annotations

from collections.abc import Callable

from schemas.history import MemberExpired, MemberLeft
from tests.coordinating.gateway.clients.consumers import ConsumerProcess, Library, share
from tests.coordinating.gateway.clients.reading import reads, values
from tests.coordinating.gateway.conftest import PARTITIONS, Produce
from tests.coordinating.gateway.pump import Pump

Run = dict[Library, ConsumerProcess]


def joins_reads_commits_leaves_and_resumes(
    start_each: Callable[..., Run], libraries: tuple[Library, ...], produce: Produce, pump: Pump
) -> None:
    """`start_each`: a consumer of each library, each in a group `group-LIBRARY` of its own, with these settings."""
    produce(0, 120)
    first = start_each(enable_auto_commit=False)
    for library in libraries:
        share([first[library]], PARTITIONS)
        reads(120, first[library])
        assert first[library].commit() == ["committed"]
    produce(120, 150)
    for library in libraries:
        reads(150, first[library])
        first[library].close()
    second = start_each()
    for library in libraries:
        share([second[library]], PARTITIONS)
        reads(30, second[library])
    produce(150, 150 + PARTITIONS)  # one in each partition, behind all that could be read twice
    for library in libraries:
        reads(30 + PARTITIONS, second[library])
        assert values(first[library]) == list(range(150))
        from_where_was_committed = list(range(120, 150 + PARTITIONS))
        assert values(second[library]) == from_where_was_committed, f"{library}: and nothing else"
        assert len(pump.told(MemberLeft, f"group-{library}")) == 1
        assert pump.told(MemberExpired, f"group-{library}") == []
