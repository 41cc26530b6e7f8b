"""`make crash-test KILLS=20`: kill the coordinator that often, and compare it with one that nobody disturbed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.runner import CrashRun


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how often to kill (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="of the log and the kills (default: the time)"
    )
    parser.add_argument(
        "--directory", type=Path, help="where data and logs go, kept (default: a temporary one, kept on failure)"
    )
    options = parser.parse_args()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="crash-test-"))
    again = f"make crash-test KILLS={options.kills} SEED={options.seed}"
    print(f"{again}   (data and logs: {directory})", flush=True)
    try:
        report = CrashRun(
            directory, kills=options.kills, seed=options.seed, report=lambda text: print(text, flush=True)
        ).run()
    except AssertionError as problem:
        sys.exit(f"FAILED: {problem}\nThe same again: {again}\nData and logs: {directory}")
    print(f"Identical. {report}")


if __name__ == "__main__":
    main()
