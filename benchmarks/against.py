"""Whether answers without a responder take longer than at another commit, in turns in one run.

    python -m benchmarks.against COMMIT [--rates 50 2] [--seconds 12] [--rounds 6] [--compiling 25]

`group-coordinator run` of both commits works on one broker, each with a topic prefix of its own. Heartbeats of stable
groups, evenly spread over time, go through one and then the other. Percentiles of milliseconds, and their ratios.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.arguments import command_parser
from benchmarks.gateway_latency import command
from benchmarks.heartbeat_groups import beginnings, config, flags
from benchmarks.latency import COMPILING_RATE, GROUPS, figure, measure
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.config import StreamingConfig

ROOT = Path(__file__).parents[1]


@contextmanager
def checked_out(commit: str, place: Path) -> Iterator[Path]:
    """The files of a commit."""
    git = partial(subprocess.run, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    git(["git", "worktree", "add", "--quiet", "--detach", str(place), commit])
    try:
        yield place
    finally:
        git(["git", "worktree", "remove", "--force", str(place)])


@contextmanager
def coordinating(tree: Path | None, settings: StreamingConfig, scratch: Path) -> Iterator[None]:
    """The coordinator of a checkout, or of this one, with groups that are stable."""
    log = scratch / f"{settings.topic_prefix}.log"
    with command(log, "The coordinator runs", "run", *flags(settings), tree=tree):
        producer = Producer(settings.client_properties)
        for key, value in beginnings(GROUPS):
            producer.produce(settings.topics.events, key=key, value=value, partition=0)
        producer.flush()
        yield


def times_ms(settings: StreamingConfig, rate: int, seconds: float) -> list[float]:
    topics = settings.topics
    return measure(settings, topics.events, topics.responses, lambda message: message.key(), rate, seconds)


def main() -> None:
    parser = command_parser("against", __doc__)
    parser.add_argument("commit", help="the other commit")
    parser.add_argument("--rates", type=int, nargs="+", default=[50, 2], help="requests each second")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each is measured in a round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--compiling", type=float, default=25.0, help="seconds that each runs unmeasured before")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = stack.enter_context(EmbeddedKafka()).bootstrap_servers
        trees = {"now": None, "before": stack.enter_context(checked_out(arguments.commit, scratch / "tree"))}
        shared = {"bootstrap_servers": servers, "responses_partitions": 1}
        apps = {name: config(topic_prefix=name, checkpoint=f"{scratch}/{name}", **shared) for name in trees}
        for name, tree in trees.items():
            stack.enter_context(coordinating(tree, apps[name], scratch))
        for settings in apps.values():
            times_ms(settings, COMPILING_RATE, arguments.compiling)
        for rate in arguments.rates:
            times: dict[str, list[float]] = {name: [] for name in apps}
            for turn in range(arguments.rounds):
                for name in (*apps,) if turn % 2 else reversed(apps):  # no one is always behind the other
                    times[name] += times_ms(apps[name], rate, arguments.seconds)
            now, before = (figure(name, rate, times[name]) for name in ("now", "before"))
            for of_one in (now, before):
                print(f"{rate:,} requests/s, {of_one.query}: p50 {of_one.p50_ms:.1f} ms, p99 {of_one.p99_ms:.1f} ms")
            print("before = 1: p50 {:.2f}, p99 {:.2f}".format(*now.ratios_to(before)), flush=True)


if __name__ == "__main__":
    main()
