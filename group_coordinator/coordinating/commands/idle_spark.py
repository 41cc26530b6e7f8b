"""Spark runs only where a processor is idle, as long as its batches end in time all the same."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from group_coordinator.coordinating import idle_policy
from group_coordinator.coordinating.commands.coordinator_thread import CoordinatorThread
from group_coordinator.coordinating.commands.spark_jvm import jvm_process_id
from streaming.config import StreamingConfig

PATIENCE_TRIGGER_INTERVALS, PATIENCE_MIN_S = 3, 5.0
"""A batch is late if none has ended for longer than both."""
IN_TIME_S = 60.0
"""So long batches end in time before Spark gives way, also after a start: much has to be compiled then."""
_log = logging.getLogger(__name__)


class Policy(Protocol):
    """`group_coordinator.coordinating.idle_policy`."""

    def take(self, process_id: int) -> None: ...
    def leave(self, process_id: int) -> None: ...


class IdleSpark:
    """Spark's JVM and its Python workers have Linux's idle policy unless a batch is late, which ends it at once.

    Beside a program that takes all processors for good, Spark would get none of them: then it has its share again, by
    its niceness.
    """

    def __init__(
        self,
        process_id: int,
        shards: Collection[int],
        trigger_interval_ms: int,
        *,
        policy: Policy = idle_policy,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`process_id`: the JVM's."""
        self._is_idle = False
        self._process_id = process_id
        self._patience_s = max(PATIENCE_MIN_S, PATIENCE_TRIGGER_INTERVALS * trigger_interval_ms / 1_000)
        self._policy, self._now_s = policy, now_s
        self._late_s = now_s()
        """When a batch was late for the last time."""
        self._ended_s = dict.fromkeys(shards, self._late_s)
        """When the last batch of each shard ended."""

    def batch_ended(self, shard: int) -> None:
        """Note that a batch of this shard has ended; in any thread."""
        self._ended_s[shard] = self._now_s()

    def look(self) -> None:
        """Take the policy or leave it, as it is time for; called several times a second."""
        now_s = self._now_s()
        if now_s - min(self._ended_s.values()) > self._patience_s:
            self._late_s = now_s
            if self._is_idle:
                _log.info("Spark's batches are late: it has its share of the processors again, by its niceness")
                self.leave()
        elif not self._is_idle and now_s - self._late_s >= IN_TIME_S:
            _log.info("Spark's batches end in time: it runs where a processor is idle (SCHED_IDLE)")
            self._is_idle = True
            self._policy.take(self._process_id)

    def leave(self) -> None:
        """Leave the policy, if Spark has it."""
        if self._is_idle:
            self._policy.leave(self._process_id)
            self._is_idle = False


@contextmanager
def spark_where_idle(config: StreamingConfig, coordinator: CoordinatorThread) -> Iterator[Callable[[], None]]:
    """Yield what is to be called several times a second: `IdleSpark.look`, or nothing where the setting is off or the
    system does not allow it. Afterwards Spark has its usual policy, since an end waits for its last batches."""
    process_id = jvm_process_id()
    if process_id is None or not _may_give_way(config):
        yield lambda: None
        return
    idle_spark = IdleSpark(process_id, config.shards_here, config.trigger_interval_ms)
    coordinator.listeners.append(lambda progress: idle_spark.batch_ended(progress.shard))
    try:
        yield idle_spark.look
    finally:
        idle_spark.leave()


def _may_give_way(config: StreamingConfig) -> bool:
    if not config.spark_idle_policy:
        return False
    if idle_policy.can_be_left(config.spark_niceness):
        return True
    _log.info(
        "spark_idle_policy has no effect: to leave Linux's idle policy again takes CAP_SYS_NICE, or a limit of "
        "niceness (`ulimit -e`) of at least %d",
        20 - config.spark_niceness,
    )
    return False
