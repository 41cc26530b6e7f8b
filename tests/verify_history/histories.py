"""Histories recorded from another coordinator under a virtual clock: replayed step by step and compared.

A file holds one history a line: settings, steps (requests and changes of the cluster's topics at exact milliseconds),
every answer, every record of the offsets log, and the state of each group after each step as a JSON merge patch (RFC
7386). A history whose steps have no `groups` tells no states, and none are compared. A member id that the other
coordinator made for a request is `m1`, `m2`, ..., or what the step has as `new_member_id`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct, field

from coordinator_state import (
    Answer,
    Coordinator,
    GroupConfig,
    Output,
    RequestEvent,
    TopicsDeletedEvent,
    TransactionEndedEvent,
)
from coordinator_state.kafka_versions import OF_OLD_LOGS
from coordinator_state.outputs import MetadataEvent
from group_coordinator.proving.recordings.group_requests import with_topic_ids
from group_coordinator.proving.recordings.kafka_json import (
    request_from_kafka,
    response_to_kafka,
)
from group_coordinator.watching.broker_logs.text_files import lines_of
from schemas.bounded_lines import too_long
from schemas.events import RequestEnvelope, TransactionEnded
from schemas.messages import ListGroupsResponse, OffsetCommitRequest, TxnOffsetCommitRequest
from schemas.several_groups import joined
from tests.proving.recordings.kafka_answers import list_groups_from_kafka
from tests.verify_history.cluster import HistoryCluster, group_configuration
from tests.verify_history.recorded_states import comparable, group_state
from tests.verify_history.records import member_number, recorded_records, written_records
from tests.verify_history.topic_checks import TopicChecks
from tests.verify_history.transactional_records import (
    OFFSETS_TOPIC,
    RecordedTransactions,
    markers_answer,
    recorded_pending,
    told_pending,
)

Json = dict[str, Any]


class Difference(Struct, frozen=True, kw_only=True):
    """One step at which the two parted: what was recorded, and what came here."""

    history: str
    step: int
    what: str
    recorded: Any
    actual: Any

    def lines(self) -> Iterator[str]:
        """Yield the place and both sides, for people."""
        yield f"{self.history} step {self.step}: {self.what}"
        yield f"  recorded: {json.dumps(self.recorded, sort_keys=True)}"
        yield f"  here:     {json.dumps(self.actual, sort_keys=True)}"


class HistoryReport(Struct, kw_only=True):
    """The findings of a verification."""

    histories: int = 0
    steps: int = 0
    answers: int = 0
    records: int = 0
    differences: list[Difference] = field(default_factory=list)

    def summary(self) -> str:
        return f"{self.histories} histories, {self.steps} steps, {len(self.differences)} differences"


def verify_histories(
    paths: Iterable[Path],
    progress: Callable[[HistoryReport], None] | None = None,
    kafka_version: str = OF_OLD_LOGS,
) -> HistoryReport:
    """Replay every history of the files (plain or gzip) and compare, by the rules of a Kafka version where the history
    names none. Raises `ValueError` for a file of another form."""
    report = HistoryReport()
    for path in paths:
        for number, line, length in lines_of(path):
            if not line.strip():
                continue
            try:
                if length:
                    raise ValueError(too_long(length))
                history = json.loads(line)
                history["config"] = {"kafka.rules": kafka_version, **history["config"]}
                replay = _Replay(history, report)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: not a recorded history ({error!r})") from error
            replay.run()
            report.histories += 1
            if progress is not None:
                progress(report)
    return report


def history_config(settings: Json) -> GroupConfig:
    """Return the settings of a history: broker settings by their Kafka names, and `start_ms`, when the coordinator
    started. One that names no rules was recorded by those of old logs."""
    settings = {"kafka.rules": OF_OLD_LOGS, **settings}
    names = {setting.name: setting.name.replace("_", ".") for setting in fields(GroupConfig)}
    config = GroupConfig(**{own_name: settings[name] for own_name, name in names.items() if name in settings})
    phase_ms = settings["start_ms"] % config.offsets_retention_check_interval_ms
    return dataclasses.replace(config, offsets_retention_check_phase_ms=phase_ms)


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


class _Replay:
    """One history against one coordinator."""

    def __init__(self, history: Json, report: HistoryReport) -> None:
        self.name: str = history["name"]
        self.steps: list[Json] = history["steps"]
        self.report = report
        self.coordinator = Coordinator(history_config(history["config"]))
        self.tells_states = any("groups" in step for step in self.steps)
        self.recorded_groups: Json = {}
        self.members_made = 0
        self.cluster = HistoryCluster(history["config"])
        self.checks: TopicChecks | None = None
        """None: every topic exists."""
        self.transactions = RecordedTransactions()
        self.never_answered = set(history.get("never_answered", ()))
        for step in self.steps:
            self.never_answered |= set(step.get("never_answered", ()))

    def run(self) -> None:
        for step in self.steps:
            self.recorded_groups = merge_patch(self.recorded_groups, step.get("groups", {}))
            outputs = self._advance(step, step["at_ms"])
            answers: list[Json] = []
            if "cluster" in step:
                outputs += self._change_cluster(step)
            if "group_config" in step:
                outputs += self._configure(step)
            if "api" in step:
                self._compare(step, "state_before", step.get("state_before"), self._state_before(step))
                outputs += self._handle(step, answers)
                if self.checks is not None:
                    self.cluster.note_resolutions(self.coordinator.groups, step["at_ms"])
                outputs += self._advance(step, step["at_ms"])
            answers += self._answers(outputs)
            recorded = [answer for answer in step.get("answers", ()) if answer["id"] not in self.never_answered]
            self._compare(step, "answers", _sorted_answers(recorded), _sorted_answers(answers))
            kafkas = step.get("records", [])
            counting = self.transactions.committed(kafkas)
            self._compare(step, "records", recorded_records(counting), written_records(outputs))
            self._compare(step, "pending", recorded_pending(kafkas), told_pending(outputs, self._id_of_pending))
            if self.tells_states:
                self._compare(step, "groups", comparable(self.recorded_groups), comparable(self._states()))
            self.report.steps += 1
            self.report.answers += len(recorded)
            self.report.records += len(kafkas)

    def _id_of_pending(self, topic: str) -> str | None:
        """The id with which Kafka writes a commit in a transaction. History does not tell it."""
        has_ids = self.coordinator.config.kafka_version.transactional_commits_have_topic_ids
        return self.cluster.topic_ids.get(topic) if has_ids else None

    def _advance(self, step: Json, to_ms: int) -> list[Output]:
        """Fire the timers, and let the background executor do its work, in the order of time."""
        outputs: list[Output] = []
        resolutions = self.cluster.resolutions
        while resolutions and resolutions[0].due_ms <= to_ms:
            resolution = resolutions.pop(0)
            due_ms = resolution.due_ms
            outputs += self.coordinator.advance_to(due_ms)
            if resolution.group_id in self.coordinator.groups:
                event = MetadataEvent(step["id"], due_ms, due_ms, self.cluster.resolve(resolution))
                outputs += self.coordinator.handle(resolution.group_id, event)
        return outputs + self.coordinator.advance_to(to_ms)

    def _change_cluster(self, step: Json) -> list[Output]:
        """From now on these topics exist and no others. Each group is told what is gone, then what there is."""
        at_ms = step["at_ms"]
        deleted_topics = self.cluster.change(step["cluster"])
        self.checks = self.cluster.checks()
        outputs: list[Output] = []
        for group_id in list(self.coordinator.groups):
            if deleted_topics:
                event = TopicsDeletedEvent(step["id"], at_ms, at_ms, deleted_topics)
                outputs += self.coordinator.handle(group_id, event)
            told = MetadataEvent(step["id"], at_ms, at_ms, self.cluster.metadata)
            outputs += self.coordinator.handle(group_id, told)
        return outputs

    def _configure(self, step: Json) -> list[Output]:
        """From now on the group has these settings of its own and no others."""
        at_ms, change = step["at_ms"], step["group_config"]
        event = MetadataEvent(step["id"], at_ms, at_ms, group_configuration(change["config"]))
        return self.coordinator.handle(change["group"], event)

    def _states(self) -> Json:
        states = {group_id: group_state(group) for group_id, group in self.coordinator.groups.items()}
        return {group_id: state for group_id, state in states.items() if state is not None}

    def _compare(self, step: Json, subject: str, recorded: Any, actual: Any) -> None:
        if recorded != actual:
            self.report.differences.append(
                Difference(history=self.name, step=step["id"], what=subject, recorded=recorded, actual=actual)
            )

    def _state_before(self, step: Json) -> str | None:
        if "state_before" not in step:
            return None
        group = self.coordinator.groups.get(_group_named(step["request"]))
        state = None if group is None else group_state(group)
        return "none" if state is None else str(state["state"])

    def _handle(self, step: Json, answers: list[Json]) -> list[Output]:
        """Send the step's request. An answer that is put together from several groups' goes to `answers`."""
        api, version, at_ms = step["api"], step["version"], step["at_ms"]
        if api == "ListGroups":
            answers.append({"id": step["id"], "at_ms": at_ms, "response": self._list_groups(version, step["request"])})
            return []
        if api == "WriteTxnMarkers":
            answers.append({"id": step["id"], "at_ms": at_ms, "response": markers_answer(step["request"])})
            return [output for marker in step["request"]["markers"] for output in self._end_transaction(step, marker)]
        if self.checks is None:
            return self._ask(step, step["request"], answers)
        request, refused = self.checks.split(api, version, step["request"])
        asked: list[Json] = []
        outputs = [] if request is None else self._ask(step, request, asked)
        own, outputs = _own_answer(step, outputs)
        answer = asked[0]["response"] if asked else own
        if answer is not None or request is None:
            finished = self.checks.finish(api, version, step["request"], answer, refused)
            answers.append({"id": step["id"], "at_ms": at_ms, "response": finished})
        return outputs

    def _end_transaction(self, step: Json, marker: Json) -> list[Output]:
        """Tell each group that has something pending of the producer."""
        at_ms, outputs = step["at_ms"], []
        ended = TransactionEnded(
            producer_id=marker["producerId"],
            producer_epoch=marker["producerEpoch"],
            committed=marker["transactionResult"],
        )
        is_told = any(topic["name"] == OFFSETS_TOPIC for topic in marker["topics"])
        for group_id in list(self.coordinator.groups) if is_told else ():
            outputs += self.coordinator.handle(group_id, TransactionEndedEvent(step["id"], at_ms, at_ms, ended))
        return outputs

    def _ask(self, step: Json, body: Json, answers: list[Json]) -> list[Output]:
        """Ask the coordinator."""
        api, version, at_ms = step["api"], step["version"], step["at_ms"]
        outputs: list[Output] = []
        requests = request_from_kafka(api, version, body, self.cluster.topic_names)
        for group_id, request in requests:
            if isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest):
                request = with_topic_ids(request, self.cluster.topic_ids.get)
            envelope = RequestEnvelope(
                request_id=str(step["id"]),
                reply_partition=0,
                api=api,
                api_version=version,
                client_id=step["client_id"],
                new_member_id=step.get("new_member_id", f"m{self.members_made + 1}"),
                topic_metadata=self.cluster.metadata,
                body=Raw(),
            )
            event = RequestEvent(step["id"], at_ms, at_ms, envelope, request)
            answered = self.coordinator.handle(group_id, event)
            outputs += answered
            self._count_new_member(group_id, answered)
        own_answers = [
            output for output in outputs if isinstance(output, Answer) and output.request_id == str(step["id"])
        ]
        if len(requests) != 1 and len(own_answers) == len(requests):
            response = response_to_kafka(api, version, joined(api, [output.response for output in own_answers]))
            answers.append({"id": step["id"], "at_ms": at_ms, "response": response})
            return [output for output in outputs if output not in own_answers]
        return outputs

    def _count_new_member(self, group_id: str, outputs: list[Output]) -> None:
        """Note that the step's member id is used: the group has it, or a client that is to come back with it."""
        group = self.coordinator.groups.get(group_id)
        member_id = f"m{self.members_made + 1}"
        state = None if group is None else group_state(group)
        answers = [output.response for output in outputs if type(output) is Answer]
        is_told = any(getattr(answer, "member_id", "") == member_id for answer in answers)
        is_kept = state is not None and (member_id in state["members"] or member_id in state.get("pending_join", ()))
        if is_told or is_kept:
            self.members_made += 1

    def _list_groups(self, version: int, body: Json) -> Json:
        request = list_groups_from_kafka(version, body)
        listed = self.coordinator.list_groups(request.states_filter, request.types_filter)
        return response_to_kafka("ListGroups", version, ListGroupsResponse(groups=tuple(listed)))

    def _answers(self, outputs: list[Output]) -> list[Json]:
        return [
            {
                "id": int(output.request_id),
                "at_ms": output.time_ms,
                "response": response_to_kafka(output.api, output.api_version, output.response),
            }
            for output in outputs
            if isinstance(output, Answer) and int(output.request_id) not in self.never_answered
        ]


def _sorted_answers(answers: list[Json]) -> list[Json]:
    """Order inside one millisecond, and the order of lists that Kafka makes from hash maps, is no part of the
    comparison."""
    for answer in answers:
        response = answer["response"]
        response.pop("errorMessage", None)
        _sort_assignment(response.get("assignment"))
        if "members" in response and "generationId" in response:
            response["members"].sort(key=lambda member: member_number(member["memberId"]))
        for group in response.get("groups", ()):
            group.pop("errorMessage", None)
            if "groupState" in group and "members" in group:
                group["members"].sort(key=lambda member: member_number(member["memberId"]))
                for member in group["members"]:
                    _sort_assignment(member.get("assignment"))
                    _sort_assignment(member.get("targetAssignment"))
                    member.get("subscribedTopicNames", []).sort()
            group.get("topics", []).sort(key=lambda topic: topic.get("name") or topic["topicId"])
        if any("committedOffset" in part for topic in response.get("topics", ()) for part in topic["partitions"]):
            response["topics"].sort(key=lambda topic: topic["name"])
        for name in ("groups", "results"):
            if name in response:
                response[name].sort(key=lambda group: group["groupId"])
    return sorted(answers, key=lambda answer: (answer["at_ms"], answer["id"]))


def _sort_assignment(assignment: Json | None) -> None:
    if isinstance(assignment, dict):
        for topic in assignment["topicPartitions"]:
            topic["partitions"].sort()
        assignment["topicPartitions"].sort(key=lambda topic: topic["topicId"])


def _group_named(request: Json) -> str:
    """Return the one group that a request names."""
    if "groupId" in request:
        return str(request["groupId"])
    (group,) = request.get("groups") or request.get("groupIds") or request["groupsNames"]
    return str(group["groupId"] if isinstance(group, dict) else group)


def _own_answer(step: Json, outputs: list[Output]) -> tuple[Json | None, list[Output]]:
    """Take the answer to the step's own request out of outputs."""
    own = [output for output in outputs if isinstance(output, Answer) and output.request_id == str(step["id"])]
    if not own:
        return None, outputs
    (answer,) = own
    response = response_to_kafka(answer.api, answer.api_version, answer.response)
    return response, [output for output in outputs if output is not answer]
