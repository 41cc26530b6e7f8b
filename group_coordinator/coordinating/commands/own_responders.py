"""The responders of `run`: their processes, and the audit of what responders answer."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.coordinating.commands.coordinator_thread import CoordinatorThread
from group_coordinator.coordinating.commands.responder_operations import responder_values
from group_coordinator.coordinating.operations.operations import Operations
from group_coordinator.coordinating.responder.auditor import AuditCounts, Auditor, AuditorThread, undecided_since_ms
from group_coordinator.coordinating.responder.process import ResponderReport, ResponderState
from group_coordinator.coordinating.responder.processes import ResponderProcesses
from group_coordinator.coordinating.responder.protocol import ResponderStatus
from group_coordinator.ground.kafka_topics.errors import TopicReadError, explaining
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.metrics import Value
from streaming.config import StreamingConfig
from streaming.events_tail import open_reader
from streaming.topics import TopicReport
from streaming.watcher import ShardProgress

TRIGGER_INTERVAL_MS = 2_000
"""Beside a responder, unless the setting says otherwise: nobody waits for a batch, and rarer ones cost less."""

SPARK_NICENESS = 15
"""The same: where processors are busy, a thread of Spark gets a thirtieth of the time of a responder or gateway."""

SPARK_TIER4_FACTOR = 10
"""The same: most of a query's code runs a few times for each batch, and to optimize it costs more than it saves."""

DECIDED_WITHIN_S = 10.0
"""So long a stop waits at most until the query has decided what responders have answered. It is seconds behind as a
rule; where it is minutes behind, a longer wait would not help."""
_ASKED_MIN_S = 1.0
"""Kafka is given so much time at least to say where the log ends."""
_POLL_S = 0.1
_START_WITHIN_S = 10.0


def for_responders(settings: Settings) -> Settings:
    """Return the settings of a coordinator beside which responders run, because flags ask for them."""
    changes: dict[str, object] = {
        "trigger_interval_ms": TRIGGER_INTERVAL_MS,
        "spark_niceness": SPARK_NICENESS,
        "spark_idle_policy": True,
        "spark_tier4_factor": SPARK_TIER4_FACTOR,
    }
    unset = {name: value for name, value in changes.items() if settings.sources[name] == "default"}
    config = settings.config.changed(responders=True, **unset)
    return Settings(config, {**settings.sources, "responders": "flag"})


class OwnResponders:
    """Is there if the setting `responders` is on: it audits all responders, and runs some of its own if they are
    wanted."""

    def __init__(self, config: StreamingConfig, coordinator: CoordinatorThread, *, here: bool) -> None:
        """`here`: whether responders run beside the query of this process."""
        self._config, self._coordinator, self._here = config, coordinator, here
        self._auditor: Auditor | None = None
        self._thread: AuditorThread | None = None
        self._processes: ResponderProcesses | None = None

    def start(self, report: TopicReport, operations: Operations, output: CommandOutput) -> None:
        """Begin to compare, then begin to answer. Raises TopicReadError."""
        application = self._coordinator.application
        publisher = None if application is None else application.progress_publisher
        if application is None or publisher is None:
            return
        config, topics = self._config, report.topics
        begins = publisher.begins
        self._auditor = Auditor(publisher.core_hashes, publisher.differs, begins=begins)
        self._coordinator.listeners.append(self._auditor.batch_ended)
        responses = topics.responses
        self._thread = AuditorThread(
            self._auditor, config.client_properties, responses, report.partitions[responses]
        )
        self._thread.start(undecided_since_ms(config.client_properties, topics.events, begins))
        operations.metrics.values_from(self._values)
        operations.responders = self.reports
        operations.health.further.append(self._large_states)
        if self._here:
            self._processes = ResponderProcesses(config, report.partitions, application.read_state)
            self._processes.start()
            self._wait_for_starts(self._processes)
            output.write("A responder answers ahead of the query of each shard.")

    def _wait_for_starts(self, processes: ResponderProcesses) -> None:
        """Wait a moment for those that start: a gateway that opens before they answer keeps its first clients waiting.
        """
        give_up_at_s = time.monotonic() + _START_WITHIN_S
        while self._coordinator.is_running and time.monotonic() < give_up_at_s:
            if not any(report.state is ResponderState.STARTING for report in processes.reports().values()):
                return
            time.sleep(_POLL_S)

    def end_answering(self, output: CommandOutput, timeout_s: float) -> None:
        """End the processes, and let the query decide what they have answered, so that a coordinator whose core decides
        otherwise may start next (`streaming.answered_ahead`). The gateway has ended before."""
        if self._processes is None:
            return
        give_up_at_s = time.monotonic() + min(timeout_s, DECIDED_WITHIN_S)
        self._processes.stop()
        events = self._config.topics.events
        try:
            with explaining(self._config.client_properties), open_reader(self._config.client_properties) as reader:
                left_s = max(_ASKED_MIN_S, give_up_at_s - time.monotonic())
                ends = {shard: reader.bounds(events, shard, left_s).end for shard in self._config.shards_here}
        except TopicReadError as problem:
            output.write(f"Whether the query has decided all that responders have answered is not known: {problem}")
            return
        while self._coordinator.is_running and (left := undecided(ends, self._coordinator.progress)):
            if time.monotonic() >= give_up_at_s:
                output.write(
                    f"The query has not decided the last {sum(left.values())} events yet, which responders may have "
                    "answered: start the same release with the same settings next."
                )
                return
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End the processes, and then the audit."""
        if self._processes is not None:
            self._processes.stop()
        if self._thread is not None:
            self._thread.stop()

    def require_alive(self) -> None:
        """Raise the error that ended the audit."""
        if self._thread is not None:
            self._thread.require_alive()

    def reports(self) -> dict[int, ResponderReport]:
        """Return how it is with the responder of each shard; nothing where none is to run here."""
        if self._processes is None or self._auditor is None:
            return {}
        return with_differences(self._processes.reports(), self._auditor.counts.differed_shards)

    def _large_states(self) -> Iterator[str]:
        """Say which responders have more groups in memory than they should have."""
        statuses = {} if self._processes is None else self._processes.statuses
        for shard, status in statuses.items():
            if status is not None and status.state_bytes > self._config.state_alarm_bytes:
                yield (
                    f"the responder of shard {shard} keeps groups of {status.state_bytes >> 20} MiB, more than "
                    f"state_alarm_bytes ({self._config.state_alarm_bytes >> 20} MiB)"
                )

    def words(self) -> str:
        """Return what the status line says of the responders; nothing if there are none."""
        return "" if self._processes is None else words_of(self.reports(), self._processes.statuses)

    def _values(self) -> Iterator[Value]:
        if self._auditor is not None:
            yield from audit_values(self._auditor.counts)
        if self._processes is not None:
            yield from responder_values(self._processes.statuses)


def with_differences(reports: Mapping[int, ResponderReport], differed: Collection[int]) -> dict[int, ResponderReport]:
    """Return the reports with what the auditor knows, before the responders hear of it."""
    stopped = ResponderReport(ResponderState.STOPPED, "an answer of a responder has differed from the query's")
    return {shard: stopped if shard in differed else report for shard, report in reports.items()}


def words_of(reports: Mapping[int, ResponderReport], statuses: Mapping[int, ResponderStatus | None]) -> str:
    """Return how it is with all responders, for the status line: what keeps them from answering, or their lead."""
    silent = [f"{shard} {report.state.words}: {report.reason}" for shard, report in reports.items() if report.reason]
    if silent:
        return f", {len(reports) - len(silent)} of {len(reports)} responders answer (shard {'; '.join(silent)})"
    leads_ms = [status.lead_ms for status in statuses.values() if status is not None and status.lead_ms is not None]
    return f", answers {min(leads_ms)} ms ahead" if leads_ms else ""


def undecided(ends: Mapping[int, int], progress: Mapping[int, ShardProgress]) -> dict[int, int]:
    """Return how many events before `ends` each shard's query has not decided yet; no shard that has decided all."""
    decided = {shard: batch.end_offset or 0 for shard, batch in progress.items()}
    return {shard: end - decided.get(shard, 0) for shard, end in ends.items() if decided.get(shard, 0) < end}


def audit_values(counts: AuditCounts) -> Iterator[Value]:
    """Return the metrics of an audit."""
    yield Value(m.RESPONDER_COMPARED, ("responder",), counts.responder_first)
    yield Value(m.RESPONDER_COMPARED, ("query",), counts.compared - counts.responder_first)
    yield Value(m.RESPONDER_DIFFERENCES, (), counts.differences + counts.contradicted)
    yield Value(m.RESPONDER_FORGOTTEN, (), counts.forgotten)
