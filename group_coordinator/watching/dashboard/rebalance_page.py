"""One rebalance, as a line of a list and in full. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sized

from group_coordinator.watching.dashboard import api_types as api
from group_coordinator.watching.dashboard.advice import advice
from group_coordinator.watching.history import holding
from group_coordinator.watching.narrative import seen, words
from group_coordinator.watching.narrative.rebalances import Rebalance, because, headline
from group_coordinator.watching.narrative.steps import Step, identities_in, moves_of, steps, waited_for
from group_coordinator.watching.tables import rows
from schemas.history import Cause, History, ProtocolChosen, RequestRefused

STEPS_MAX = 400


def rebalance(told: Rebalance) -> api.Rebalance:
    """Return a rebalance of the list."""
    started, completed = told.started, told.completed
    return api.Rebalance(
        key=f"{started.epoch}-{started.seq}",
        started_ms=started.timestamp_ms,
        ended_ms=None if completed is None else started.timestamp_ms + completed.duration_ms,
        duration_ms=told.duration_ms,
        generation=told.generation_id,
        counts="epoch" if told.counts == "epoch" else "generation",
        outcome=None if completed is None else completed.outcome,
        trigger=started.trigger,
        cause=because(told),
        initial=started.initial,
        is_begin_known=started.cause.certainty != "not_known" or told.counts == "epoch",
        has_steps=True,
        waited_for=len(_awaited(told)),
        dropped=() if completed is None else completed.dropped,
        seen=seen_in(started.cause),
    )


def _awaited(told: Rebalance) -> Sized:
    if told.completed is not None:
        return told.completed.waited_for
    return told.started.waiting_for if told.join_phase is None else told.join_phase.waited_for


def rebalance_of_row(row: rows.Rebalance) -> api.Rebalance:
    """Return a rebalance whose beginning lies beyond the window."""
    return api.Rebalance(
        key=f"{row.epoch}-{row.seq}",
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        duration_ms=row.total_ms,
        generation=row.generation_before + 1 if row.generation_after is None else row.generation_after,
        counts="generation",
        outcome=row.outcome,
        trigger=row.trigger,
        cause=row.reason,
        initial=row.initial,
        is_begin_known=True,
        has_steps=False,
        waited_for=len(row.waited_for),
        dropped=row.dropped,
        seen=None,
    )


def rebalance_details(told: Rebalance) -> api.RebalanceDetails:
    """Return a rebalance, step by step."""
    started, completed = told.started, told.completed
    all_steps = steps(told)
    is_waiting = told.join_phase is None and told.counts != "epoch"
    return api.RebalanceDetails(
        group_id=started.group_id,
        rebalance=rebalance(told),
        headline=headline(told),
        join_ms=None if completed is None else completed.join_ms,
        interrupts=None if started.interrupts is None else f"{started.epoch}-{started.interrupts}",
        steps=tuple(map(_step, all_steps[:STEPS_MAX])),
        steps_left_out=max(len(all_steps) - STEPS_MAX, 0),
        waiting=started.waiting_for if is_waiting else (),
        waited_for=tuple(waited_for(told)),
        holders=tuple(map(holder, told.holders)),
        moves=tuple(moves_of(told)),
        votes=votes(told.steps),
        members=tuple(
            api.Identity(
                member_id=each.member_id, client_id=each.client_id, host=each.client_host,
                group_instance_id=each.group_instance_id,
            )
            for each in identities_in(told).values()
        ),
    )  # fmt: skip


def holder(each: holding.Holder, until_ms: int | None = None) -> api.Holder:
    """Return who must give up what. `until_ms`: at the latest."""
    return api.Holder(
        member_id=each.member_id, partitions=words.owned(each.topics), since_ms=each.told_ms, until_ms=until_ms,
        waiting=tuple(each.waiting),
    )  # fmt: skip


def _step(step: Step) -> api.Step:
    record = step.record
    return api.Step(
        time_ms=step.time_ms,
        text=step.text,
        is_cause=step.is_cause,
        type=None if record is None else kind_of(record),
        cause=None if record is None else record.cause,
        seen=None if record is None else seen_in(record.cause),
        advice=advice(record.rule) if isinstance(record, RequestRefused) else "",
    )


def seen_in(cause: Cause) -> api.Seen | None:
    """Return the evidence in a watched cluster or in a request log, and its certainty; None where there is neither."""
    if cause.kind != "observed" and not cause.evidence and cause.certainty == "told":
        return None
    return api.Seen(sources=seen.sources(cause), places=seen.places(cause), certainty=seen.CERTAINTIES[cause.certainty])


def votes(records: Iterable[History]) -> api.Votes | None:
    """Return how the assignor was chosen last; None if it was not."""
    chosen = [record for record in records if isinstance(record, ProtocolChosen)]
    if not chosen:
        return None
    last = chosen[-1]
    return api.Votes(time_ms=last.timestamp_ms, protocol=last.protocol_name, tie=last.tie, votes=last.votes)


def kind_of(record: History) -> str:
    """Return the kind of a record, as its JSON has it."""
    return str(type(record).__struct_config__.tag)
