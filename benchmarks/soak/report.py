"""Whether the curves are flat, and the picture of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.soak.measures import Sample

MUST_BE_FLAT = (
    "driver_mib", "command_mib", "workers_mib", "state_groups", "state_memory_mib", "state_disk_mib", "checkpoint_mib",
    "checkpoint_files", "local_mib", "batch_s", "beat_answer_s",
)  # fmt: skip
GROWTH_MAX = 1.1
"""How far the floor of the last quarter may lie above the ceiling of the first one after the warm-up."""


class Curve(NamedTuple):
    """One measure after the warm-up. Heaps and files come and go in teeth: what grows lifts the floor above all of them."""

    name: str
    first: list[float]
    """Its samples in the first quarter of the time."""
    last: list[float]
    """In the last one."""

    @property
    def is_flat(self) -> bool:
        return min(self.last) <= max(self.first) * GROWTH_MAX


def curves(samples: list[Sample], warm_up_s: float) -> list[Curve]:
    warm = [each for each in samples if each["t_s"] >= warm_up_s]
    if len(warm) < 8:
        return []
    quarter = len(warm) // 4
    return [Curve(name, [each[name] for each in warm[:quarter]], [each[name] for each in warm[-quarter:]]) for name in MUST_BE_FLAT]


def lines(found: list[Curve]) -> Iterator[str]:
    yield f"{'medians after warm-up':22} {'first quarter':>14} {'last quarter':>14}"
    for curve in found:
        yield f"{curve.name:22} {median(curve.first):14,.2f} {median(curve.last):14,.2f}  {'flat' if curve.is_flat else 'GROWS'}"


class Panel(NamedTuple):
    title: str
    unit: str
    series: dict[str, str]
    """Measure -> its label."""


PANELS = (
    Panel("Memory", "MiB resident", {"driver_mib": "Spark's JVM", "command_mib": "command", "workers_mib": "Python workers"}),
    Panel("State", "keys in the state store", {"state_groups": "groups and handed-out ids"}),
    Panel("Time", "seconds, mean of 10 s", {"batch_s": "batch", "beat_answer_s": "answer to a heartbeat"}),
    Panel("Disk", "MiB", {"checkpoint_mib": "checkpoint", "local_mib": "local state", "state_disk_mib": "RocksDB's files"}),
)


def plot(samples: list[Sample], title: str, warm_up_s: float, file: Path) -> None:
    """An SVG with a panel each for memory, state, time and disk."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.hashsalt": "soak", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 6), sharex=True, layout="constrained")
    minutes = [each["t_s"] / 60 for each in samples]
    for axis, panel in zip(axes.flat, PANELS, strict=True):
        for name, label in panel.series.items():
            axis.plot(minutes, [each[name] for each in samples], label=label, linewidth=1.2)
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
