"""Probes ask whether the process lives and works, over HTTP, or by a file if they have no network."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from group_coordinator.ground.system.ended_threads import ended_threads

STALE_AFTER_S = 60.0
"""Signs of life older than this are none."""
START_LIMIT_S = 900.0
"""A start that takes longer hangs: Spark, jars and topics are a minute's work, or some on a slow network."""
BEHIND_MAX_MS = 60_000
"""The record of what is answered is behind by seconds as a rule, and in a log at rest by some more."""


Responders = Callable[[], Mapping[int, tuple[str, str]]]
"""Return the state of each shard's responder, and the reason why it does not answer; an empty reason if it does."""


class Probes(Protocol):
    """Each probe answers with a list of reasons, empty when all is well."""

    def not_live(self) -> list[str]: ...

    def not_ready(self) -> list[str]: ...


def reasons_not_ready(probes: Probes) -> list[str]:
    """Return why the process does not work as it should: what the probes say, and the threads that a defect has ended.
    """
    return [*probes.not_ready(), *ended_threads()]


class Health:
    """Signs of life as they come, and what they mean.

    *Live*: the app's own loop turns. It is not when the JVM hangs, which only a restart helps; it is while Kafka is
    away. *Ready*: each shard has ended a batch, and not long ago a batch, or Kafka has taken a tick of it; and no clock
    stands still because it is wrong: joins would not end. *Degraded*: clients are answered, but what follows from it
    comes late, or there is more than there should be.
    """

    def __init__(
        self,
        shards: Iterable[int],
        file: Path | None = None,
        now_s: Callable[[], float] = time.monotonic,
        state_alarm_bytes: int | None = None,
    ) -> None:
        """`file` is touched at every sign of the shard that was silent longest. `state_alarm_bytes`: a shard whose
        groups take more is degraded."""
        self._now_s = now_s
        self._file = file
        self._lock = threading.Lock()
        self._began_s = now_s()
        self._polled_s: float | None = None
        self._batches_s: dict[int, float | None] = dict.fromkeys(shards)
        self._ticks_s: dict[int, float | None] = dict.fromkeys(self._batches_s)
        self._standstills: dict[int, str] = {}
        self._decided_ms: dict[int, int] = {}
        """The clock up to which the query of a shard has decided."""
        self._clocks_ms: dict[int, int] = {}
        """The clock of a shard's log, which goes as far as clients are answered."""
        self._state_alarm_bytes = state_alarm_bytes
        self._state_bytes: dict[int, int] = {}
        self.further: list[Callable[[], Iterable[str]]] = []
        """What else is degraded says why, in sentences."""
        self._written_s = 0.0

    def polled(self) -> None:
        """Note that the application has looked at its queries."""
        self._polled_s = self._now_s()

    def batch_ended(self, shard: int) -> None:
        """Note that a batch of this shard has ended."""
        self._sign(self._batches_s, shard)

    def tick_written(self, shard: int) -> None:
        """Note that Kafka has taken a tick of this shard."""
        self._sign(self._ticks_s, shard)

    def stands_still(self, shard: int, reason: str | None) -> None:
        """Note why the ticker of this shard lets its clock stand still; None if it goes on."""
        if reason is None:
            self._standstills.pop(shard, None)
        else:
            self._standstills[shard] = reason

    def clock_stands_at(self, shard: int, clock_ms: int) -> None:
        """Note the clock of a shard's log: so far its clients are answered, but for some seconds."""
        self._clocks_ms[shard] = clock_ms

    def decided(self, shard: int, clock_ms: int) -> None:
        """Note the clock up to which the shard's query has decided and written everything."""
        self._decided_ms[shard] = clock_ms

    def state_takes(self, shard: int, size_bytes: int) -> None:
        """Note how many bytes the groups of a shard take."""
        self._state_bytes[shard] = size_bytes

    def degraded(self) -> list[str]:
        """Return what is not as it should be though clients are answered; empty if all is."""
        reasons = []
        for shard, decided_ms in sorted(self._decided_ms.items()):
            behind_ms = self._clocks_ms.get(shard, 0) - decided_ms
            if behind_ms > BEHIND_MAX_MS:
                reasons.append(
                    f"the query of shard {shard} is {behind_ms / 1_000:.0f} s behind what is answered: history, "
                    "committed offsets and groups on their topics, and what is read from them, are as old"
                )
        for shard, size in sorted(self._state_bytes.items()):
            if self._state_alarm_bytes is not None and size > self._state_alarm_bytes:
                reasons.append(
                    f"the groups of shard {shard} take {size >> 20} MiB, more than state_alarm_bytes "
                    f"({self._state_alarm_bytes >> 20} MiB): batches and the start of a responder become slow"
                )
        return [*reasons, *(reason for further in self.further for reason in further())]

    def since_batch_s(self, shard: int) -> float:
        """Return the time since the shard's last batch or, before the first, since the start of the process."""
        return self._since(self._batches_s[shard])

    def since_tick_s(self, shard: int) -> float:
        """Return the time since the shard's last tick or, before the first, since the start of the process."""
        return self._since(self._ticks_s[shard])

    def not_live(self) -> list[str]:
        """Return why the process must be restarted; empty if it need not be."""
        if self._polled_s is None:
            starting_s = self._since(None)
            return [f"the app has been starting for {starting_s:.0f} s"] if starting_s > START_LIMIT_S else []
        if self._since(self._polled_s) <= STALE_AFTER_S:
            return []
        return [f"the app has not looked at its queries for {self._since(self._polled_s):.0f} s"]

    def not_ready(self) -> list[str]:
        """Return why no answers can be expected; empty if they can."""
        reasons = self.not_live()
        for shard, batch_s in self._batches_s.items():
            if batch_s is None:
                reasons.append(f"shard {shard} has not ended a batch yet")
            elif min(self.since_batch_s(shard), self.since_tick_s(shard)) > STALE_AFTER_S:
                reasons.append(
                    f"shard {shard} has ended no batch and written no tick for {self.since_batch_s(shard):.0f} s"
                )
        reasons += [
            f"the clock of shard {shard} stands still: {reason}" for shard, reason in sorted(self._standstills.items())
        ]
        return reasons

    def _since(self, time_s: float | None) -> float:
        return self._now_s() - (self._began_s if time_s is None else time_s)

    def _sign(self, signs: dict[int, float | None], shard: int) -> None:
        with self._lock:
            signs[shard] = self._now_s()
            last = [max(self._batches_s[shard] or 0.0, self._ticks_s[shard] or 0.0) for shard in self._batches_s]
            oldest_s = min(last)
            if self._file is not None and oldest_s > self._written_s:
                self._written_s = oldest_s
                touch(self._file, time.time() - (self._now_s() - oldest_s))


def touch(file: Path, time_s: float) -> None:
    """Set the file's time of change, seconds since the epoch."""
    # A full disk must not end the coordinator; that the file is old tells of it.
    with suppress(OSError):
        file.touch()
        os.utime(file, (time_s, time_s))
