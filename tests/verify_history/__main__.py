"""Histories of another coordinator against our decisions: `python -m tests.verify_history conformance/*.jsonl.gz`.

Each step is played at its exact millisecond, and every answer, record and state is compared. The exit code is 1 if any
differs. The last line is `N histories, N steps, N differences`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from coordinator_state.kafka_versions import KAFKA_VERSIONS, OF_OLD_LOGS
from group_coordinator.command_line.progress import count_progress
from tests.verify_history.histories import verify_histories


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.verify_history", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="recorded histories (JSONL, plain or gzip)")
    parser.add_argument("--show", type=int, default=100, metavar="N", help="differences that are printed at most")
    parser.add_argument(
        "--kafka", choices=KAFKA_VERSIONS, default=OF_OLD_LOGS, metavar="VERSION",
        help="the version whose rules histories go by that do not say (%(default)s)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        with count_progress("histories") as advance:
            report = verify_histories(options.files, lambda report: advance(report.histories, 0), options.kafka)
    except (ValueError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    for difference in report.differences[: options.show]:
        print(*difference.lines(), sep="\n")
    if len(report.differences) > options.show:
        print(f"... and {len(report.differences) - options.show} more differences (--show)")
    print(report.summary())
    if not report.steps:
        named = ", ".join(map(str, options.files))
        print(f"Nothing was verified: {named}: no step of a recorded history.", file=sys.stderr)
    return int(bool(report.differences) or not report.steps)


if __name__ == "__main__":
    sys.exit(main())
