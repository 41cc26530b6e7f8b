"""One rebalance, told in full: what the panel beside the swim-lanes shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from group_coordinator.watching.dashboard.advice import advice
from group_coordinator.watching.history.holding import Holder
from group_coordinator.watching.narrative import seen, words
from group_coordinator.watching.narrative.rebalances import Rebalance, because, headline
from group_coordinator.watching.narrative.steps import Step, WaitedFor, identities_in, moves_of, steps, waited_for
from schemas.history import (
    Cause,
    History,
    ProtocolChosen,
    RequestRefused,
)

STEPS_MAX = 400


def rebalance_key(rebalance: Rebalance) -> str:
    """Return a rebalance's name in addresses."""
    return f"{rebalance.started.epoch}-{rebalance.started.seq}"


def rebalance_page(rebalance: Rebalance) -> dict[str, Any]:
    """Return the document of a rebalance."""
    started, completed = rebalance.started, rebalance.completed
    all_steps = steps(rebalance)
    return {
        "key": rebalance_key(rebalance),
        "generation": rebalance.generation_id,
        "headline": headline(rebalance),
        "because": because(rebalance),
        "reason": started.reason,
        "trigger": started.trigger,
        "seen": seen_in(started.cause),
        "counts": rebalance.counts,
        "begin_known": begin_known(rebalance),
        "started": started.timestamp_ms,
        "ended": None if completed is None else started.timestamp_ms + completed.duration_ms,
        "took": rebalance.duration_ms,
        "join": None if completed is None else completed.join_ms,
        "outcome": None if completed is None else completed.outcome,
        "interrupts": None if started.interrupts is None else f"{started.epoch}-{started.interrupts}",
        "initial": started.initial,
        "waiting": list(started.waiting_for) if rebalance.join_phase is None and rebalance.counts != "epoch" else [],
        "holders": [holder_document(holder) for holder in rebalance.holders],
        "steps": [_step(step) for step in all_steps[:STEPS_MAX]],
        "steps_left_out": max(len(all_steps) - STEPS_MAX, 0),
        "waited": [_waited(member) for member in waited_for(rebalance)],
        "dropped": list(completed.dropped) if completed is not None else [],
        "moves": [
            {"topic": move.topic, "partitions": words.ranges(move.partitions), "count": len(move.partitions),
             "before": move.before, "after": move.after, "target": move.target}
            for move in moves_of(rebalance)
        ],
        "votes": votes(rebalance.steps),
        "members": [
            {"id": member.member_id, "name": words.member(member), "client": member.client_id,
             "host": member.client_host, "instance": member.group_instance_id}
            for member in identities_in(rebalance).values()
        ],
    }


def holder_document(holder: Holder, until_ms: int | None = None) -> dict[str, Any]:
    """Return who must give up what, since when, until when at the latest, and who waits for it."""
    return {
        "id": holder.member_id,
        "what": words.owned(holder.topics),
        "since": holder.told_ms,
        "until": until_ms,
        "waiting": list(holder.waiting),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "t": step.time_ms,
        "text": step.text,
        "cause": step.is_cause,
        "type": _type(step.record),
        "seq": None if step.record is None else step.record.seq,
        "request": None if step.record is None else request(step.record.cause),
        "advice": advice(step.record.rule) if isinstance(step.record, RequestRefused) else "",
    }


def _waited(member: WaitedFor) -> dict[str, Any]:
    return {
        "id": member.member_id,
        "name": words.name(member.member_id),
        "told": member.told_ms,
        "joined": member.joined_ms,
        "fate": member.fate,
        "gone": member.gone_ms,
        "slowest": member.is_slowest,
    }


def request(cause: Cause) -> dict[str, Any]:
    """Return the request (or timer) of a rebalance, as far as the history has it."""
    fields = {
        "kind": cause.kind,
        "api": cause.api,
        "version": cause.api_version,
        "partition": cause.partition,
        "offset": cause.offset,
        "id": cause.request_id,
        "timer": cause.timer,
        "armed": cause.armed_ms,
        "deadline": cause.deadline_ms,
        "member": cause.member_id,
        "instance": cause.group_instance_id,
        "client": cause.client_id,
        "host": cause.client_host,
        "reason": cause.reason,
        "seen": seen_in(cause),
    }
    return {name: value for name, value in fields.items() if value is not None}


def seen_in(cause: Cause) -> dict[str, str] | None:
    """Return the evidence in a watched cluster or in a request log, and its certainty; None where there is neither."""
    if cause.kind != "observed" and not cause.evidence and cause.certainty == "told":
        return None
    certainty = seen.CERTAINTIES[cause.certainty]
    return {"sources": seen.sources(cause), "places": seen.places(cause), "certainty": certainty}


def begin_known(rebalance: Rebalance) -> bool:
    """Return False if the offsets topic alone tells of a classic group: it has only the end of each rebalance."""
    return rebalance.started.cause.certainty != "not_known" or rebalance.counts == "epoch"


def votes(records: Iterable[History]) -> dict[str, Any] | None:
    """Return how the assignor was chosen; None if it was not."""
    chosen = [record for record in records if isinstance(record, ProtocolChosen)]
    if not chosen:
        return None
    last = chosen[-1]
    return {
        "t": last.timestamp_ms,
        "protocol": last.protocol_name,
        "tie": last.tie,
        "votes": [{"protocol": name, "members": list(voters)} for name, voters in last.votes.items()],
    }


def _type(record: History | None) -> str | None:
    return None if record is None else str(type(record).__struct_config__.tag)
