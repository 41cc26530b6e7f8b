"""Fifty consumers of five libraries come and go: `python -m tests.coordinating.gateway.endurance [--minutes 10]`.

Everything as in service: a broker, `group-coordinator run` and `group-coordinator gateway`, each a process. All the
while records flow into a topic of each group, and consumers are closed, killed and started again. In the middle
everybody holds still and the coordinator is killed (kill -9) and started again: nobody may lose a partition by it. Then
the gateway is: nobody may, but in groups with clients in Go, which give up their membership where nobody listens, and
in those that a client in Java leads, which forgets there what topics there are and joins again. At the end every
rebalance of the history must be somebody's doing, and every record read. Beside them a group of each of librdkafka,
Java and franz-go consumes, transforms and produces in transactions: its loops are killed, too, and every record must
come out once.

With `--away-minutes 10` a responder answers, which is a process of its own, too, and the coordinator stays away for so
long: nobody may lose a partition or get an error after which it does not ask again, and when it is back it must give
the same answers.
The exit code is 1 when it is not so.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Message
from confluent_kafka.admin import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from schemas.events import encode_json
from schemas.history import History, LeaderElected, RebalanceStarted, decode_history
from tests.coordinating.gateway.answer_audit import wait_for_the_query
from tests.coordinating.gateway.audit import audit, lost
from tests.coordinating.gateway.clients.consumers import GO_LIBRARIES, Library
from tests.coordinating.gateway.commands import Command
from tests.coordinating.gateway.endurance_groups import PARTITIONS, PATIENCE_S, Group, Records
from tests.coordinating.gateway.loops import LoopGroup, compile_loops

CHURN_INTERVAL_S = 4.0
STILL_S = 30.0
"""How long is watched whether a restart moves anything."""


class Endurance:
    """One run."""

    def __init__(
        self, minutes: float, groups: int, session_s: int, seed: int, stack: ExitStack, away_minutes: float = 0.0
    ) -> None:
        """`away_minutes`: so long is the coordinator away; 0: it is started again at once, and there is no responder.
        """
        self._minutes, self._chance, self._away_minutes = minutes, random.Random(seed), away_minutes
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="endurance-")))
        loop_libraries = compile_loops(directory)
        libraries: list[Library] = ["librdkafka", "kafka-python", "java", "librdkafka"]
        has_go = "franz-go" in loop_libraries
        say("Kafka, the coordinator and the gateway start")
        kafka, port = stack.enter_context(EmbeddedKafka()), free_port()
        servers = kafka.bootstrap_servers
        self._metrics_port = free_port()
        self.history: list[History] = []
        self._servers = servers
        self._away_ms = 0, 0
        """Since when the coordinator was away, and until when."""
        self._start_commands(directory, port, stack)
        reader = TopicFollower({"bootstrap.servers": servers}, "endurance", self._hear)
        reader.start(from_beginning=[("coordinator.history", 0)])
        stack.callback(reader.stop)
        self._groups = []
        for number in range(groups):
            cooperative = number % 3 == 2
            fifth: Library = (
                "librdkafka"
                if not has_go or number % 2 == 0
                else "franz-go"
                if cooperative or number % 4 == 1
                else "sarama"
            )
            group = Group(
                f"group-{number}", [*libraries, fifth], f"127.0.0.1:{port}", directory, session_s,
                static=number % 5 == 4, cooperative=cooperative,
            )  # fmt: skip
            stack.callback(group.end)
            self._groups.append(group)
        self._loops = [LoopGroup(library, kafka, f"127.0.0.1:{port}", directory) for library in loop_libraries]
        for loops in self._loops:
            stack.callback(loops.end)
        names = [group.name for group in self._groups] + [loops.source for loops in self._loops]
        targets = [loops.target for loops in self._loops]
        admin = new_admin_client({"bootstrap.servers": servers})  # held: without it there is no answer
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names + targets]).values():
            future.result(30)
        self._records = Records(servers, names)

    def _start_commands(self, directory: Path, port: int, stack: ExitStack) -> None:
        """The coordinator, the gateway at this port and, if one is wanted, the responder."""
        settings = (
            "--bootstrap-servers", self._servers, "--checkpoint", str(directory / "checkpoint"),
            "--group-initial-rebalance-delay-ms", "0",
        )  # fmt: skip
        apart = ("--responders", "--trigger-interval-ms", "2000") if self._away_minutes else ()
        self._run = Command(directory / "run", "The coordinator runs", "run", *settings, *apart)
        self._gateway = Command(
            directory / "gateway", "The gateway is ready", "gateway", "--bootstrap-servers", self._servers, "--listen",
            f"127.0.0.1:{port}", "--metrics-port", str(self._metrics_port), "--transactions",
        )  # fmt: skip
        relay = Command(directory / "relay", "Relaying", "relay", "--bootstrap-servers", self._servers)
        responder = Command(directory / "responder", "shard 0: ", "responder", *settings)
        for command in (self._run, *([responder] if self._away_minutes else []), relay, self._gateway):
            command.start()
            stack.callback(command.kill)
        if self._away_minutes:
            responder.wait_for(" at offset ")  # it answers

    def live(self) -> list[str]:
        """From the first start to the audit; what was wrong."""
        say(
            f"{sum(len(group.libraries) for group in self._groups)} consumers of "
            f"{len({library for group in self._groups for library in group.libraries})} libraries start"
        )
        for group in self._groups:
            group.complete()
            time.sleep(1)
        self._settle()
        self._churn(self._minutes / 2)
        problems = self._disturbs_nobody("the coordinator is killed and started again", self._restart_coordinator)
        problems += self._judge_answers() if self._away_minutes else []
        away_from = len(self.history)
        problems += self._disturbs_nobody("the gateway is started again", self._restart_gateway, is_excused=self._feels)
        self._excuse(away_from)
        self._churn(self._minutes / 2)
        self._settle()
        self._records.stop()
        return problems + self._judge()

    def _churn(self, minutes: float) -> None:
        end, told_at = time.monotonic() + minutes * 60, 0.0
        all_groups: list[Group | LoopGroup] = [*self._groups, *self._loops]
        while time.monotonic() < end:
            for loops in self._loops:
                loops.look()
            disturbance = self._chance.choice(all_groups).disturb(self._chance)
            if time.monotonic() > told_at + 20:
                told_at = time.monotonic()
                say(
                    f"{disturbance}; {sum(len(group.read()) for group in self._groups)} records read, "
                    f"{len(self.history)} records of history"
                )
            time.sleep(CHURN_INTERVAL_S)

    def _settle(self) -> None:
        for group in self._groups:
            group.complete()
        for group in self._groups:
            group.settle()
        say("all groups are complete and share their partitions")

    def _disturbs_nobody(
        self, name: str, do: Callable[[], None], is_excused: Callable[[Group], bool] = lambda _: False
    ) -> list[str]:
        self._settle()
        time.sleep(STILL_S)  # who was killed a while ago expires before
        self._settle()
        groups = [group for group in self._groups if not is_excused(group)]
        watched = [member for group in groups for member in group.members.values()]
        event_counts = {member.name: len(member.events) for member in watched}
        rebalances = self._rebalances(groups)
        since = time.monotonic()
        do()
        took_s = time.monotonic() - since
        time.sleep(STILL_S)
        moved = [
            f"{name}: {member.name} said {[words for _, words in member.events[event_counts[member.name]:]]}"
            for member in watched
            if len(member.events) > event_counts[member.name]
        ]
        more = self._rebalances(groups) - rebalances
        say(f"{name} (away for {took_s:.0f} s): {len(moved)} of {len(watched)} consumers felt it, {more} rebalances")
        return moved + ([f"{name}: {more} rebalances"] if more else [])

    def _rebalances(self, groups: list[Group]) -> int:
        names = {group.name for group in groups}
        return sum(isinstance(record, RebalanceStarted) and record.group_id in names for record in list(self.history))

    def _restart_coordinator(self) -> None:
        since_ms = int(time.time() * 1_000)
        self._run.kill()
        time.sleep(60 * self._away_minutes)
        self._run.start()
        self._run.wait_for(" members, ")  # its first batch has ended: it answers
        self._away_ms = since_ms, int(time.time() * 1_000)

    def _judge_answers(self) -> list[str]:
        """What is wrong with the answers that the responder has given while the coordinator was away."""
        result = wait_for_the_query(self._servers, "coordinator.responses", *self._away_ms)
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics") as scraped:
            families = text_string_to_metric_families(scraped.read().decode())
        samples = {sample.name: sample.value for family in families for sample in family.samples}
        handed_over = samples["group_coordinator_gateway_answers_handed_over_total"]
        say(
            f"{result.by_responders} answers by the responder meanwhile, {handed_over:.0f} handed over since the "
            f"start; errors: {dict(result.errors)}"
        )
        return result.problems + [f"an answer with the error {name}" for name in result.final_errors]

    def _restart_gateway(self) -> None:
        self._gateway.stop()
        self._gateway.start()

    def _feels(self, group: Group) -> bool:
        """Whether a gateway that is away moves it."""
        leaders = [
            record.leader
            for record in self.history
            if isinstance(record, LeaderElected) and record.group_id == group.name
        ]
        library = {member.name: member.library for member in group.all}[leaders[-1].client_id]
        return library == "java" or bool(set(GO_LIBRARIES) & set(group.libraries))

    def _excuse(self, away_from: int) -> None:
        """From there in the history until now clients in Go may have come anew, and leaders in Java again."""
        self._settle()
        for group in self._groups:
            # All that were ever there: a static member is known by the client id that it came with first.
            group.doings.gave_up = {member.name for member in group.all if member.library in GO_LIBRARIES}
            group.doings.looked_anew = {member.name for member in group.all if member.library == "java"}
            group.doings.away = range(away_from, len(self.history))

    def _judge(self) -> list[str]:
        deadline = time.monotonic() + PATIENCE_S
        problems: list[str] = []
        for group in self._groups:
            while list(lost(self._records.produced, group.read())) and time.monotonic() < deadline:
                time.sleep(0.5)
            problems += [f"{group.name}: {problem}" for problem in lost(self._records.produced, group.read())]
            problems += [
                f"{member.name} read {member.strays} records of partitions that it did not own"
                for member in group.all
                if member.strays
            ]
            problems += [f"{member.name} jumped: {jump}" for member in group.all for jump in member.jumps]
        for loops in self._loops:
            problems += loops.problems(self._records.produced, PATIENCE_S)
        of_loops = {loops.name for loops in self._loops}  # they begin anew when something fails
        result = audit({group.name: group.doings for group in self._groups}, self.history, apart=of_loops)
        reads = sum(len(group.read()) for group in self._groups)
        again = sum(len(group.read()) - len(set(group.read())) for group in self._groups)
        say(
            f"{self._records.produced * len(self._groups)} records, {reads} reads, "
            f"{again} of them again after a crash or a rebalance"
        )
        say(
            f"{sum(len(group.all) for group in self._groups)} consumers started, "
            f"{sum(len(group.doings.closed) for group in self._groups)} closed, "
            f"{sum(len(group.doings.killed) for group in self._groups)} killed"
        )
        say(
            f"{result.rebalances.total()} rebalances: "
            + ", ".join(f"{count} {trigger}" for trigger, count in result.rebalances.most_common())
        )
        return problems + result.problems

    def _hear(self, messages: list[Message]) -> None:
        self.history += [decode_history(value) for message in messages if (value := message.value()) is not None]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.coordinating.gateway.endurance", description="Many consumers come and go, for a while."
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument(
        "--session-seconds",
        type=int,
        default=120,
        help="session timeout: more than the coordinator's restart takes beside fifty clients on two cores",
    )
    parser.add_argument(
        "--away-minutes", type=float, default=0.0, help="a responder answers, while the coordinator is away for so long"
    )
    parser.add_argument("--history", type=Path, help="write the history there, a line for each record")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # all that was started ends with us
    with ExitStack() as stack:
        run = Endurance(
            options.minutes, options.groups, options.session_seconds, options.seed, stack, options.away_minutes
        )
        problems = run.live()
    if options.history is not None:
        options.history.write_bytes(b"".join(encode_json(record) + b"\n" for record in run.history))
    for problem in problems:
        say(f"WRONG: {problem}")
    say("It held." if not problems else f"{len(problems)} things were wrong.")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
