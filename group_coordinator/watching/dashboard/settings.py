"""These settings bound the dashboard, and say when it calls a group unwell."""

from __future__ import annotations

from msgspec import Struct

_MINUTE_MS = 60_000
_DAY_MS = 86_400_000


class HealthSettings(Struct, frozen=True, kw_only=True):
    """Thresholds of the verdicts."""

    window_ms: int = 10 * _MINUTE_MS
    """What counts as recent: for storms and flapping."""
    storm_rebalances: int = 10
    """So many rebalances within the window are a storm."""
    flapping_rebalances: int = 4
    """So many rebalances within the window that are one client's doing, at least half of all: it flaps."""
    flapping_departures: int = 2
    """And so often it must have gone."""
    stuck_after_ms: int = _MINUTE_MS
    """A rebalance that runs longer, or beyond its deadline, is stuck; in a consumer group a member that does not give
    up partitions for so long."""
    assigning_max_ms: int = 30_000
    """The target of a consumer group's epoch comes with the first heartbeat after the assignment interval: either takes
    at most 15 s."""
    deadline_grace_ms: int = 15_000
    """How far beyond its deadline a rebalance may run before it is called stuck: batches and clocks need a moment."""
    stalled_after_ms: int = 5 * _MINUTE_MS
    """A partition with an owner and messages waiting may stand so long, and longer where its past explains it."""
    settling_ms: int = _MINUTE_MS
    """So long it is looked whether it stays so: one partition or member has most; nobody in the group commits again."""
    roll_apart_ms: int = 3 * _MINUTE_MS
    """Rebalances, and members that come or go, belong to one roll while no more than this lies between them."""
    losing_warning_ms: int = _DAY_MS
    """How long before messages are deleted unread the dashboard begins to warn."""
    offsets_retention_ms: int = 7 * _DAY_MS
    """The coordinator's `offsets_retention_ms`."""
    expiry_warning_ms: int = _DAY_MS
    """How long before offsets expire the dashboard begins to warn."""


class DashboardSettings(Struct, frozen=True, kw_only=True):
    """Bounds of memory; what goes beyond them is said to be beyond the window."""

    memory_max_bytes: int = 512 * 1024 * 1024
    """All records that are kept may take this much, compressed; the oldest of all groups go first. A few KiB of each
    group stay in any case."""
    groups_max_bytes: int | None = None
    """All groups with their records may take this much; those beyond it lie on disk. None: all are in memory."""
    records_per_group_max: int = 5_000
    """Records of a group's life (commits apart)."""
    commits_per_group_max: int = 2_000
    """Records of its commits."""
    bytes_per_group_max: int = 4 * 1024 * 1024
    """The records of either kind may take this much, uncompressed: it bounds the time that a group's page takes."""
    feed_max: int = 5_000
    """Records in the feed of events."""
    feed_max_bytes: int = 16 * 1024 * 1024
    """These records may take this much, as they lie on the topic; decoded they take twice as much."""
    dead_letters_max: int = 1_000
    health: HealthSettings = HealthSettings()
