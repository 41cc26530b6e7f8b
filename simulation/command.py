"""`python -m simulation`: many seeds over all cores, or the description of one."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from simulation.generate import scenario_of
from simulation.narration import narrate
from simulation.run import run_world
from simulation.shrink import TRIES_MAX, shrink

SEEDS = 3_000
_PROGRESS_EVERY = 10_000
"""Seeds between two lines of progress where no terminal is."""
_CHUNK = 10


class Finding(NamedTuple):
    """A seed that breaks a rule."""

    seed: int
    rules: tuple[str, ...]
    message: str

    def lines(self) -> Iterator[str]:
        yield f"seed {self.seed}: {self.message[:500]}"
        if len(self.rules) > 1:
            yield f"  and {', '.join(self.rules[1:])}"
        yield f"  its story: python -m simulation --seed {self.seed} --story"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if a rule is broken."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many seeds to live through (default {SEEDS})")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one for each core)")
    parser.add_argument("--seed", type=int, help="live through this seed only")
    parser.add_argument("--story", action="store_true", help="describe the run of the seed, shrunk as far as possible")
    parser.add_argument("--whole", action="store_true", help="with --story: do not shrink it")
    options = parser.parse_args(arguments)
    if options.seed is None:
        return _run_seeds(range(options.first, options.first + options.seeds), options.jobs)
    if options.story:
        return _story(options.seed, 0 if options.whole else TRIES_MAX)
    return _run_seeds(range(options.seed, options.seed + 1), jobs=1)


def try_seed(seed: int) -> tuple[Finding | None, int]:
    """Return what a seed breaks, if anything, and its number of requests."""
    outcome = run_world(scenario_of(seed))
    if not outcome.violations:
        return None, outcome.requests
    rules = tuple(violation.rule for violation in outcome.violations)
    return Finding(seed, rules, str(outcome.violations[0])), outcome.requests


def try_seeds(seeds: Sequence[int], jobs: int) -> Iterator[tuple[list[Finding], int, int]]:
    """Yield findings, number of seeds and number of requests, chunk by chunk in the order of the seeds."""
    chunks = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
    if jobs <= 1:
        for chunk in chunks:
            yield (*_try_all(chunk), len(chunk))
        return
    with ProcessPoolExecutor(jobs) as pool:
        for chunk, (findings, requests) in zip(chunks, pool.map(_try_all, chunks), strict=True):
            yield findings, requests, len(chunk)


def _try_all(seeds: Iterable[int]) -> tuple[list[Finding], int]:
    tried = [try_seed(seed) for seed in seeds]
    return [finding for finding, _ in tried if finding is not None], sum(requests for _, requests in tried)


def _run_seeds(seeds: range, jobs: int) -> int:
    began_s = time.monotonic()
    findings: list[Finding] = []
    requests = seeds_done = 0
    for new_findings, new_requests, count in try_seeds(seeds, jobs):
        findings += new_findings
        requests, seeds_done = requests + new_requests, seeds_done + count
        for finding in new_findings:
            print("\n".join(finding.lines()), flush=True)
        if sys.stderr.isatty():
            print(f"\r{seeds_done} of {len(seeds)}", end="", file=sys.stderr)
        elif seeds_done % _PROGRESS_EVERY < count:
            print(f"{seeds_done} of {len(seeds)} seeds, {len(findings)} broke a rule", file=sys.stderr, flush=True)
    took_s = time.monotonic() - began_s
    print(
        f"{seeds_done} worlds with {requests} requests in {took_s:.0f} s "
        f"({seeds_done / took_s:.0f} a second, {jobs} processes): {len(findings)} broke a rule"
    )
    return 1 if findings else 0


def _story(seed: int, tries_max: int) -> int:
    scenario = scenario_of(seed)
    violations = run_world(scenario).violations
    if violations and tries_max:
        scenario = shrink(scenario, violations[0].rule, tries_max)
    for line in narrate(scenario, run_world(scenario, keep_steps=True)):
        print(line)
    return 1 if violations else 0
