"""`python -m tests.random_requests --sequences 5000 --from 2`: many sequences of random requests, judged by rules."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.random_requests.request_sequence import problems_of

_CHUNK = 20


def main() -> int:
    """Run the command; return 1 if a rule is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_requests", description=__doc__)
    parser.add_argument("--sequences", type=int, default=500, help="how many (default 500)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (default 0)")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.sequences)
    broken = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for seed, problem in zip(seeds, pool.map(problems_of, seeds, chunksize=_CHUNK), strict=True):
            if problem:
                broken += 1
                print(f"seed {seed}: {problem}", flush=True)
    print(f"{len(seeds)} sequences: {broken} broke a rule")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
