"""Every metric by name; `registry` writes to them.

`METRICS` is the catalogue: dashboards, alert rules and names in documents are checked against it. Counters begin at
zero with the process, as Prometheus expects; gauges are computed when they are asked for.

A series of a counter is there at zero before its first occurrence wherever its labels are known beforehand (`known`):
for Prometheus a series that appears with the first occurrence has not risen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple, get_args, get_type_hints

from msgspec import Struct

from schemas.consumer_group_history import EpochReason
from schemas.error_codes import ErrorCode
from schemas.events import OUTPUT_TOO_LARGE, EventProblem
from schemas.history import MemberDropped, RebalanceCompleted
from schemas.messages import APIS

UNREADABLE, TICK, RENEWAL = "unreadable", "tick", "renew_sessions"
FACTS = "topics_deleted", "transaction_ended", "topic_metadata", "regexes_resolved", "group_config"
"""Values of labels that are no API's name, or no reason's."""
PREFIX = "group_coordinator_"

_BATCH_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30, 60)
_ANSWER_S = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300)
_REBALANCE_S = (0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 120, 300, 600)


class Metric(Struct, frozen=True, kw_only=True, eq=False):
    """One metric. It is looked up whenever something is counted, by its identity."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()
    meaning: str
    buckets: tuple[float, ...] = ()
    """Of a histogram."""
    known: tuple[tuple[str, ...], ...] = ()
    """Values of the labels that are known beforehand: their series begin at zero."""


class Buckets(NamedTuple):
    """The value of a histogram."""

    counts: Sequence[tuple[str, float]]
    """(bound, how many at or below it); the last bound is `+Inf`."""
    sum: float


class Value(NamedTuple):
    """The value of a metric for these labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Buckets


Known = Iterable[tuple[str, ...]]


def _counter(name: str, meaning: str, *labels: str, known: Known = ()) -> Metric:
    return Metric(name=PREFIX + name, kind="counter", labels=labels, meaning=meaning, known=tuple(known))


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name=PREFIX + name, kind="gauge", labels=labels, meaning=meaning)


def _histogram(name: str, meaning: str, buckets: tuple[float, ...], *labels: str, known: Known = ()) -> Metric:
    return Metric(
        name=PREFIX + name, kind="histogram", labels=labels, meaning=meaning, buckets=buckets, known=tuple(known)
    )


def _literals(kind: type, field: str) -> Iterator[tuple[str, ...]]:
    """Return the possible values of a history record's field, as values of one label."""
    return ((value,) for value in get_args(get_type_hints(kind)[field]))


EVENTS = _counter(
    "events_total",
    "Records of the events topic by Kafka's name of the API; `tick` for the clock, `renew_sessions` after a pause, "
    f"{', '.join([f'`{fact}`' for fact in FACTS])}, `unreadable` for what is none of them.",
    "api",
    known=[(api,) for api in (*APIS, TICK, RENEWAL, *FACTS, UNREADABLE)],
)
ANSWERS = _counter(
    "answers_total",
    "Answers by API and Kafka's name of the error (`NONE`: success). Of an answer with several errors, the first.",
    "api", "error",
    known=product(APIS, (ErrorCode.NONE.name, ErrorCode.UNKNOWN_SERVER_ERROR.name)),
)  # fmt: skip
ANSWER_SECONDS = _histogram(
    "answer_seconds",
    "From the append of a request to the append of its answer. JoinGroup and SyncGroup include the wait for the other "
    "members.",
    _ANSWER_S,
    "api",
    known=[(api,) for api in APIS],
)
REFUSALS = _counter(
    "refusals_total",
    "Requests that were refused (an error that is no normal step of the protocol) by API, rule and Kafka's name of "
    "the error.",
    "api", "rule", "error",
)  # fmt: skip
REBALANCES = _counter(
    "rebalances_total",
    "Rebalances that began, by what triggered them.",
    "trigger",
    known=_literals(RebalanceCompleted, "trigger"),
)
REBALANCE_SECONDS = _histogram(
    "rebalance_seconds",
    "How long rebalances took, by outcome: `stable`, `empty` (nobody was left), `interrupted` (by the next one), "
    "`coordinator_changed` (it ended with its coordinator).",
    _REBALANCE_S,
    "outcome",
    known=_literals(RebalanceCompleted, "outcome"),
)
MEMBERS_JOINED = _counter("members_joined_total", "Members that were added to a group.")
MEMBERS_GONE = _counter(
    "members_gone_total",
    "Members that are gone by reason: `left`; those that were fenced: `session_expired`, `did_not_rejoin`, "
    "`did_not_sync`, `did_not_revoke` (it kept partitions that it had to give up); `group_full`; of a watched group "
    "also `coordinator_stalled` (expired because a broker seems to have stood still) and `unknown` (left or expired, "
    "not known which).",
    "reason",
    known=[("left",), ("session_expired",), ("coordinator_stalled",), *_literals(MemberDropped, "reason")],
)
MEMBERS_FENCED = _counter(
    "members_fenced_total", "Clients that were told that another one has their `group.instance.id`."
)
OFFSETS = _counter(
    "offsets_total",
    "Offsets of single partitions by what happened to them: `committed`, `expired`, `deleted`; of a watched group also "
    "`unknown` (expired or deleted, not known which).",
    "change",
    known=[("committed",), ("expired",), ("deleted",)],
)
COMMITS = _counter("commits_total", "OffsetCommit requests that changed offsets.")
DEAD_LETTERS = _counter(
    "dead_letters_total",
    "Events that could not be read, and outputs too large to be written, by reason; `unreadable` for a reason that is "
    "none of ours.",
    "reason",
    known=[(reason,) for reason in (*(problem.value for problem in EventProblem), OUTPUT_TOO_LARGE, UNREADABLE)],
)
GROUPS = _gauge("groups", "Groups by type (`classic`, `consumer`) and state.", "type", "state")
MEMBERS = _gauge(
    "members",
    "Members of all groups by the protocol that they speak. `classic` ones may be in a consumer group, while it "
    "migrates.",
    "protocol",
)
EPOCH_BUMPS = _counter(
    "epoch_bumps_total",
    "How often the epoch of a consumer group rose, by why. Several reasons at a time count each.",
    "reason",
    known=[(reason,) for reason in get_args(EpochReason)],
)
TARGETS = _counter("target_assignments_total", "Target assignments of consumer groups that were computed.")
REGEXES_UNRESOLVED = _gauge(
    "regexes_unresolved", "Regular expressions of consumer groups whose topics have not been looked up yet."
)
READY = _gauge("ready", "1 while answers are to be expected: what /health/ready says.")
ENDED_THREADS = _gauge(
    "ended_threads", "Parts of the program that a defect has ended while the others go on; /health/ready names them."
)
BATCH_SECONDS = _histogram(
    "batch_seconds",
    "Time that a batch took by phase; `triggerExecution` is the whole, `addBatch` the work itself (Spark's "
    "`durationMs`).",
    _BATCH_S,
    "shard", "phase",
)  # fmt: skip
BATCH_ID = _gauge("batch_id", "Number of the last batch. It goes on over restarts.", "shard")
HANDLED = _counter(
    "handled_events_total", "Events that the query has taken in, ticks included, as Spark counts them.", "shard"
)
SINCE_BATCH = _gauge(
    "since_batch_seconds", "How long ago the last batch ended (or, before the first, the process began).", "shard"
)
SINCE_TICK = _gauge(
    "since_tick_seconds", "How long ago Kafka took the last tick (or, before the first, the process began).", "shard"
)
WATERMARK_LAG = _gauge(
    "watermark_lag_seconds",
    "How far the shard's clock is behind wall time; it grows while nothing is handled.",
    "shard",
)
CLOCK_SKEW = _gauge(
    "clock_skew_seconds",
    "How far this machine's clock was ahead of the brokers' when Kafka took the last tick. At tick_ahead_max_ms the "
    "shard's clock stands still.",
    "shard",
)
CLOCK_STANDSTILL = _gauge(
    "clock_standstill",
    "1 while the ticker lets the shard's clock stand still, because this machine's or the shard's clock is ahead of "
    "the brokers': no timer fires.",
    "shard",
)
FOREIGN_TICKS = _counter(
    "foreign_ticks_total",
    "How often the shard's clock was found beyond all ticks of its own ticker and of responders: somebody else writes "
    "some.",
    "shard",
)
SOURCE_LAG = _gauge(
    "source_lag_events",
    "Events, ticks included, that are written and not yet handled (Spark commits no offsets that others could look "
    "at).",
    "shard",
)
STATE_GROUPS = _gauge(
    "state_groups", "Keys in the state store: groups, or with group_buckets the buckets that hold some.", "shard"
)
STATE_MEMORY = _gauge("state_memory_bytes", "Memory of the state store, as Spark counts it.", "shard")
STATE_DISK = _gauge("state_disk_bytes", "Size of RocksDB's files on local disk.", "shard")
READER_LAG = _gauge(
    "metrics_reader_lag_records",
    "Records of the topic that this endpoint has not yet counted. Large: the numbers above are late, not wrong.",
    "topic",
)
_OF_GROUP = "cluster", "group"
"""The cluster is empty where there is one only."""
GROUP_REBALANCING = _gauge(
    "group_rebalancing_seconds", "How long the group is in its present rebalance. The longest ones.", *_OF_GROUP,
    "state",
)
GROUP_HELD_UP = _gauge(
    "group_held_up_seconds",
    "How long a member of the consumer group has not given up partitions, since it was told to. The longest ones.",
    *_OF_GROUP,
)
GROUP_PENDING_OFFSETS = _gauge(
    "group_pending_offsets_seconds",
    "Age of the group's oldest offset in a transaction that has not ended, of those that were written since this "
    "process began. The oldest ones.",
    *_OF_GROUP,
)
GROUP_REBALANCES = _gauge(
    "group_rebalances_recently", "Rebalances of the group in the last ten minutes. The most.", *_OF_GROUP
)
GROUP_EXPIRIES = _gauge(
    "group_expiries_recently", "Members of the group that expired in the last ten minutes. The most.", *_OF_GROUP
)
GROUP_REFUSALS = _gauge(
    "group_refusals_recently", "Refused requests to the group in the last ten minutes. The most.", *_OF_GROUP
)
GROUP_MEMBERS = _gauge("group_members", "Members of the group. The largest ones.", *_OF_GROUP)

_OF_TOPIC = *_OF_GROUP, "topic"
GROUP_LAG = _gauge(
    "group_lag_messages", "Messages that the group has yet to read of the topic, without deleted ones.", *_OF_TOPIC
)
GROUP_LAG_SECONDS = _gauge(
    "group_lag_seconds", "How long ago the group's next message of the topic was written, at least.", *_OF_TOPIC
)
GROUP_LAST_COMMIT = _gauge("group_last_commit_seconds", "Age of the group's last commit.", *_OF_GROUP)
GROUP_VERDICT = _gauge("group_verdict", "1 for the verdict on a group in trouble, or deploying.", *_OF_GROUP, "verdict")
GROUP_STALLED = _gauge(
    "group_stalled_partitions", "Partitions with an owner and messages waiting that do not move. The most.", *_OF_GROUP
)
GROUP_LOST = _gauge(
    "group_lost_messages", "Messages deleted unread: behind committed offsets, or passed in the last hour.", *_OF_GROUP
)
GROUP_LOSES_IN = _gauge(
    "group_loses_messages_in_seconds", "In about so long messages will be deleted unread. The soonest.", *_OF_GROUP
)
GROUP_UNCOMMITTED = _gauge(
    "group_uncommitted_partitions", "Assigned partitions without a commit: the lag leaves them out.", *_OF_GROUP
)
GROUP_FOUND = _gauge("group_partitions_found", "Partitions by finding: rewound, uneven ...", *_OF_GROUP, "finding")
_OF_PARTITION = *_OF_TOPIC, "partition"
GROUP_PARTITION_LAG = _gauge(
    "group_partition_lag_messages", "Messages that the group has yet to read of the partition.", *_OF_PARTITION
)
GROUP_PARTITION_LAG_SECONDS = _gauge(
    "group_partition_lag_seconds", "How long ago the group's next message of the partition was written, at least.",
    *_OF_PARTITION,
)  # fmt: skip
LAG_LEFT_OUT = _gauge("groups_without_lag_series", "Groups with lag that have no series of their own.")
LAG_SERIES_LEFT_OUT = _gauge(
    "lag_series_left_out", "Series of lag that were asked for, and left out because of metrics_series_max."
)

RESPONDER_UP = _gauge("responder_up", "1 while the responder of the shard runs, 0 while it does not.", "shard")
RESPONDER_LEAD = _gauge(
    "responder_lead_seconds",
    "How long before the query's last commit the responder of the shard had answered what the commit brought.",
    "shard",
)
RESPONDER_STATE = _gauge(
    "responder_state_bytes",
    "Bytes of the shard's groups as they are stored, which its responder has in memory.",
    "shard",
)
RESPONDER_TICKS = _gauge(
    "responder_ticks", "1 while the responder writes the clock of the shard, because the coordinator does not.", "shard"
)
RESPONDER_COMPARED = _gauge(
    "responder_answers_compared",
    "Answers that a responder and the query have both given since the start, by who gave them first.",
    "first",
)
RESPONDER_DIFFERENCES = _gauge(
    "responder_differences",
    "Answers of responders that differ from the query's, and requests that Kafka has two different answers to, since "
    "the start.",
)
RESPONDER_FORGOTTEN = _gauge(
    "responder_answers_forgotten",
    "Answers of responders that were not compared with the query's, because too many waited for it, since the start.",
)

SOURCE_AGE = _gauge(
    "watched_source_age_seconds",
    "Of a watcher: how far its knowledge of a source is behind: of the offsets topic, since it was last read to its "
    "end; of a broker's log, since its last line; of polls, since the last answer.",
    "source",
)

WEBHOOK_MESSAGES = _gauge(
    "webhook_messages",
    "Of a watcher: messages for its webhook since the start: `delivered`, `lost` (refused, or tried for too long, or "
    "without room), and those `waiting` now.",
    "outcome",
)
WATCHED_CLUSTERS = _gauge(
    "watched_clusters",
    "Of a watcher: clusters by state: `being_reached`, `unreachable` (it is tried again), `being_read`, `watched`, "
    "`failed` (by a defect: only a restart may help).",
    "state",
)

METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of them."""
OF_A_WATCHER = (
    REFUSALS, REBALANCES, REBALANCE_SECONDS, MEMBERS_JOINED, MEMBERS_GONE, MEMBERS_FENCED, OFFSETS, COMMITS, GROUPS,
    MEMBERS, EPOCH_BUMPS, TARGETS, READY, GROUP_REBALANCING, GROUP_REBALANCES, GROUP_EXPIRIES, GROUP_MEMBERS,
    GROUP_HELD_UP, GROUP_PENDING_OFFSETS, GROUP_LAG, GROUP_LAG_SECONDS, GROUP_LAST_COMMIT, GROUP_VERDICT, GROUP_STALLED,
    GROUP_LOST, GROUP_LOSES_IN, GROUP_UNCOMMITTED, GROUP_FOUND, GROUP_PARTITION_LAG, GROUP_PARTITION_LAG_SECONDS,
    LAG_LEFT_OUT, LAG_SERIES_LEFT_OUT, SOURCE_AGE, WATCHED_CLUSTERS, WEBHOOK_MESSAGES, ENDED_THREADS,
)  # fmt: skip
"""What a watched cluster tells of its groups, under the names that the coordinator's own groups have."""
