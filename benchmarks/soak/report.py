"""Whether the curves are flat, and the picture of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.soak.measures import Sample


class Tolerance(NamedTuple):
    """The most by which the median of the last quarter may lie above that of the first one and still count as flat."""

    factor: float
    slack: float
    """In the measure's own unit, on top: so that what is next to nothing may double."""

    def allows(self, first: float, last: float) -> bool:
        return last <= first * self.factor + self.slack


# The factors come from a run of half an hour on a busy machine, in which nothing grew: there the medians of two
# quarters differed by up to 1.18 in memory (the JVM gives its heap back in steps), 1.25 on disk (the checkpoint goes up
# and down in teeth), and 2.3 in time, when other work had the machine. What grows for good passes any factor if the run
# is long enough.
MEMORY, DISK, TIME = 1.25, 1.5, 2.5
MUST_BE_FLAT = {
    "driver_mib": Tolerance(MEMORY, 16),
    "command_mib": Tolerance(MEMORY, 16),
    "workers_mib": Tolerance(MEMORY, 16),
    "state_groups": Tolerance(1.1, 20),  # it follows from the members, not from the machine
    "state_memory_mib": Tolerance(MEMORY, 4),
    "state_disk_mib": Tolerance(DISK, 4),
    "checkpoint_mib": Tolerance(DISK, 4),
    "checkpoint_files": Tolerance(DISK, 100),
    "local_mib": Tolerance(DISK, 4),
    "batch_s": Tolerance(TIME, 0.2),
    "heartbeat_answer_s": Tolerance(TIME, 0.2),
    "lag_events": Tolerance(TIME, 500),  # it follows from the batch's time; the slack is a batch of the heartbeats
    # a stall adds some seconds, which the clock makes up for; what adds up for ever is told
    "clock_lag_s": Tolerance(1.25, 10),
}
NEVER_NOTHING = ("driver_mib", "command_mib", "workers_mib", "checkpoint_mib", "batch_s", "heartbeat_answer_s")
"""Where these are 0 nothing was measured."""
QUARTER_MIN = 6
"""Samples in a quarter: a minute, so that one slow batch does not make the median."""


class TooFewSamples(Exception):
    """The run says nothing about growth."""


class Curve(NamedTuple):
    """One measure after the warm-up.

    Heaps and files come and go in teeth, batches are slow now and then: hence medians.
    """

    name: str
    first: list[float]
    """Its samples in the first quarter of the time."""
    last: list[float]
    """In the last one."""

    @property
    def verdict(self) -> str:
        """`flat`, `GROWS`, or `NOT MEASURED`."""
        if self.name in NEVER_NOTHING and 0 in (median(self.first), median(self.last)):
            return "NOT MEASURED"
        return "flat" if MUST_BE_FLAT[self.name].allows(median(self.first), median(self.last)) else "GROWS"


def curves(samples: list[Sample], warm_up_s: float) -> list[Curve]:
    """Raises TooFewSamples."""
    warm = [sample for sample in samples if sample["t_s"] >= warm_up_s]
    quarter = len(warm) // 4
    if quarter < QUARTER_MIN:
        raise TooFewSamples(
            f"{len(warm)} samples after the warm-up of {warm_up_s / 60:g} minutes are too few to tell whether anything "
            f"grows; {4 * QUARTER_MIN} are needed: --minutes must be larger, or --warm-up smaller."
        )
    return [
        Curve(name, [sample[name] for sample in warm[:quarter]], [sample[name] for sample in warm[-quarter:]])
        for name in MUST_BE_FLAT
    ]


def lines(all_curves: list[Curve]) -> Iterator[str]:
    yield f"{'medians after warm-up':22} {'first quarter':>14} {'last quarter':>14}"
    for curve in all_curves:
        yield f"{curve.name:22} {median(curve.first):14,.2f} {median(curve.last):14,.2f}  {curve.verdict}"


def problems(all_curves: list[Curve]) -> list[str]:
    return [f"{curve.name}: {curve.verdict}" for curve in all_curves if curve.verdict != "flat"]


class Panel(NamedTuple):
    title: str
    unit: str
    series: dict[str, str]
    """Measure -> its label."""


PANELS = (
    Panel(
        "Memory",
        "MiB resident",
        {"driver_mib": "Spark's JVM", "command_mib": "command", "workers_mib": "Python workers"},
    ),
    Panel("State", "keys in the state store", {"state_groups": "groups and handed-out ids"}),
    Panel("Time", "seconds, mean of 10 s", {"batch_s": "batch", "heartbeat_answer_s": "answer to a heartbeat"}),
    Panel(
        "Disk", "MiB", {"checkpoint_mib": "checkpoint", "local_mib": "local state", "state_disk_mib": "RocksDB's files"}
    ),
)


def plot(samples: list[Sample], title: str, warm_up_s: float, file: Path) -> None:
    """An SVG with a panel each for memory, state, time and disk."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {"svg.hashsalt": "soak", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 6), sharex=True, layout="constrained")
    minutes = [sample["t_s"] / 60 for sample in samples]
    for axis, panel in zip(axes.flat, PANELS, strict=True):
        for name, label in panel.series.items():
            axis.plot(minutes, [sample[name] for sample in samples], label=label, linewidth=1.2)
        axis.axvspan(0, warm_up_s / 60, color="0.92", zorder=0)
        axis.set_title(panel.title, loc="left", fontweight="bold")
        axis.set_ylabel(panel.unit)
        axis.set_ylim(0, 1.25 * axis.get_ylim()[1])  # room for the legend
        axis.set_xlim(0, max(minutes))
        axis.legend(frameon=False, loc="upper left", ncols=len(panel.series))
    for axis in axes[-1]:
        axis.set_xlabel("minutes (grey: warm-up)")
    figure.suptitle(title, x=0.01, ha="left")
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
