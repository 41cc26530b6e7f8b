"""The responders of `run`: their processes, and the audit of what responders answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.coordinator_thread import CoordinatorThread
from group_coordinator.command_line.options import Settings
from group_coordinator.command_line.responder_operations import responder_values
from group_coordinator.operations import metrics as m
from group_coordinator.operations.metrics import Metrics, Value
from group_coordinator.responder.auditor import AuditCounts, Auditor, AuditorThread, undecided_since_ms
from streaming.config import StreamingConfig
from streaming.topics import TopicReport

if TYPE_CHECKING:
    from group_coordinator.responder.processes import ResponderProcesses


TRIGGER_INTERVAL_MS = 2_000
"""Beside a responder, unless the setting says otherwise: nobody waits for a batch, and rarer ones cost less."""

SPARK_NICENESS = 5
"""The same: on a busy machine a thread of Spark gets a third of the time that one of a responder or gateway gets."""


def for_responders(settings: Settings) -> StreamingConfig:
    """Return the settings of a coordinator beside which responders run."""
    changes: dict[str, object] = {"trigger_interval_ms": TRIGGER_INTERVAL_MS, "spark_niceness": SPARK_NICENESS}
    unset = {name: value for name, value in changes.items() if settings.sources[name] == "default"}
    return settings.config.changed(responders=True, **unset)


class OwnResponders:
    """Is there if the setting `responders` is on: it audits all responders, and runs some of its own if they are
    wanted."""

    def __init__(self, config: StreamingConfig, coordinator: CoordinatorThread, *, here: bool) -> None:
        """`here`: whether responders run beside the query of this process."""
        self._config, self._coordinator, self._here = config, coordinator, here
        self._auditor: Auditor | None = None
        self._thread: AuditorThread | None = None
        self._processes: ResponderProcesses | None = None

    def start(self, report: TopicReport, metrics: Metrics, output: CommandOutput) -> None:
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
        metrics.gauges_from(self._values)
        if self._here:
            from group_coordinator.responder.processes import ResponderProcesses

            self._processes = ResponderProcesses(config, report.partitions, application.read_state)
            self._processes.start()
            output.write("A responder answers ahead of the query of each shard.")

    def stop(self) -> None:
        """End the processes, and then the audit."""
        if self._processes is not None:
            self._processes.stop()
        if self._thread is not None:
            self._thread.stop()

    def words(self) -> str:
        """Return what the status line says of the responders; nothing if there are none."""
        if self._processes is None or self._auditor is None:
            return ""
        if self._auditor.counts.differences:
            return ", a responder's answer has differed: none answers"
        statuses = self._processes.statuses.values()
        running = [status for status in statuses if status is not None]
        if len(running) < len(statuses):
            return f", {len(running)} of {len(statuses)} responders"
        leads_ms = [status.lead_ms for status in running if status.lead_ms is not None]
        return f", answers {min(leads_ms)} ms ahead" if leads_ms else ""

    def _values(self) -> Iterator[Value]:
        if self._auditor is not None:
            yield from audit_values(self._auditor.counts)
        if self._processes is not None:
            yield from responder_values(self._processes.statuses)


def audit_values(counts: AuditCounts) -> Iterator[Value]:
    """Return the metrics of an audit."""
    yield Value(m.RESPONDER_COMPARED, ("responder",), counts.responder_first)
    yield Value(m.RESPONDER_COMPARED, ("query",), counts.compared - counts.responder_first)
    yield Value(m.RESPONDER_DIFFERENCES, (), counts.differences)
    yield Value(m.RESPONDER_FORGOTTEN, (), counts.forgotten)
