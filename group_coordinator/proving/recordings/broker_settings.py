"""The settings of the broker that was recorded: as given, else as its answers show them, else Kafka's defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from msgspec import Struct, field

from coordinator_state.config import GroupConfig, GroupSettings
from coordinator_state.kafka_versions import OF_OLD_LOGS, KafkaVersion
from group_coordinator.proving.recordings.broker_versions import version_of_requests
from group_coordinator.proving.recordings.consumer_group_settings import (
    NO_EVIDENCE,
    NOT_KNOWN,
    SESSION_TIMEOUT,
    Inferred,
    Interruptions,
    infer_consumer_groups,
    note,
)
from group_coordinator.proving.recordings.expectations import CLOCK_MS, LATE_MS
from group_coordinator.proving.recordings.group_requests import GroupRequest, Json
from group_coordinator.proving.recordings.offsets_log import LoggedRecord, value_version
from group_coordinator.proving.recordings.recorded_groups import HAND_OVER_US
from group_coordinator.proving.recordings.shown_rules import shown_rules, with_shown_rules
from schemas.consumer_group_records import METADATA_TYPE
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import JoinGroupRequest, OffsetCommitRequest
from schemas.records import GROUP_METADATA_TYPE, OffsetCommitKey, decode_key
from schemas.wire import INT16

RULES = "kafka_rules"
FORMER_RULES = "coordinator_version"
"""What the setting was called, in notes of earlier releases."""
PARTITIONS = "offsets_topic_num_partitions"
DEFAULT_PARTITIONS = 50
NEVER_MS = 2**53
DELAY_STEPS_MAX = 20
ROUND_STEPS_MS = (1_000, 500, 100, 50, 10, 1)
"""Settings are round numbers, and the rounder the likelier."""

_OWN = frozenset({
    "group_max_bytes", "group_offsets_max_bytes", "member_max_protocols", "offsets_retention_check_phase_ms",
    "offset_commit_value_version", "group_consumer_bug_fixes_enable",
})  # fmt: skip
"""Settings of ours that no broker has."""

Setting = int | str
"""The value of a setting that a broker has; of one that is on or off, a bool."""


class BrokerSettings(Struct, kw_only=True):
    """The settings for a replay, and where those that are not Kafka's defaults come from."""

    config: GroupConfig
    partitions: int | None
    """Of the broker's `__consumer_offsets`; None: nothing shows it."""
    notes: list[str] = field(default_factory=list)
    is_session_timeout_known: bool = True
    """Something shows when members of consumer groups expire."""
    contradicted: list[str] = field(default_factory=list)
    """Given ones that the broker's answers contradict: with them a replay is a *what if*."""

    def all(self) -> dict[str, Setting]:
        """Return the settings that a replay needs: the broker's, and Kafka's defaults for those that nothing shows."""
        return {name: getattr(self.config, name) for name in sorted(SETTINGS)}


class _Phase(Struct):
    """A join phase of an empty group: who came when, and when it ended (milliseconds)."""

    surely: bool
    """It is the group's first, so the group was empty."""
    first_ms: float
    added_ms: list[float]
    ended_ms: float
    rebalance_timeout_ms: int


_TEXTS = frozenset({"group_consumer_assignors", "group_consumer_migration_policy", RULES})
SETTINGS = (
    frozenset(setting.name for setting in fields(GroupSettings) if isinstance(setting.default, int)) - _OWN | _TEXTS
)
"""Those of ours that a broker has too."""


def parse_settings(settings: Mapping[str, str]) -> dict[str, Setting]:
    """Return settings by our names, from Kafka's names (`group.max.size`) or ours. Raises ValueError that says what is
    wrong."""
    known_names = {*SETTINGS, PARTITIONS}
    parsed: dict[str, Setting] = {}
    for name, text in settings.items():
        own_name = name.replace(".", "_").replace("-", "_")
        if own_name not in known_names:
            names = ", ".join(sorted(name.replace("_", ".") for name in known_names))
            raise ValueError(f"{name} is no setting that matters here; those that do: {names}")
        try:
            parsed[own_name] = text if own_name in _TEXTS else int(text)
        except ValueError:
            raise ValueError(f"{name} must be a whole number, not {text!r}") from None
    return parsed


def settings_of(
    given_settings: Mapping[str, Setting],
    groups: Mapping[str, Sequence[GroupRequest]],
    records: Mapping[str, list[LoggedRecord]],
    told: Mapping[str, str] | None = None,
    shown: tuple[KafkaVersion, str] | None = None,
    interruptions: Interruptions | None = None,
) -> BrokerSettings:
    """Take what is given, then what the brokers' logs have `told`, by Kafka's names; and infer the rest. `shown`: the
    brokers' version, and what shows it. `interruptions`: when sessions did not run as they do. Raises ValueError for
    settings that contradict each other."""
    requests = [request for of_group in groups.values() for request in of_group]
    inferred: Inferred = {}
    _infer_initial_delay(groups, inferred)
    _infer_session_bounds(requests, inferred)
    _infer_max_size(groups, inferred)
    _infer_metadata_limit(requests, inferred)
    _infer_from_records(records, inferred)
    infer_consumer_groups(groups, interruptions or Interruptions(), inferred)
    _take_told(told or {}, inferred)
    if SESSION_TIMEOUT in given_settings:
        inferred.pop(SESSION_TIMEOUT, None)
    _infer_version(shown or version_of_requests(groups), inferred)
    _infer_rules(shown_rules(records, groups), inferred)
    settings = {RULES: OF_OLD_LOGS, **{name: value for name, (value, _) in inferred.items()}, **given_settings}
    partitions = settings.pop(PARTITIONS, None)
    assert not isinstance(partitions, str)
    notes = [f"{name.replace('_', '.')} = {value} (as given)" for name, value in given_settings.items()]
    notes += [reason for name, (_, reason) in inferred.items() if name not in given_settings]
    if partitions is None:
        notes.append(
            "offsets.topic.num.partitions is not known, so FindCoordinator is compared by its error code alone"
        )
    config = GroupConfig(**settings)  # type: ignore[arg-type]  # a version of commit values is a number here
    if problems := config.problems():
        raise ValueError(" ".join(problems))
    contradicted = [
        f"{name.replace('_', '.')} = {given_settings[name]} is given, and the broker's answers say {value}: what is "
        "told is what if"
        for name, (value, reason) in inferred.items()
        if name in given_settings and given_settings[name] != value and NO_EVIDENCE not in reason
    ]
    return BrokerSettings(
        config=config,
        partitions=partitions,
        notes=notes,
        contradicted=contradicted,
        is_session_timeout_known=not any(NOT_KNOWN in note for note in notes),
    )


def _infer_version(shown: tuple[KafkaVersion, str] | None, inferred: Inferred) -> None:
    """Take what follows from the brokers' version."""
    if shown is None or shown[0].name == OF_OLD_LOGS:
        return
    version, why = shown
    inferred[RULES] = version.name, f"kafka.rules = {version.name} ({why})"
    number = version.offset_commit_value_version
    if number != GroupConfig().offset_commit_value_version:
        reason = f"offset commits are written as version {number}, as brokers before Kafka 4.1 do"
        inferred.setdefault("offset_commit_value_version", (number, reason))


def _infer_rules(shown: Mapping[str, tuple[bool, str]], inferred: Inferred) -> None:
    version, why = inferred.get(RULES, (OF_OLD_LOGS, "those of 4.3, as nothing shows another version"))
    if (rules := with_shown_rules(str(version), shown)) is not None:
        inferred[RULES] = rules[0], f"kafka.rules = {rules[0]} (as the log shows: {rules[1]}; for the rest {why})"


def _take_told(told: Mapping[str, str], inferred: Inferred) -> None:
    """Take what a broker's log tells in place of what its answers show."""
    defaults = GroupConfig()
    for name, text in told.items():
        own_name = name.replace(".", "_")
        is_known = own_name == PARTITIONS or (own_name in SETTINGS and not own_name.startswith("offsets_retention"))
        if not is_known or not (text.isdecimal() or own_name in _TEXTS):
            continue
        # Lists are in brackets: [uniform, range].
        value: Setting = text.strip("[]").replace(" ", "") if own_name in _TEXTS else int(text)
        if own_name in inferred or value != getattr(defaults, own_name, None):
            # The timer of no delay fires a moment later, too: behind requests that wait already.
            taken = _SHORTEST_DELAY_MS if own_name == _INITIAL_DELAY and not value else value
            inferred[own_name] = taken, f"{name} = {value} (as the broker's log tells)"


# ------------------------------------------------------------------------------------------------ the initial delay


_INITIAL_DELAY, _SHORTEST_DELAY_MS = "group_initial_rebalance_delay_ms", 1


def _infer_initial_delay(groups: Mapping[str, Sequence[GroupRequest]], inferred: Inferred) -> None:
    name = _INITIAL_DELAY
    default = GroupConfig().group_initial_rebalance_delay_ms
    phases = [phase for requests in groups.values() for phase in _initial_phases(requests)]
    if not phases:
        note(inferred, name, default, f"{NO_EVIDENCE}; the log shows no rebalance of an empty group")
        return
    candidates = [default, 0]
    for phase in phases:
        length_ms = phase.ended_ms - phase.first_ms
        candidates += [_round_delay(length_ms / count) for count in range(1, DELAY_STEPS_MAX + 1)]
    late_by_delay = {delay: [_late_ms(phase, delay) for phase in phases] for delay in dict.fromkeys(candidates)}

    def fits(delay: int) -> tuple[int, int, int, int]:
        """Return in how many surely and in how many probably empty groups the delay fits, how closely, and how much it
        explains."""
        delays = zip(phases, late_by_delay[delay], strict=True)
        fitting = [(phase.surely, late_ms) for phase, late_ms in delays if late_ms is not None]
        return sum(surely for surely, _ in fitting), len(fitting), -sum(late_ms for _, late_ms in fitting), delay

    delay = max(late_by_delay, key=fits)
    note(inferred, name, delay, f"{fits(delay)[1]} of {len(phases)} rebalances of members that are all new agree")


def _initial_phases(requests: Sequence[GroupRequest]) -> Iterator[_Phase]:
    """Join phases in which all members were new: as a rule, the group was empty before."""
    assigned_ids = {request.new_member_id for request in requests}
    joins: dict[int, list[GroupRequest]] = {}
    members: dict[int, set[str]] = {}
    first_generations: dict[str, int] = {}
    for request in requests:
        if request.logged.api == "JoinGroup" and request.response.get("errorCode") == ErrorCode.NONE:
            generation, member_id = int(request.response["generationId"]), str(request.response["memberId"])
            joins.setdefault(generation, []).append(request)
            members.setdefault(generation, set()).update(member["memberId"] for member in request.response["members"])
            first_generations[member_id] = min(first_generations.get(member_id, generation), generation)
    for generation, answers in joins.items():
        ended_us = min(request.logged.ready_us for request in answers)
        # Later answers of the same generation went to members that came back into it.
        of_generation = [request for request in answers if request.logged.ready_us <= ended_us + LATE_MS * 1000]
        joined_ids = {str(request.response["memberId"]) for request in of_generation}
        all_new = joined_ids <= assigned_ids and all(
            first_generations[member_id] == generation for member_id in joined_ids
        )
        if all_new and joined_ids == members[generation]:
            yield _phase(generation == 1, of_generation)


def _phase(surely: bool, joins: list[GroupRequest]) -> _Phase:
    handled_us = sorted(join.logged.handled_us for join in joins)
    first = min(joins, key=lambda join: join.logged.handled_us).request
    assert isinstance(first, JoinGroupRequest)
    return _Phase(
        surely=surely,
        first_ms=handled_us[0] / 1000,
        added_ms=[us / 1000 for us in handled_us[1:]],
        ended_ms=min(join.logged.ready_us for join in joins) / 1000,
        rebalance_timeout_ms=first.session_timeout_ms if first.rebalance_timeout_ms < 0 else first.rebalance_timeout_ms,
    )


def _round_delay(delay_ms: float) -> int:
    """Return the roundest number a little below the measured delay, for a broker is late, never early. One that is so
    short is none: the broker, and the way to it, may take as long."""
    at_most_ms = int(delay_ms + CLOCK_MS)
    if at_most_ms * 1000 <= HAND_OVER_US:
        return 0
    rounded = (at_most_ms // step_ms * step_ms for step_ms in ROUND_STEPS_MS)
    return next((bound_ms for bound_ms in rounded if bound_ms and at_most_ms - bound_ms <= LATE_MS), 0)


def _late_ms(phase: _Phase, delay_ms: int) -> int | None:
    """Return how much later than by this delay a join phase ended (`join_timer_expired`); None if the delay does not
    fit."""
    checked_ms, expires_ms = phase.first_ms, phase.first_ms + delay_ms
    step_ms, remaining_ms = delay_ms, max(phase.rebalance_timeout_ms - delay_ms, 0)
    while step_ms and remaining_ms and any(checked_ms < added_ms <= expires_ms for added_ms in phase.added_ms):
        checked_ms = expires_ms
        step_ms, remaining_ms = min(delay_ms, remaining_ms), max(remaining_ms - step_ms, 0)
        expires_ms += step_ms
    late_ms = int(phase.ended_ms - expires_ms)
    return late_ms if -CLOCK_MS <= late_ms <= LATE_MS else None


# --------------------------------------------------------------------------------------------------- bounds and limits


def _infer_session_bounds(requests: Iterable[GroupRequest], inferred: Inferred) -> None:
    accepted: set[int] = set()
    refused: set[int] = set()
    for request in requests:
        if isinstance(request.request, JoinGroupRequest):
            invalid = request.response.get("errorCode") == ErrorCode.INVALID_SESSION_TIMEOUT
            (refused if invalid else accepted).add(request.request.session_timeout_ms)
    if not accepted:
        return
    defaults = GroupConfig()
    least, most = defaults.group_min_session_timeout_ms, defaults.group_max_session_timeout_ms
    low, high = min(accepted), max(accepted)
    if low < least or any(least <= timeout < low for timeout in refused):
        note(inferred, "group_min_session_timeout_ms", low, "the smallest that the broker took")
    if high > most or any(high < timeout <= most for timeout in refused):
        note(inferred, "group_max_session_timeout_ms", high, "the largest that the broker took")


def _infer_max_size(groups: Mapping[str, Sequence[GroupRequest]], inferred: Inferred) -> None:
    sizes: list[int] = []
    for requests in groups.values():
        joins: list[Json] = [request.response for request in requests if request.logged.api == "JoinGroup"]
        if any(answer.get("errorCode") == ErrorCode.GROUP_MAX_SIZE_REACHED for answer in joins):
            sizes += (len(answer.get("members") or ()) for answer in joins)
    size = max(sizes, default=0)
    if size:
        note(inferred, "group_max_size", size, "the largest of the groups that took nobody more")


def _infer_metadata_limit(requests: Iterable[GroupRequest], inferred: Inferred) -> None:
    accepted: list[int] = [0]
    refused: list[int] = []
    for request in requests:
        if isinstance(request.request, OffsetCommitRequest):
            codes = [
                partition.get("errorCode")
                for topic in request.response.get("topics", ())
                for partition in topic["partitions"]
            ]
            lengths = [
                len((partition.committed_metadata or "").encode("utf-16-be")) // 2
                for topic in request.request.topics
                for partition in topic.partitions
            ]
            for code, length in zip(codes, lengths, strict=False):
                if code == ErrorCode.OFFSET_METADATA_TOO_LARGE:
                    refused.append(length)
                elif code == ErrorCode.NONE:
                    accepted.append(length)
    limit, longest = GroupConfig().offset_metadata_max_bytes, max(accepted)
    if longest > limit or any(length <= limit for length in refused):
        note(inferred, "offset_metadata_max_bytes", longest, "the longest that the broker took")


# --------------------------------------------------------------------------------------------- from the offsets log


def _infer_from_records(records: Mapping[str, list[LoggedRecord]], inferred: Inferred) -> None:
    all_records = [record for of_group in records.values() for record in of_group]
    versions = {
        value_version(record.value)
        for record in all_records
        if record.value is not None and isinstance(decode_key(record.key), OffsetCommitKey)
    } & {3, 4}
    if versions:
        reason = f"offset commits are written as version {max(versions)}, as in the offsets log"
        inferred["offset_commit_value_version"] = max(versions), reason
    deaths = [died_ms for of_group in records.values() for died_ms in _deaths(of_group)]
    interval_ms = GroupConfig().offsets_retention_check_interval_ms
    if deaths:
        reason = f"the retention check runs every {interval_ms} ms, at the time of the first group tombstone"
        inferred["offsets_retention_check_phase_ms"] = deaths[0] % interval_ms, reason
    else:
        reason = "no retention check removed a group, so none is replayed"
        inferred["offsets_retention_check_interval_ms"] = NEVER_MS, reason
    _check_partition_count(records, inferred)


def _deaths(of_group: Sequence[LoggedRecord]) -> Iterator[int]:
    """When a group of either kind was removed. One that goes over to the other protocol has the same tombstone, and
    after it, at the same moment, the records of the new kind."""
    written = {record.timestamp_ms: place for place, record in enumerate(of_group) if record.value is not None}
    for place, record in enumerate(of_group):
        is_of_group = INT16.unpack_from(record.key)[0] in (GROUP_METADATA_TYPE, METADATA_TYPE)
        if record.value is None and is_of_group and written.get(record.timestamp_ms, -1) < place:
            yield record.timestamp_ms


def _check_partition_count(records: Mapping[str, list[LoggedRecord]], inferred: Inferred) -> None:
    """Kafka's default, if every group lies where it puts it; any other number would only prove itself."""
    placed = {(group_id, record.partition) for group_id, of_group in records.items() for record in of_group}
    if placed and all(group_partition(group_id, DEFAULT_PARTITIONS) == partition for group_id, partition in placed):
        note(inferred, PARTITIONS, DEFAULT_PARTITIONS, "the default")
