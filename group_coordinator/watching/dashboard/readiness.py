"""Whether a classic group can go over to the consumer protocol (KIP-848): go, change something first, or wait. Pure.

Source: `GroupMetadataManager.validateOnlineUpgrade`, `ConsumerGroup.fromClassicGroup`, `GroupCoordinatorConfig`
(Kafka 4.3): what makes a broker refuse to convert a group that has members. The rest: KIP-848, KIP-1071, KIP-1274.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from group_coordinator.watching.dashboard.facts import CONNECT_PROTOCOLS, GroupFacts
from group_coordinator.watching.dashboard.lanes import TopicsOverTime, lanes, unowned_ms
from group_coordinator.watching.narrative import words
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Ownership
from schemas.consumer_protocol import decode_assignment, decode_subscription
from schemas.group_settings import OwnSettingsBounds
from schemas.history import History, RebalanceStarted
from schemas.records import GroupMetadataValue
from schemas.wire import DecodeError

ReadinessVerdict = Literal["go", "change this first", "wait"]
VERDICTS: tuple[ReadinessVerdict, ...] = ("change this first", "wait", "go")
"""In the order in which groups are listed."""
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Those that Kafka's clients bring: the server's own take their place."""
_STREAMS = "stream"
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_DEFAULTS = OwnSettingsBounds()
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
    source: Literal["brokers", "brokers' logs", "Kafka's defaults"] = "Kafka's defaults"


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


class Cost(Struct, frozen=True, kw_only=True):
    """What rebalances of the classic protocol cost a group, as far as its history goes."""

    since_ms: int | None
    """Where its history begins; None: there is none."""
    rebalances: int
    without_owner_ms: int
    """Summed over its partitions, while it had members."""
    not_known_ms: int
    """The same of time in which it is not known whether there was an owner."""


class Readiness(Struct, frozen=True, kw_only=True):
    """The judgement of one classic group."""

    group: str
    verdict: ReadinessVerdict
    reasons: tuple[str, ...]
    """Sentences: why it is not `go`; of `go` the first says how."""
    is_converted_live: bool
    """Whether brokers convert it with its members in it, when the first member of the consumer protocol comes."""
    remarks: tuple[str, ...]
    """What else will be otherwise."""
    protocol_type: str | None
    assignor: str | None
    members: int
    static_members: int
    session_timeouts_ms: tuple[int, ...]
    """Of its members, each once."""
    cost: Cost


def cost_of(group_id: str, history: Sequence[History], until_ms: int) -> Cost:
    """Return what rebalances cost a group until a moment, from its whole known history."""
    facts, topics = GroupFacts(group_id), TopicsOverTime()
    rebalances = 0
    for record in history:
        topics.note(record)
        if facts.add(record):
            rebalances += isinstance(record, RebalanceStarted) and not record.initial
    owned = [row for row in fold(history) if isinstance(row, Ownership)]
    all_lanes = lanes(owned, facts.moments(), topics, facts.first_ms, until_ms)
    not_known_ms = sum(
        (until_ms if gap.to_ms is None else gap.to_ms) - gap.from_ms
        for lane in all_lanes for gap in lane.gaps if gap.kind == "not_known"
    )  # fmt: skip
    return Cost(
        since_ms=facts.first_ms or None,
        rebalances=rebalances,
        without_owner_ms=unowned_ms(all_lanes, until_ms),
        not_known_ms=not_known_ms,
    )


def readiness_of(
    group_id: str, generations: Sequence[GroupMetadataValue], settings: BrokerSettings, cost: Cost
) -> Readiness:
    """Judge a classic group by what its coordinator stored of its generations, the last of which holds."""
    group = generations[-1]
    waits = list(_waits(group, settings))
    refusals = list(_refusals(group, settings)) if not waits else []
    changes = [*refusals, *_changes(generations, settings, refusals)] if not waits else []
    verdict: ReadinessVerdict = "wait" if waits else "change this first" if changes else "go"
    return Readiness(
        group=group_id,
        verdict=verdict,
        reasons=tuple(waits or changes or [_how(group)]),
        is_converted_live=bool(group.members) and not waits and not refusals,
        remarks=tuple(_remarks(group, settings)) if not waits else (),
        protocol_type=group.protocol_type or None,
        assignor=group.protocol,
        members=len(group.members),
        static_members=sum(member.group_instance_id is not None for member in group.members),
        session_timeouts_ms=_session_timeouts(group),
        cost=cost,
    )


def _waits(group: GroupMetadataValue, settings: BrokerSettings) -> Iterator[str]:
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


def _refusals(group: GroupMetadataValue, settings: BrokerSettings) -> Iterator[str]:
    """Yield why brokers refuse to convert the group while it has members."""
    if not group.members:
        return
    if settings.migration_policy not in ("bidirectional", "upgrade"):
        yield (
            f"group.consumer.migration.policy is {settings.migration_policy}: brokers do not convert a group that has "
            "members. Set it to bidirectional, or stop all members before the first new one starts."
        )
    if len(group.members) > settings.size_max:
        yield f"It has {len(group.members)} members, and group.consumer.max.size is {settings.size_max}."
    unreadable, with_data = _of_assignor(group)
    if unreadable:
        yield f"What {words.names(unreadable)} sent is no consumer's subscription or assignment."
    if with_data:
        yield (
            f"The leader's {group.protocol} assignor puts data of its own into assignments (of {len(with_data)} of "
            f"{len(group.members)} members), and then brokers refuse to convert the group. Go over to the range "
            "assignor first, or stop all members before the first new one starts."
        )


def _changes(
    generations: Sequence[GroupMetadataValue], settings: BrokerSettings, refusals: Sequence[str]
) -> Iterator[str]:
    """Yield what brokers do not mind, and the members or their operators do."""
    group = generations[-1]
    if not refusals and any(_of_assignor(earlier)[1] for earlier in generations if earlier.protocol == group.protocol):
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
    outside = [each for each in _session_timeouts(group) if not least_ms <= each <= most_ms]
    if outside:
        bounds = f"{words.duration(least_ms)} to {words.duration(most_ms)}"
        yield (
            f"Its members ask for session timeouts of {words.listed([words.duration(each) for each in outside])}, but "
            f"brokers allow consumer groups {bounds}: a crash will be noticed after "
            f"{words.duration(settings.session_timeout_ms)}, unless group.consumer.min.session.timeout.ms (or max) "
            "changes. The clients' session.timeout.ms must go: the consumer protocol refuses it."
        )


def _of_assignor(group: GroupMetadataValue) -> tuple[list[str], list[str]]:
    """Return the members whose bytes are no consumer's, and those whose assignment has data of the assignor."""
    unreadable, with_data = [], []
    for member in group.members:
        try:
            decode_subscription(member.subscription)
            if member.assignment and decode_assignment(member.assignment).user_data:
                with_data.append(member.member_id)
        except DecodeError:
            unreadable.append(member.member_id)
    return unreadable, with_data


def _remarks(group: GroupMetadataValue, settings: BrokerSettings) -> Iterator[str]:
    others = [each for each in _session_timeouts(group) if each != settings.session_timeout_ms]
    within = [each for each in others if settings.session_timeout_min_ms <= each <= settings.session_timeout_max_ms]
    if within:
        yield (
            f"A session timeout of {words.listed([words.duration(each) for each in within])} becomes the group's own "
            "consumer.session.timeout.ms: the clients' session.timeout.ms must go."
        )
    if group.protocol in ("sticky", "cooperative-sticky") and not _of_assignor(group)[1]:
        yield (
            f"The {group.protocol} assignor of some clients (librdkafka, Sarama) puts data of its own into assignments "
            "from its second generation on, and then brokers refuse to convert the group: look again after a rebalance."
        )
    static = sum(member.group_instance_id is not None for member in group.members)
    if static:
        yield (
            f"{words.count(static, 'member')} {'is' if static == 1 else 'are'} static, and may stay so: a second one "
            "with the same group.instance.id is then refused, where now it fences the first."
        )


def _how(group: GroupMetadataValue) -> str:
    if not group.members:
        return "It has no members: the first one with group.protocol=consumer makes it a consumer group."
    return "Restart its members one by one with group.protocol=consumer: the first one converts the group."


def _session_timeouts(group: GroupMetadataValue) -> tuple[int, ...]:
    return tuple(sorted({member.session_timeout_ms for member in group.members}))
