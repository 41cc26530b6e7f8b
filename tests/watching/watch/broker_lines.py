"""Lines of a broker's log."""

from __future__ import annotations


def line(number: int) -> bytes:
    return (
        f"[2026-11-22 18:10:{number:02d},000] INFO [GroupCoordinator id=2 topic=__consumer_offsets partition=49] "
        f"Member m-{number} in group g has failed, removing it from the group. (org.apache.kafka.X)\n"
    ).encode()
