"""The coordinator's app in a thread of its own, so that the main thread can show what happens and hear signals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from group_coordinator.command_line.errors import CommandError
from group_coordinator.coordinating.commands.spark_jvm import end_jvm, java_cause, kill_jvm, quiet_start
from streaming.config import StreamingConfig
from streaming.topics import TopicReport
from streaming.watcher import ShardProgress, Watcher

if TYPE_CHECKING:
    from streaming.application import Application, CompanionQuery

JOIN_INTERVAL_S = 0.2
_KILLED_TIMEOUT_S = 2.0
"""Without its JVM the app has nothing to wait for."""


class CoordinatorThread:
    """Runs `streaming.application.Application`; `stop` ends it after the running batch."""

    def __init__(
        self,
        config: StreamingConfig,
        *,
        quiet: bool = False,
        rebuild: bool = False,
        watcher: Watcher | None = None,
        companion: CompanionQuery | None = None,
    ) -> None:
        """`quiet`: what the JVM says while it starts is shown only when it does not start.

        `rebuild`, `watcher`, `companion`: those of `Application`.
        """
        self.progress: dict[int, ShardProgress] = {}
        """The last batch of each shard."""
        self.events = 0
        """How many events have been handled, ticks included."""
        self.application: Application | None = None
        """The app, once it was begun."""
        self.listeners: list[Callable[[ShardProgress], None]] = []
        """Called after each batch, in the app's thread."""
        self._report: TopicReport | None = None
        self._quiet = quiet
        self._rebuild = rebuild
        self._watcher = watcher
        self._companion = companion
        self._begun = False
        self._go = threading.Event()
        self._started = threading.Event()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        # A daemon: when people insist on an end at once, nothing keeps the process alive.
        self._thread = threading.Thread(target=self._run, args=(config,), name="coordinator", daemon=True)

    def warm_up(self) -> None:
        """Begin to start Spark; a broker need not be there yet."""
        if not self._begun:
            self._begun = True
            self._thread.start()

    def start(self, wait: Callable[[], None] = lambda: None) -> TopicReport | None:
        """Start the app and return when all its queries run. `wait` is called again and again until then.

        None: it was stopped before. Raises what kept it from starting.
        """
        self.warm_up()
        wait()
        self._go.set()
        while not self._started.wait(JOIN_INTERVAL_S) and self._thread.is_alive():
            wait()
        wait()
        if not self._started.is_set() and self._stop.is_set():
            self._failure = None  # a JVM that was asked to end in the midst of its start, for one
        self.check()
        return self._report

    def check(self) -> None:
        """Raise the failure of the app, if it has failed: a CommandError with the cause of a failed query."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def ask_to_stop(self) -> None:
        """Ask for the end after the running batch; returns at once."""
        self._stop.set()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Stop after the running batch and return when everything has ended. Raises as `check`.

        What takes longer than `timeout_s` is killed, and False returned: the next start repeats the batch.
        """
        self._stop.set()
        self._go.set()
        give_up_at_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self._thread.is_alive():
            self._thread.join(JOIN_INTERVAL_S)  # in slices: signals are heard in between
            if give_up_at_s is not None and time.monotonic() > give_up_at_s:
                kill_jvm()
                self._thread.join(_KILLED_TIMEOUT_S)
                return False
        self.check()
        return True

    def _run(self, config: StreamingConfig) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from streaming.application import Application, QueryFailed, SparkLost  # Spark takes its time to import
        from streaming.checkpoints import CheckpointError
        from streaming.session import open_session

        def started(report: TopicReport) -> None:
            self._report = report
            self._started.set()

        def note(progress: ShardProgress) -> None:
            self.progress[progress.shard] = progress
            self.events += progress.events
            for listener in self.listeners:
                listener(progress)

        try:
            spark = None
            try:
                if self._quiet:
                    with quiet_start(config.spark):
                        spark = open_session(config)
                self._go.wait()
                if not self._stop.is_set():
                    self.application = app = Application(
                        config,
                        on_start=started,
                        on_progress=note,
                        watcher=self._watcher,
                        spark=spark,
                        rebuild=self._rebuild,
                        companion=self._companion,
                    )
                    app.run(self._stop)
            finally:
                if spark is not None:
                    spark.stop()
                end_jvm()
        except (QueryFailed, SparkLost, CheckpointError) as failure:
            self._failure = CommandError(str(failure))
        except (PySparkException, Py4JError) as failure:
            self._failure = CommandError(f"Spark has failed: {java_cause(failure, config.spark)}")
            self._failure.__cause__ = failure
        except BaseException as failure:
            self._failure = failure
