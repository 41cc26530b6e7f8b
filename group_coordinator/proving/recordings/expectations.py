"""The broker's answers and actions about one group are compared with those of a replay."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

from msgspec import Struct, field

from coordinator_state import Answer, LogRecord
from group_coordinator.proving.recordings.commits_in_sight import DESCRIBE, CommitsInSight, tells_no_group
from group_coordinator.proving.recordings.consumer_records import describe_record, same_record
from group_coordinator.proving.recordings.coordinator_log import LogEntry
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.kafka_json import response_to_kafka
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.proving.recordings.old_brokers import comparable_of_old_broker, is_of_old_broker, sorted_topics
from group_coordinator.proving.recordings.session_ends import SessionEnds
from schemas.error_codes import ErrorCode
from schemas.events import TopicsDeleted, TransactionEnded
from schemas.group_metadata_events import GroupConfiguration, TopicMetadata
from schemas.messages import FindCoordinatorResponse, LeaveGroupRequest, OffsetFetchRequest

Json = dict[str, Any]

MAY_BE_PARKED = frozenset({"JoinGroup", "SyncGroup"})

NOTHING = "nothing"
"""What a side has where the other has a record or an entry more."""
LATE_MS = 250
"""How much later than here a broker may fire a timer: it has its delays, and stands still while garbage is
collected."""
LATE_TIMER_MS = 500
"""How much later the answer may come to which a timer leads: the broker appends a record in between."""
PUNCTUAL_MS = 20
"""What is later than this is counted, and told."""
LONG_STALL_MS = 2_000
"""How late a line may be written when the broker's process stands still."""
STORED_MS = 5_000 + LATE_MS
"""How long replicas may take to have a group's record (`offsets.commit.timeout.ms`): the broker answers after that."""
CLOCK_MS = 2
"""The log's times are rounded to milliseconds, and a moment has passed before a line is written."""


class Step(Struct, kw_only=True):
    """One request in the replay, with the time at which it takes effect: somewhere between arrival and answer."""

    index: int
    request: GroupRequest
    effect_us: int
    earliest_us: int
    latest_us: int
    before_timers: bool = False
    """It is handled before the timers that were due in the last milliseconds: the broker fires them a little late."""
    inferred: str | None = None
    """Why a request is here that is not in the log; None: it is in the log."""

    @property
    def gone_member_id(self) -> str | None:
        """The member of which it is inferred that it is gone; None of other steps. That it is a LeaveGroup is not
        known: an expiry has the same effect."""
        request = self.request.request
        if self.inferred is None or not isinstance(request, LeaveGroupRequest):
            return None
        return request.members[0].member_id

    @property
    def slack_ms(self) -> int:
        """The most by which a time that this request sets may differ from the broker's."""
        return (self.latest_us - self.request.logged.arrival_us) // 1000 + CLOCK_MS


class Disagreement(Struct, frozen=True, kw_only=True):
    """One thing that came out otherwise than the broker had it."""

    kind: str
    """`answer`, `time` (of an answer), `record` or `log`."""
    about: str
    """Names it: the request, the number of the record or of the log entry."""
    at_us: int
    where: str
    broker: str
    here: str
    step: int
    """Index of the request that led to it; of an answer: its request."""
    broker_ms: int | None = None
    """The broker's time of a record or log entry that is the same but for the time."""
    late_ms: int = 0
    """By how much the broker answered later than here, if that is all."""


class Generation(Struct):
    """One generation, as the answers to JoinGroup show it."""

    ready_us: int
    """When the first of them was ready."""
    number: int
    leader: str
    members: set[str] = field(default_factory=set)


class Load(Struct, frozen=True, kw_only=True):
    """A broker loads the group: another one than before, or the same one anew."""

    from_us: int
    """The old coordinator did nothing after this."""
    loaded_us: int
    broker_id: int | None = None
    """None: the answers alone show it."""
    not_before_us: int = 0
    not_after_us: int = 0
    """Between these the answers leave open when it was; both 0: `loaded_us` is exact."""
    is_start: bool = False
    """The broker was started just before."""
    undone_from_us: int | None = None
    """What the old coordinator did since then was never stored; None: all was."""


FactValue = TopicMetadata | TopicsDeleted | GroupConfiguration | TransactionEnded


class Fact(Struct, frozen=True):
    """The group is told something that is no request."""

    at_us: int
    earliest_us: int
    """It may have had its effect since then."""
    value: FactValue
    latest_us: int = 0
    """It must have had its effect by then; 0: `at_us` is exact."""


class Resolution(Struct, frozen=True):
    """A regular expression was resolved, as the offsets log tells it."""

    began_ms: int
    regex: str
    topics: tuple[str, ...]
    written_ms: int


class Covered(Struct, frozen=True, kw_only=True):
    """Of which time sources beside request logs tell: a log is rotated, and a dump is taken before the end."""

    records_since_ms: int = 0
    records_until_ms: int = 2**62
    entries_since_ms: int = 0
    entries_until_ms: int = 2**62

    def has_record(self, time_ms: int) -> bool:
        """Return whether a record of that time would be there for certain."""
        return self.records_since_ms < time_ms < self.records_until_ms - LATE_MS

    def has_entry(self, time_ms: int) -> bool:
        """Return whether an entry of that time would be there for certain."""
        return self.entries_since_ms + LATE_MS < time_ms < self.entries_until_ms - LATE_MS


class Expected(Struct, kw_only=True):
    """The broker's side of one group, as far as it is known."""

    records: list[LoggedRecord] | None = None
    """None: no file was given, or it says nothing of this group."""
    entries: list[LogEntry] | None = None
    covered: Covered = Covered()
    generations: list[Generation] = field(default_factory=list)
    """In the order of time."""
    loads: list[Load] = field(default_factory=list)
    """In the order of time."""
    facts: list[Fact] = field(default_factory=list)
    """In the order of time."""
    resolutions: list[Resolution] = field(default_factory=list)
    """In the order of time."""
    assigned_ms: frozenset[int] = frozenset()
    """When targets were assigned, as far as records tell it."""
    regexes_resolved_us: dict[int, int] = field(default_factory=dict)
    """When a group began to have expressions resolved -> when the result came, where that was not at once."""
    instances: dict[str, str] = field(default_factory=dict)
    """Member id -> group instance id, of static members."""
    sessions: SessionEnds = field(default_factory=SessionEnds)
    """When sessions really ended."""
    commits: CommitsInSight = field(default_factory=CommitsInSight)
    """Which of them a fetch may be answered with."""
    is_session_timeout_known: bool = True
    """Of native members of consumer groups; else they are gone when it may have ended, not known why."""

    def generation(self, number: int, now_us: int) -> Generation | None:
        """Return the next generation of that number: a group may be removed, and count from 1 again."""
        first = bisect_left(self.generations, now_us - LATE_MS * 1000, key=lambda generation: generation.ready_us)
        return next(
            (generation for generation in islice(self.generations, first, None) if generation.number == number), None
        )


def answer_disagreement(
    step: Step, answer: Answer, at_us: int, commits: CommitsInSight, *, by_timer: bool, may_be_gone: bool
) -> Disagreement | None:
    """Compare an answer with the broker's: what it says, and when a request that may be parked was answered.

    `commits`: of the group. `by_timer`: a timer leads to the answer. What a request leads to may wait for a broker that
    does not get on. `may_be_gone`: a broker that loads the group may find nothing of it.
    """
    request = step.request
    if step.inferred is not None or request.write_timed_out:
        return None
    logged = request.logged
    broker, here = request.response, response_to_kafka(answer.api, answer.api_version, answer.response)
    broker_says, here_says = comparable(request, broker), comparable(request, here)
    where = f"{logged.api} v{logged.api_version} of {logged.client_id}, line {logged.line_number}"
    about = f"answer:{request.request_id}"
    if isinstance(answer.response, FindCoordinatorResponse):
        # Nodes and addresses are the broker's own; which partition it is, is compared elsewhere.
        broker_says, here_says = {"errorCode": _first_code(broker)}, {"errorCode": _first_code(here)}
    if commits.is_refused_meanwhile(request):
        return None
    is_gone = may_be_gone and logged.api in DESCRIBE and tells_no_group(broker_says)
    if broker_says != here_says and not (is_gone or commits.explains(request, broker_says, here_says)):
        return Disagreement(
            kind="answer",
            about=about,
            at_us=at_us,
            where=where,
            broker=_text(broker_says),
            here=_text(here_says),
            step=step.index,
        )
    late_ms = logged.ready_us // 1000 - answer.time_ms
    at_most_ms = LATE_TIMER_MS if by_timer else LONG_STALL_MS
    if logged.api == "SyncGroup":
        at_most_ms = STORED_MS
    if logged.api in MAY_BE_PARKED and not -CLOCK_MS <= late_ms <= at_most_ms:
        return Disagreement(
            kind="time",
            about=about,
            at_us=at_us,
            where=where,
            broker=f"answered at {logged.ready_us // 1000}",
            here=f"answered at {answer.time_ms}",
            step=step.index,
            late_ms=late_ms,
        )
    return None


def not_answered(step: Step, at_us: int) -> Disagreement:
    """Tell that the broker had answered long before, and here nothing came."""
    logged = step.request.logged
    return Disagreement(
        kind="answer",
        about=f"answer:{step.request.request_id}",
        at_us=at_us,
        where=f"{logged.api} v{logged.api_version} of {logged.client_id}, line {logged.line_number}",
        broker=f"answered at {logged.ready_us // 1000}: {logged.response.decode(errors='replace')}",
        here="not answered by then",
        step=step.index,
    )


def answered_stable(step: Step) -> bool:
    """Return whether the broker answered a fetch of stable offsets with offsets: no transaction over them was open."""
    request = step.request.request
    is_stable = isinstance(request, OffsetFetchRequest) and request.require_stable
    return is_stable and f'"errorCode":{ErrorCode.UNSTABLE_OFFSET_COMMIT}' not in _text(step.request.response)


def comparable(request: GroupRequest, response: Json) -> Json:
    """Return an answer without what Kafka leaves open: the order of members, prose, authorized operations."""
    api = request.logged.api
    if is_of_old_broker(request.logged.connection):
        response = comparable_of_old_broker(response)
    if api == "JoinGroup":
        return {**response, "members": _by("memberId", response.get("members"))}
    if api == "ConsumerGroupHeartbeat":
        told = {name: value for name, value in response.items() if name != "errorMessage"}
        return {**told, "assignment": _sorted_assignment(response.get("assignment"))}
    if api in DESCRIBE:
        return {**response, "groups": [_comparable_group(group) for group in response["groups"]]}
    if isinstance(request.request, OffsetFetchRequest) and request.request.groups[0].topics is None:
        if "groups" in response:
            return {**response, "groups": [_sorted_topics(group) for group in response["groups"]]}
        return _sorted_topics(response)
    return response


def _comparable_group(group: Json) -> Json:
    compared_fields = {
        name: value for name, value in group.items() if name not in ("errorMessage", "authorizedOperations")
    }
    members = [
        member | {name: sort(member[name]) for name, sort in _SETS_OF_MEMBER.items() if name in member}
        for member in group.get("members") or ()
    ]
    return {**compared_fields, "members": _by("memberId", members)}


def _sorted_assignment(assignment: Json | None) -> Json | None:
    """Topics by id, partitions in ascending order: Kafka has them in hash maps."""
    if assignment is None:
        return None
    topics = [{**topic, "partitions": sorted(topic["partitions"])} for topic in assignment["topicPartitions"]]
    return {**assignment, "topicPartitions": _by("topicId", topics)}


def _sorted_topics(group: Json) -> Json:
    return {**group, "topics": sorted_topics(group["topics"])}


_SETS_OF_MEMBER: dict[str, Callable[[Any], Any]] = {
    "assignment": _sorted_assignment,
    "targetAssignment": _sorted_assignment,
    "subscribedTopicNames": sorted,
}
"""What ConsumerGroupDescribe tells of a member from Kafka's hash maps and sets."""


def _by(name: str, entries: list[Json] | None) -> list[Json]:
    return sorted(entries or (), key=lambda entry: cast(str, entry[name]))


def record_disagreement(
    record: LogRecord, broker_record: LoggedRecord | None, number: int, slack_ms: int, at_us: int
) -> Disagreement | None:
    """Compare a record of the offsets log with the broker's next one."""
    if broker_record is not None and same_record(record.key, record.value, broker_record, slack_ms):
        return None
    only_late = broker_record is not None and same_record(record.key, record.value, broker_record, LONG_STALL_MS)
    return Disagreement(
        kind="record",
        about=f"record:{number}",
        at_us=at_us,
        where=f"record {broker_record.offset} of partition {broker_record.partition}"
        if broker_record is not None
        else "after the last record",
        broker=describe_record(broker_record.key, broker_record.value) if broker_record is not None else NOTHING,
        here=describe_record(record.key, record.value),
        step=record.caused_by_offset,
        broker_ms=broker_record.timestamp_ms if broker_record is not None and only_late else None,
    )


def entry_disagreement(
    entry: LogEntry, broker_entry: LogEntry | None, number: int, slack_ms: int, step: int, at_us: int
) -> Disagreement | None:
    """Compare one thing that happened with the coordinator log's next entry."""
    is_same = broker_entry is not None and entry.matches(broker_entry)
    if broker_entry is not None and is_same and -slack_ms <= broker_entry.time_ms - entry.time_ms <= slack_ms + LATE_MS:
        return None
    return Disagreement(
        kind="log",
        about=f"log:{number}",
        at_us=at_us,
        where=f"entry {number + 1} of the coordinator log",
        broker=str(broker_entry) if broker_entry is not None else NOTHING,
        here=str(entry),
        step=step,
        broker_ms=broker_entry.time_ms if broker_entry is not None and is_same else None,
    )


def missing_entry(entry: LogEntry, number: int, at_us: int, step: int) -> Disagreement:
    """Tell that nothing came out here which an entry of the coordinator log tells of."""
    where = f"entry {number + 1} of the coordinator log"
    return Disagreement(
        kind="log", about=f"log:{number}", at_us=at_us, where=where, broker=str(entry), here=NOTHING, step=step
    )


def _first_code(response: Json) -> int:
    coordinators = response.get("coordinators") or [response]
    return int(coordinators[0].get("errorCode", 0))


def _text(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))
