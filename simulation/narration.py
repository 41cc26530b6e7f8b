"""A run in plain words: what its processes did, what reached the log, what the groups answered, what was violated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from coordinator_state import Answer, Output
from schemas.error_codes import ErrorCode
from schemas.history import (
    GroupCreated,
    GroupDead,
    GroupEmpty,
    GroupStable,
    JoinPhaseCompleted,
    MemberDropped,
    MemberExpired,
    MemberFenced,
    MemberReplaced,
    OffsetsDeleted,
    OffsetsExpired,
    PendingMemberRemoved,
    RebalanceStarted,
)
from schemas.messages import JoinGroupResponse
from simulation.checker import Step
from simulation.run import Outcome
from simulation.scenario import Fault, Scenario
from simulation.world import START_MS, TraceLine


def narrate(scenario: Scenario, outcome: Outcome) -> Iterator[str]:
    """Describe a run line by line: first the violations, then what happened, by time."""
    yield from (f"VIOLATED  {violation}" for violation in outcome.violations)
    yield ""
    yield from cast_of(scenario)
    yield ""
    lines: list[tuple[int, int, str]] = []
    for line in outcome.trace:
        lines.append((line.time_ms, 0, _line(line)))
    for timestamp_ms, step in outcome.result.steps:
        lines += [(timestamp_ms, 1, text) for text in _step_lines(timestamp_ms, step)]
    for violation in outcome.violations:
        lines.append((violation.timestamp_ms, 2, _line(TraceLine(violation.timestamp_ms, ">>>", str(violation)))))
    lines.sort(key=lambda line: line[:2])
    yield from (text for _, _, text in lines)


def cast_of(scenario: Scenario) -> Iterator[str]:
    """Yields the members and the faults."""
    for plan in scenario.members:
        kind = "a dynamic member" if plan.instance_id is None else f"instance {plan.instance_id}"
        yield (
            f"{plan.name} is {kind} of {plan.group_id}: {'/'.join(plan.assignors)}, session {plan.session_timeout_ms} "
            f"ms, polls every {plan.poll_every_ms} ms, reads {', '.join(plan.topics)}"
        )
    for producer in scenario.producers:
        yield f"{producer.name} commits offsets of {producer.group_id} in transactions"
    for fault in scenario.faults:
        yield f"fault at {fault.at_ms / 1000:.3f} s: {_fault(fault)}"


def _fault(fault: Fault) -> str:
    fields = {name: getattr(fault, name) for name in fault.__struct_fields__ if name != "at_ms"}
    return f"{type(fault).__name__}({', '.join(f'{name}={value}' for name, value in fields.items() if value)})"


def _line(line: TraceLine) -> str:
    return f"{(line.time_ms - START_MS) / 1000:9.3f} s  {line.who:<14} {line.text}"


def _step_lines(timestamp_ms: int, step: Step) -> Iterator[str]:
    if step.event is not None:
        envelope, request = step.event.envelope, step.event.request
        parts = [f"{envelope.api} (offset {step.event.offset}"]
        generation = getattr(request, "generation_id", getattr(request, "generation_id_or_member_epoch", None))
        if generation is not None:
            parts.append(f"generation {generation}")
        if getattr(request, "member_id", ""):
            parts.append(f"as {_tail(request.member_id)}")  # type: ignore[union-attr]
        yield _line(
            TraceLine(timestamp_ms, f"{step.group_id} <-", f"{envelope.client_id or 'somebody'}: {', '.join(parts)})")
        )
    if step.renewed:
        yield _line(
            TraceLine(timestamp_ms, f"{step.group_id} <-", "the ticker: the clock stood still, the sessions begin anew")
        )
    if step.gone:
        topics = ", ".join(f"{topic.name} ({topic.topic_id or 'no id'})" for topic in step.gone)
        yield _line(TraceLine(timestamp_ms, f"{step.group_id} <-", f"the watcher: topics are gone: {topics}"))
    for output in step.outputs:
        text = _output(step, output)
        if text:
            yield _line(TraceLine(timestamp_ms, f"{step.group_id} ->", text))


def _output(step: Step, output: Output) -> str:
    if isinstance(output, Answer):
        is_own = step.event is not None and output.answers_offset == step.event.offset
        return f"{output.api} of offset {output.answers_offset} is answered {_response(output.response)}" + (
            "" if is_own else " (was parked)"
        )
    return _history(output)


def _response(response: Any) -> str:
    code = getattr(response, "error_code", None)
    if code is None:
        return ", ".join(_codes(response)) or "NONE"
    if isinstance(response, JoinGroupResponse) and code is ErrorCode.NONE:
        role = "the leader" if response.leader == response.member_id else "a follower"
        return f"NONE: generation {response.generation_id}, {role}"
    return str(ErrorCode(code).name)


def _codes(response: Any) -> Iterator[str]:
    for topic in getattr(response, "topics", ()):
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.NONE:
                yield f"{topic.name}-{partition.partition_index} {partition.error_code.name}"
    for result in (*getattr(response, "results", ()), *getattr(response, "groups", ())):
        if result.error_code is not ErrorCode.NONE:
            yield result.error_code.name


_WORDS: dict[type[Any], Callable[[Any], str]] = {
    GroupCreated: lambda record: "the group begins",
    RebalanceStarted: lambda record: f"a rebalance starts: {record.reason}; waits for {_tails(record.waiting_for)}",
    JoinPhaseCompleted: lambda record: f"generation {record.generation_id} with {_tails(record.members)}",
    GroupStable: lambda record: f"is Stable, led by {_tail(record.leader_id)}",
    GroupEmpty: lambda record: "is Empty",
    GroupDead: lambda record: f"is gone ({record.reason})",
    MemberExpired: lambda record: f"{_tail(record.member.member_id)} of {record.member.client_id} is expired",
    MemberDropped: lambda record: (
        f"{_tail(record.member.member_id)} of {record.member.client_id} is dropped: {record.reason}"
    ),
    MemberReplaced: lambda record: f"{_tail(record.old_member_id)} comes back as {_tail(record.member.member_id)}",
    MemberFenced: lambda record: f"{_tail(record.member_id)} is fenced",
    PendingMemberRemoved: lambda record: f"the unused id {_tail(record.member_id)} is forgotten: {record.reason}",
    OffsetsExpired: lambda record: f"{len(record.offsets)} offsets expire",
    OffsetsDeleted: lambda record: f"{len(record.offsets)} offsets are deleted",
}


def _history(output: Any) -> str:
    describe = _WORDS.get(type(output))
    return "" if describe is None else describe(output)


def _tails(member_ids: tuple[str, ...]) -> str:
    return ", ".join(map(_tail, member_ids)) or "nobody"


def _tail(member_id: str) -> str:
    """A member id, short enough to read."""
    return member_id if len(member_id) <= 16 else f"{member_id[:-36]}{member_id[-4:]}"
