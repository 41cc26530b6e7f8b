"""The number of shards, which is the number of partitions of the events topic: fixed for its life, since a group's
shard is the hash of its id over it. Kafka lets partitions be added all the same. Whoever counts them says no, in
these words.
"""

from __future__ import annotations

from collections.abc import Sequence

_REMEDY = (
    "a group's shard is the hash of its id over them, so groups would be looked for where they are not, and Kafka "
    "takes no partition away. Save the offsets (`group-coordinator offsets export`), start the coordinator with "
    "another --topic-prefix and as many --shards as wanted, and give them back (`offsets import`)."
)


def partitions_were_added(events_topic: str, before: int, after: int) -> str:
    """Return the message about a number of partitions that has changed."""
    return f"{events_topic} had {_partitions(before)} and has {_partitions(after)} now: {_REMEDY}"


def problem_of_ends(events_topic: str, ends: Sequence[int]) -> str | None:
    """Return what is wrong with a topic whose partitions end at these offsets.

    Ticks are written to every partition that is a shard. So a partition that is empty while others are not is no shard.
    """
    empty = [number for number, end in enumerate(ends) if not end]
    if not empty or len(empty) == len(ends):
        return None
    named = ", ".join(map(str, empty))
    return (
        f"Nobody coordinates partition {named} of {events_topic}: it is empty, while others are not. If it is a shard, "
        f"start its coordinator (`run --shard {empty[0]}`). If partitions were added: {_REMEDY}"
    )


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
