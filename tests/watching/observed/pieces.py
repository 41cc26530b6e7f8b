"""A recording's evidence in other orders, cut into pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.offsets_log import Entry
from tests.watching.observed.recorded import entries, lines

Piece = Entry | BrokerLine


def mixed(name: str, random: Random) -> list[Piece]:
    """Return all evidence: lines in any order, partitions mixed, each partition's records in the order of offsets."""
    by_partition: dict[int, list[Entry]] = {}
    for entry in entries(name):
        by_partition.setdefault(entry.partition, []).append(entry)
    sources: list[Iterator[Piece]] = [iter(records) for records in by_partition.values()]
    sources.append(iter(random.sample(lines(name), len(lines(name)))))
    evidence = []
    while sources:
        source = random.choice(sources)
        for _ in range(random.randrange(1, 200)):
            piece = next(source, None)
            if piece is None:
                sources.remove(source)
                break
            evidence.append(piece)
    return evidence


def pieces(all_of_it: Sequence[Piece], random: Random) -> Iterator[Sequence[Piece]]:
    """Yield the evidence, cut anywhere."""
    begin = 0
    while begin < len(all_of_it):
        end = begin + random.choice([1, 3, 50, 500])
        yield all_of_it[begin:end]
        begin = end


def add(observer: Observer, piece: Iterable[Piece]) -> None:
    for item in piece:
        if isinstance(item, BrokerLine):
            observer.add_lines([item])
        else:
            observer.add_records([item])
