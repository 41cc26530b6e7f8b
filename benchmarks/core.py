"""Events per second of the pure core, in one process and thread, beside Kafka's own coordinator classes on the JVM.

    python -m benchmarks.core [--jvm] [--quick] [--runs 2] [--only NAME] [--write] [--json FILE]
    python -m benchmarks.core --profile NAME

What counts are the ratios: machines differ and are shared. Rates are per second of the thread's CPU time, the best
of several runs. Kafka's side gets its requests as objects; ours is measured twice, from objects ("core") and from the
JSON of the events topic ("with decoding").
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from benchmarks.arguments import command_parser
from benchmarks.consumer_workloads import consumer_workloads
from benchmarks.document import table, write_section
from benchmarks.jvm import JvmError, Mismatch, run_driver
from benchmarks.workloads import Workload, all_workloads, best_rate, run_core, run_with_decoding, written


class Figures(Struct, kw_only=True):
    """The measured rates of one workload, in events per second."""

    name: str
    core: float
    with_decoding: float
    kafka: float | None = None

    @property
    def factor(self) -> float | None:
        """The ratio of the core's time to Kafka's."""
        return None if self.kafka is None else self.kafka / self.core

    @property
    def factor_with_decoding(self) -> float | None:
        return None if self.kafka is None else self.kafka / self.with_decoding


def measure(workload: Workload, seconds: float) -> Figures:
    events = workload.events()
    return Figures(
        name=workload.name,
        core=best_rate(workload, lambda: run_core(workload, events), seconds),
        with_decoding=best_rate(workload, lambda: run_with_decoding(workload), seconds),
    )


def measure_kafka(workloads: list[Workload], seconds: float) -> dict[str, float]:
    """Events per second of Kafka's classes, by workload name.

    Raises `Mismatch` if Kafka wrote something else, `JvmError` if it cannot run.
    """
    rates = {}
    compared = [(workload, workload.jvm) for workload in workloads if workload.jvm is not None]
    lines = run_driver("CoreBenchmark", str(2 * seconds), str(seconds), *(jvm for _, jvm in compared))
    for (workload, jvm), line in zip(compared, lines, strict=True):
        rate, *counts = line.removeprefix(jvm).split()
        events, records, record_bytes = map(int, counts)
        runs = events // len(workload.values)
        if (records // runs, record_bytes // runs) != written(workload):
            raise Mismatch(
                f"{workload.name}: in {runs} runs Kafka wrote {records} records of {record_bytes} bytes, we in one "
                f"{written(workload)}"
            )
        rates[workload.name] = float(rate)
    return rates


def run(workloads: list[Workload], *, quick: bool, jvm: bool) -> list[Figures]:
    """Measure all, one after the other; Kafka's classes too, where they can be run."""
    figures = [measure(workload, 0.2 if quick else 0.6) for workload in workloads]
    if not jvm:
        return figures
    try:
        kafka = measure_kafka(workloads, 0.7 if quick else 1.5)
    except JvmError as problem:
        print(f"Kafka's classes were not run: {problem}")
        return figures
    return [replace(figure, kafka=kafka.get(figure.name)) for figure in figures]


def best_of(runs: list[list[Figures]]) -> list[Figures]:
    """The best of each figure: on a shared machine all of them err to one side."""
    return [
        Figures(
            name=figures_of_workload[0].name,
            core=max(figures.core for figures in figures_of_workload),
            with_decoding=max(figures.with_decoding for figures in figures_of_workload),
            kafka=max((figures.kafka for figures in figures_of_workload if figures.kafka is not None), default=None),
        )
        for figures_of_workload in zip(*runs, strict=True)
    ]


def show(figures: list[Figures]) -> None:
    print(f"{'':34}{'core/s':>12}{'with decoding/s':>17}{'Kafka/s':>12}{'factor':>9}{'with decoding':>15}")
    for figure in figures:
        line = f"{figure.name:34}{figure.core:12,.0f}{figure.with_decoding:17,.0f}"
        if figure.kafka is not None:
            line += f"{figure.kafka:12,.0f}{figure.factor:9.1f}{figure.factor_with_decoding:15.1f}"
        print(line, flush=True)


def write_page(figures: list[Figures]) -> None:
    """The table of docs/performance.md."""
    rows = [
        [
            figure.name,
            _times(figure.factor),
            _times(figure.factor_with_decoding),
            _share(figure.core / figures[0].core),
        ]
        for figure in figures
    ]
    head = ["workload", "core", "with decoding", "events in the time of a heartbeat"]
    write_section("core", table(head, rows))


def _times(factor: float | None) -> str:
    return "" if factor is None else f"{factor:.1f}"


def _share(share: float) -> str:
    return f"{share:.3f}" if share >= 0.001 else f"{share:.5f}"


def profile(workload: Workload) -> None:
    events = workload.events()
    profiler = cProfile.Profile()
    for _ in range(5):
        profiler.runcall(run_core, workload, events)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def _named(part: str, workloads: list[Workload], parser: argparse.ArgumentParser) -> list[Workload]:
    """Those whose names contain this."""
    matching = [workload for workload in workloads if part in workload.name]
    if not matching:
        parser.error(f"no workload's name contains {part!r}: {'; '.join(workload.name for workload in workloads)}")
    return matching


def main() -> None:
    parser = command_parser("core", __doc__)
    parser.add_argument("--jvm", action="store_true", help="run Kafka's classes, too (but for consumer groups)")
    parser.add_argument("--quick", action="store_true", help="short workloads, a tenth of the time")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md (with --jvm)")
    parser.add_argument("--runs", type=int, default=2, help="so many runs of all, the best of each figure")
    parser.add_argument("--only", metavar="NAME", default="", help="only workloads whose names contain this")
    parser.add_argument(
        "--profile", metavar="NAME", help="print where the time goes in the first workload whose name contains this"
    )
    arguments = parser.parse_args()
    workloads = [*all_workloads(quick=arguments.quick), *consumer_workloads(quick=arguments.quick)]
    if arguments.profile:
        profile(_named(arguments.profile, workloads, parser)[0])
        return
    if arguments.write and (arguments.quick or arguments.only):
        parser.error("--write writes the whole table: neither --quick nor --only")
    workloads = _named(arguments.only, workloads, parser)
    figures = best_of([run(workloads, quick=arguments.quick, jvm=arguments.jvm) for _ in range(arguments.runs)])
    show(figures)
    if arguments.write:
        if all(figure.kafka is None for figure in figures):
            sys.exit("Nothing was written: without figures of Kafka's classes (--jvm, and a JDK) there are no factors.")
        write_page(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(to_builtins(figures), indent=1) + "\n")


if __name__ == "__main__":
    main()
