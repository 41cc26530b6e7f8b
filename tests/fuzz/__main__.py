"""`make fuzz SECONDS=600`: damaged input for every decoder, until the time is up.
Prints what breaks, and how to see it again."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from itertools import count
from random import Random

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS, Target

BROKEN_MAX = 10
ROUND = 500
"""Tries of one decoder before it is the next one's turn."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="where the seeds begin (default: the time)")
    parser.add_argument("--target", choices=TARGETS, help="this decoder only")
    parser.add_argument("--once", action="store_true", help="this one seed only")
    options = parser.parse_args()
    targets = [TARGETS[options.target]] if options.target else list(TARGETS.values())
    if options.once:
        sys.exit(0 if all(_holds(target, options.seed) for target in targets) else 1)
    end_s, tries, broken = time.monotonic() + options.seconds, 0, 0
    for first in count(options.seed, ROUND):
        for target in targets:
            for seed in range(first, first + ROUND):
                tries += 1
                broken += not _holds(target, seed)
                if time.monotonic() > end_s or broken >= BROKEN_MAX:
                    print(f"{tries} inputs for {len(targets)} decoders: {broken} raised what is not documented")
                    sys.exit(1 if broken else 0)


def _holds(target: Target, seed: int) -> bool:
    dice = Random(f"{target.name}-{seed}")
    corpus = target.examples()
    data = mutated(dice.choice(corpus), corpus, dice)
    try:
        target.try_(data)
    except Exception:
        print(
            f"{traceback.format_exc()}\ninput: {data[:2_000]!r}\n"
            f"again: python -m tests.fuzz --target {target.name} --seed {seed} --once\n",
            flush=True,
        )
        return False
    return True


if __name__ == "__main__":
    main()
