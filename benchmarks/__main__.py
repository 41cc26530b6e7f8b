"""All benchmarks, one after the other: `make bench`, `make bench QUICK=1`, `make bench ARGS="query latency"`.

What they print is written into docs/performance.md (but for quick ones), between the marks `<!-- name -->` and `<!-- /name -->`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "performance.md"


class Benchmark(Struct, frozen=True):
    """How a module of this package is called."""

    full: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ()
    """None: it has no quick form."""


BENCHMARKS = {
    "core": Benchmark(full=("--jvm", "--runs", "3", "--write"), quick=("--jvm", "--quick")),
    "assignors": Benchmark(full=("--jvm", "--write"), quick=("--quick",)),
    "query": Benchmark(full=("--plot",), quick=("--touched", "200", "--beats", "2", "--batches", "1", "--buckets")),
    "latency": Benchmark(full=("--plot",), quick=("--rates", "50", "--seconds", "3", "--rounds", "1", "--compiling", "1")),
    "batch_cost": Benchmark(full=("--rounds", "2", "--batches", "40"), quick=None),
    "idle_groups": Benchmark(full=("--plot",), quick=None),
    "replay": Benchmark(full=("--plot",), quick=("--events", "100000", "--cores", "2", "--day-share", "0")),
    "scale_out": Benchmark(full=("--plot",), quick=None),
}


def run(name: str, arguments: tuple[str, ...]) -> str:
    """What a benchmark printed. A process of its own: the heap of one must not slow the next."""
    print(f"\n== {name}", flush=True)
    said = []
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            said.append(line)
    if process.returncode:
        sys.exit(process.returncode)
    return "".join(said).strip("\n")


def write(name: str, said: str) -> None:
    """Put it into the document, where its marks are."""
    text = DOCUMENT.read_text()
    block = f"<!-- {name} -->\n```\n{said}\n```\n<!-- /{name} -->"
    DOCUMENT.write_text(re.sub(f"<!-- {name} -->.*?<!-- /{name} -->", lambda _: block, text, flags=re.DOTALL))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; all without")
    parser.add_argument("--quick", action="store_true", help="three minutes instead of thirty, and nothing is written down")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no {unknown[0]}: {', '.join(BENCHMARKS)}")
    for name in arguments.names or BENCHMARKS:
        benchmark = BENCHMARKS[name]
        if not arguments.quick:
            write(name, run(name, benchmark.full))
        elif benchmark.quick is not None:
            run(name, benchmark.quick)


if __name__ == "__main__":
    main()
