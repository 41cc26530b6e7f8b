"""What the coordinator uses, from outside: /proc, its directories, its metrics endpoint.

A line of CSV for each sample.
"""

from __future__ import annotations

import csv
import os
import urllib.request
from contextlib import suppress
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.crash import processes

MIB = 1024 * 1024
PREFIX = "group_coordinator_"
Sample = dict[str, float]


def resident_mib(pid: int | None) -> float:
    """Resident memory of a process; 0 when there is none."""
    if pid is None:
        return 0.0
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB
    except OSError:
        return 0.0


def directory_size(directory: Path) -> tuple[float, int]:
    """MiB and number of the files below a directory, whose files come and go meanwhile."""
    size = number = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += os.stat(os.path.join(parent, name)).st_size
                number += 1
    return size / MIB, number


class Measures:
    """Takes samples of a coordinator's process and directories."""

    def __init__(self, pid: int, port: int, checkpoint: Path, local: Path) -> None:
        self._pid, self._port = pid, port
        self._checkpoint, self._local = checkpoint, local
        self._before: dict[str, float] = {}

    def sample(self) -> Sample:
        """The present values; means of batches and answers are of the time since the last sample."""
        scraped = self._scrape()
        gained = {name: value - self._before.get(name, 0.0) for name, value in scraped.items()}
        self._before = scraped
        workers = processes.workers_of(self._pid)
        checkpoint_mib, checkpoint_files = directory_size(self._checkpoint)
        local_mib, _ = directory_size(self._local)
        return {
            "driver_mib": resident_mib(processes.driver_of(self._pid)),
            "command_mib": resident_mib(self._pid),
            "workers_mib": sum(map(resident_mib, workers)),
            "workers": len(workers),
            "state_groups": scraped.get("state_groups", 0),
            "groups": scraped.get("groups", 0),
            "members": scraped.get("members", 0),
            "state_memory_mib": scraped.get("state_memory_bytes", 0) / MIB,
            "state_disk_mib": scraped.get("state_disk_bytes", 0) / MIB,
            "checkpoint_mib": checkpoint_mib,
            "checkpoint_files": checkpoint_files,
            "local_mib": local_mib,
            "batch_s": _mean(gained, "batch_seconds"),
            "batches": gained.get("batch_seconds_count", 0),
            "heartbeat_answer_s": _mean(gained, "answer_seconds"),
            "events": gained.get("handled_events_total", 0),
            "lag_events": scraped.get("source_lag_events", 0),
            "clock_lag_s": scraped.get("watermark_lag_seconds", 0),
            "rebalances": gained.get("rebalances_total", 0),
            "expired": gained.get("members_gone_total", 0),
        }

    def _scrape(self) -> dict[str, float]:
        """Return the sums over all labels, by name; of batches the whole trigger, of answers those to heartbeats, of
        members that are gone those that expired."""
        only = {
            "batch_seconds": ("phase", "triggerExecution"),
            "answer_seconds": ("api", "Heartbeat"),
            "members_gone": ("reason", "session_expired"),
        }
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            label, value = only.get(family.name.removeprefix(PREFIX), ("", ""))
            for sample in family.samples:
                if not label or sample.labels.get(label) == value:
                    name = sample.name.removeprefix(PREFIX)
                    sums[name] = sums.get(name, 0.0) + sample.value
        return sums


def _mean(gained: dict[str, float], name: str) -> float:
    number = gained.get(f"{name}_count", 0.0)
    return gained[f"{name}_sum"] / number if number else 0.0


class SampleFile:
    """Samples as CSV, readable while it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._has_header = False

    def add(self, sample: Sample) -> None:
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(sample))
            if not self._has_header:
                writer.writeheader()
                self._has_header = True
            writer.writerow({name: round(value, 4) for name, value in sample.items()})


def read_samples(path: Path) -> list[Sample]:
    with path.open(newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
