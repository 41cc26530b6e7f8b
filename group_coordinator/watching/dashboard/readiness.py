"""Whether a classic group can go over to the consumer protocol (KIP-848): go, change something first, or wait. Pure.

Source: `GroupMetadataManager.validateOnlineUpgrade`, `ConsumerGroup.fromClassicGroup`, `GroupCoordinatorConfig`
(Kafka 4.3): what makes a broker refuse to convert a group that has members. The rest: KIP-848, KIP-1071, KIP-1274.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from group_coordinator.watching.dashboard.facts import CONNECT_PROTOCOLS
from group_coordinator.watching.dashboard.lanes import Lane, Past
from group_coordinator.watching.history.stored_generations import StoredGenerations
from group_coordinator.watching.narrative import words
from group_coordinator.watching.tables.readiness_row import Cost, Readiness, ReadinessVerdict
from group_coordinator.watching.tables.rows import AnyRow, Rebalance
from schemas.group_settings import OwnSettingsBounds
from schemas.history import History

VERDICTS: tuple[ReadinessVerdict, ...] = ("change this first", "wait", "go")
"""In the order in which groups are listed."""
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Those that Kafka's clients bring: the server's own take their place."""
WEEK_MS = 7 * 86_400_000
_STREAMS = "stream"
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_DEFAULTS = OwnSettingsBounds()
NO_COST = Cost(since_ms=None, rebalances=0, without_owner_ms=0, not_known_ms=0)
NOT_SEEN = (
    "Not seen: what versions the clients have (the consumer protocol needs Java 4.0 or librdkafka 2.12), whether a "
    "member subscribes by a pattern (classic clients resolve it themselves), whether group.version is 1."
)


class BrokerSettings(Struct, frozen=True, kw_only=True):
    """What brokers say of the consumer protocol; without their word Kafka's defaults."""

    has_protocol: bool = True
    """Whether they speak it."""
    migration_policy: str = "bidirectional"
    size_max: int = 2_147_483_647
    session_timeout_ms: int = _DEFAULTS.group_consumer_session_timeout_ms
    session_timeout_min_ms: int = _DEFAULTS.group_consumer_min_session_timeout_ms
    session_timeout_max_ms: int = _DEFAULTS.group_consumer_max_session_timeout_ms
    source: Literal["brokers", "brokers' logs", "settings given here", "Kafka's defaults"] = "Kafka's defaults"


def broker_settings(values: Mapping[str, str], source: Literal["brokers", "brokers' logs"]) -> BrokerSettings:
    """Return what a broker's settings by Kafka's names say; of none, Kafka's defaults."""
    if not values:
        return BrokerSettings()
    usual = BrokerSettings()
    return BrokerSettings(
        has_protocol="consumer" in values.get(_PROTOCOLS, "").strip("[]").replace(" ", "").split(","),
        migration_policy=values.get("group.consumer.migration.policy", "disabled").lower(),
        size_max=int(values.get("group.consumer.max.size", usual.size_max)),
        session_timeout_ms=int(values.get("group.consumer.session.timeout.ms", usual.session_timeout_ms)),
        session_timeout_min_ms=int(values.get("group.consumer.min.session.timeout.ms", usual.session_timeout_min_ms)),
        session_timeout_max_ms=int(values.get("group.consumer.max.session.timeout.ms", usual.session_timeout_max_ms)),
        source=source,
    )


class ReadinessPage(Struct, frozen=True, kw_only=True):
    """Classic groups, judged; those that must change first, then those that wait, then those that can go."""

    now_ms: int
    groups: tuple[Readiness, ...]
    counts: Mapping[ReadinessVerdict, int]
    """Of each verdict, on all pages."""
    not_judged: int
    """Classic groups whose stored generations are not known here."""
    settings: Mapping[str, BrokerSettings]
    """By cluster."""
    not_seen: str
    """A sentence."""
    next_page: str | None
    """Null: there is no more."""


def cost_of(history: Sequence[History], rows: Sequence[AnyRow], until_ms: int) -> Cost:
    """Return what rebalances cost a group in the week before a moment, from its whole known history and its rows."""
    past = Past(history)
    rebalances = [row for row in rows if isinstance(row, Rebalance)]
    return cost_of_rows(rebalances, past.lanes(rows, until_ms), past.first_ms or None, until_ms)


def cost_of_rows(
    rebalances: Iterable[Rebalance], all_lanes: Iterable[Lane], first_ms: int | None, until_ms: int
) -> Cost:
    """Return the same from a group's rows and lanes. `first_ms`: where its history begins."""
    since_ms = max(first_ms or 0, until_ms - WEEK_MS)
    spent_ms: Counter[str] = Counter()
    for lane in all_lanes:
        for gap in lane.gaps:
            end_ms = until_ms if gap.to_ms is None else gap.to_ms
            spent_ms[gap.kind] += max(0, end_ms - max(gap.from_ms, since_ms))
    return Cost(
        since_ms=None if first_ms is None else since_ms,
        rebalances=sum(not each.initial and each.started_ms >= since_ms for each in rebalances),
        without_owner_ms=spent_ms["unowned"],
        not_known_ms=spent_ms["not_known"],
    )


def readiness_of(group_id: str, group: StoredGenerations, settings: BrokerSettings, cost: Cost = NO_COST) -> Readiness:
    """Judge a classic group by what its coordinator stored of its generations."""
    waits = list(_waits(group, settings))
    refusals = list(_refusals(group, settings)) if not waits else []
    changes = [*refusals, *_changes(group, settings, refusals)] if not waits else []
    verdict: ReadinessVerdict = "wait" if waits else "change this first" if changes else "go"
    return Readiness(
        group_id=group_id,
        stored_ms=group.stored_ms,
        verdict=verdict,
        reasons=tuple(waits or changes or [_how(group)]),
        is_converted_live=bool(group.members) and not waits and not refusals,
        remarks=tuple(_remarks(group, settings)) if not waits else (),
        protocol_type=group.protocol_type,
        assignor=group.protocol,
        members=group.members,
        static_members=group.static_members,
        session_timeouts_ms=group.session_timeouts_ms,
        cost=cost,
    )


def _waits(group: StoredGenerations, settings: BrokerSettings) -> Iterator[str]:
    """Yield why nothing can be done about the group now."""
    if group.protocol_type and group.protocol_type != "consumer":
        connect = " (Kafka Connect)" if group.protocol in CONNECT_PROTOCOLS else ""
        yield (
            f"Its members are of the protocol type {group.protocol_type}{connect}, and no consumers: the consumer "
            "protocol is not for them, and they need not change."
        )
    elif group.protocol == _STREAMS:
        yield (
            "It is an application of Kafka Streams, which goes over to the streams protocol (KIP-1071), and only while "
            "it is stopped."
        )
    elif not settings.has_protocol:
        yield "Its brokers do not speak the consumer protocol: Kafka 4.0 does. Upgrade them before their clients."


def _refusals(group: StoredGenerations, settings: BrokerSettings) -> Iterator[str]:
    """Yield why brokers refuse to convert the group while it has members."""
    if not group.members:
        return
    if settings.migration_policy not in ("bidirectional", "upgrade"):
        yield (
            f"group.consumer.migration.policy is {settings.migration_policy}: brokers do not convert a group that has "
            "members. Set it to bidirectional, or stop all members before the first new one starts."
        )
    if group.members > settings.size_max:
        yield f"It has {group.members} members, and group.consumer.max.size is {settings.size_max}."
    if group.unreadable:
        yield (
            f"What {words.count(group.unreadable, 'member')} sent ({words.names(group.unreadable_ids)}) is no "
            "consumer's subscription or assignment."
        )
    if group.with_data:
        yield (
            f"The leader's {group.protocol} assignor puts data of its own into assignments (of {group.with_data} of "
            f"{group.members} members), and then brokers refuse to convert the group. Go over to the range "
            "assignor first, or stop all members before the first new one starts."
        )


def _changes(group: StoredGenerations, settings: BrokerSettings, refusals: Sequence[str]) -> Iterator[str]:
    """Yield what brokers do not mind, and the members or their operators do."""
    if not refusals and group.protocol in dict(group.had_data):
        yield (
            f"In earlier generations the {group.protocol} assignor of another leader put data of its own into "
            "assignments: as soon as such a member leads again, brokers refuse to convert the group. Go over to the "
            "range assignor first."
        )
    if group.protocol is not None and group.protocol not in ASSIGNORS:
        yield (
            f"Its assignor {group.protocol} is one of its own, and in the consumer protocol brokers assign: decide for "
            "uniform or range (group.remote.assignor)."
        )
    least_ms, most_ms = settings.session_timeout_min_ms, settings.session_timeout_max_ms
    outside = [each for each in group.session_timeouts_ms if not least_ms <= each <= most_ms]
    if outside:
        bounds = f"{words.duration(least_ms)} to {words.duration(most_ms)}"
        yield (
            f"Its members ask for session timeouts of {words.listed([words.duration(each) for each in outside])}, but "
            f"brokers allow consumer groups {bounds}: a crash will be noticed after "
            f"{words.duration(settings.session_timeout_ms)}, unless group.consumer.min.session.timeout.ms (or max) "
            "changes. The clients' session.timeout.ms must go: the consumer protocol refuses it."
        )


def _remarks(group: StoredGenerations, settings: BrokerSettings) -> Iterator[str]:
    others = [each for each in group.session_timeouts_ms if each != settings.session_timeout_ms]
    within = [each for each in others if settings.session_timeout_min_ms <= each <= settings.session_timeout_max_ms]
    if within:
        yield (
            f"A session timeout of {words.listed([words.duration(each) for each in within])} becomes the group's own "
            "consumer.session.timeout.ms: the clients' session.timeout.ms must go."
        )
    if group.protocol in ("sticky", "cooperative-sticky") and not group.with_data:
        yield (
            f"The {group.protocol} assignor of some clients (librdkafka, Sarama) puts data of its own into assignments "
            "from its second generation on, and then brokers refuse to convert the group: look again after a rebalance."
        )
    static = group.static_members
    if static:
        yield (
            f"{words.count(static, 'member')} {'is' if static == 1 else 'are'} static, and may stay so: a second one "
            "with the same group.instance.id is then refused, where now it fences the first."
        )


def _how(group: StoredGenerations) -> str:
    if not group.members:
        return "It has no members: the first one with group.protocol=consumer makes it a consumer group."
    return "Restart its members one by one with group.protocol=consumer: the first one converts the group."
