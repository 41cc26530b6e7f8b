"""The operator's settings are apart from `StreamingConfig`: these go to the Python workers, which need no others."""

from __future__ import annotations

from msgspec import Struct

from coordinator_state import GroupConfig, RuleChange
from group_coordinator.ground.settings.topic_names import Topics
from streaming.reply_partitions import ReplyPartitions


class OperatorConfig(Struct, frozen=True, kw_only=True):
    """The operator of one shard needs only these values, bound once: with the log they decide every byte of the
    outputs."""

    group: GroupConfig
    topics: Topics
    partition: int
    """The events partition of this shard."""
    reply_partitions: ReplyPartitions
    offsets_partitions: int
    output_max_bytes: int
    rule_changes: tuple[RuleChange, ...] = ()
    """Those of the log, as far as it is handled by this operator."""
    group_buckets: int = 0
    """How many keys of Spark's state hold the groups, see `streaming.buckets`; 0: each group is a key. No output
    depends on it."""
