"""The driver of a story: it starts members as processes, does to them and to brokers what the story says, and writes
down both, beside what an admin client sees."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from tests.clusters.cluster import CLIENT_PROPERTIES, Broker
from tests.clusters.member import Settings, live
from tests.clusters.polls import Poller
from tests.clusters.programs import KINDS, PROGRAMS, Programs
from tests.clusters.story import Step, group_of
from tests.watching.observed.recorded import driver_s_name

_POLL_INTERVAL_S = 2.0
_TIMEOUT_S = 20.0
_SETTLED_S = 90.0
"""After this time members that are in no stable group are a failure of the story."""
_PRODUCE_INTERVAL_S = 0.7
_PROCESSES = get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.clusters.member"])
_PROTOCOL = "group.protocol"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Journal:
    """Lines of JSON that several threads write."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, line: Mapping[str, object]) -> None:
        with self._lock:
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()


class Driver:
    """Plays a story against a running cluster. The broker that a step means is that of its name, else the first."""

    def __init__(
        self, brokers: Mapping[int, Broker], truth: Journal, version: str, programs: Programs | None = None
    ) -> None:
        self._programs = programs
        self._brokers = brokers
        self._version = version
        self._truth = truth
        self._servers = ",".join(broker.bootstrap_servers for broker in brokers.values())
        self._admin = AdminClient({"bootstrap.servers": self._servers, "client.id": "driver-admin", "log_level": 0})
        self._members: dict[str, tuple[BaseProcess, Connection]] = {}
        self._libraries: dict[str, str] = {}
        """Of groups."""
        self._partitions: dict[str, int] = {}
        self._listeners: list[threading.Thread] = []
        self._seen: tuple[int, list[dict[str, Any]]] = (0, [])
        """When the last poll began, and the groups that it saw."""

    def play(self, steps: Sequence[Step], admin: Journal) -> None:
        """Do all steps in their time; while brokers start or stop and groups settle, the story's clock stands still."""
        poller = Poller(self._servers, self._programs)
        with (
            closing(poller),
            self._beside(lambda: self._poll(poller, admin), _POLL_INTERVAL_S),
            self._beside(*self._producing()),
        ):
            begun = time.monotonic()
            for step in steps:
                time.sleep(max(0.0, begun + step.at_s - time.monotonic()))
                before = time.monotonic()
                getattr(self, f"_{step.action}")(step)
                if step.action in ("broker_start", "broker_stop", "topic_created", "settled"):
                    begun += time.monotonic() - before
        self.close()

    def close(self) -> None:
        """End the members that are left, without a word of it: the story is over."""
        for process, _ in self._members.values():
            with suppress(ProcessLookupError):
                os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
        self._members.clear()
        for listener in self._listeners:
            listener.join()

    def _start(self, step: Step) -> None:
        values = dict(step.values)
        topics, library = values.pop("topics"), values.pop("library", "librdkafka")
        has_transactions = values.pop("transactions", None) is not None
        has_own_timeouts = values.get(_PROTOCOL) != "consumer" and library not in KINDS
        props: dict[str, Any] = dict(CLIENT_PROPERTIES) if has_own_timeouts else {}
        props |= {name: int(value) if value.isdigit() else value for name, value in values.items()}
        for name in step.names:
            transactional_id = name if has_transactions else None
            settings = Settings(
                self._servers, name, group_of(name), tuple(topics.split(",")), library, props, transactional_id
            )
            told = settings._asdict() | {"txn": transactional_id}
            del told["bootstrap_servers"], told["transactional_id"]
            self._tell("start", **told)
            self._libraries[settings.group] = library
            self._members[name] = self._begin(settings)
            listener = threading.Thread(target=self._listen, args=self._members[name][1:], daemon=True)
            listener.start()
            self._listeners.append(listener)

    def _begin(self, settings: Settings) -> tuple[BaseProcess, Connection]:
        if settings.library in PROGRAMS:
            assert self._programs is not None
            return self._programs.start(settings)
        ours, theirs = _PROCESSES.Pipe()
        process = _PROCESSES.Process(target=live, args=(settings, theirs), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def _listen(self, pipe: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._truth.write(json.loads(pipe.recv_bytes()))

    def _stop(self, step: Step) -> None:
        self._command(step, "stop", "stop")

    def _hang(self, step: Step) -> None:
        self._command(step, "hang", "hang", float(step.values["seconds"]))

    def _subscribe(self, step: Step) -> None:
        self._command(step, "subscribe", "subscribe", step.values["topics"].split(","))

    def _command(self, step: Step, action: str, *command: object) -> None:
        for name in step.names:
            process, pipe = self._members[name]
            if process.is_alive():  # it may have died of an error
                self._tell(action, client_id=name, group=group_of(name), what=command[1:])
                pipe.send_bytes(json.dumps(command).encode())

    def _kill(self, step: Step) -> None:
        self._signal(step, "kill", signal.SIGKILL)

    def _freeze(self, step: Step) -> None:
        self._signal(step, "freeze", signal.SIGSTOP)

    def _thaw(self, step: Step) -> None:
        self._signal(step, "thaw", signal.SIGCONT)

    def _signal(self, step: Step, action: str, number: int) -> None:
        for name in step.names:
            process = self._members[name][0]
            if process.is_alive():
                self._tell(action, client_id=name, group=group_of(name))
                os.kill(process.pid or 0, number)

    def _cluster(self, _: Step) -> None:
        self._tell("cluster_started", version=self._version, brokers=len(self._brokers))

    def _topic_created(self, step: Step) -> None:
        replicas = min(3, len(self._brokers))
        topics = [NewTopic(topic, int(count), replicas) for topic, count in step.values.items()]
        for topic, future in self._admin.create_topics(topics).items():
            self._done(future, "topic_created", topic=topic, partitions=int(step.values[topic]))
            self._partitions[topic] = int(step.values[topic])

    def _partitions_added(self, step: Step) -> None:
        wanted = [NewPartitions(topic, int(count)) for topic, count in step.values.items()]
        for topic, future in self._admin.create_partitions(wanted).items():
            self._done(future, "partitions_added", topic=topic, partitions=int(step.values[topic]))
            self._partitions[topic] = int(step.values[topic])

    def _topic_deleted(self, step: Step) -> None:
        for topic, future in self._admin.delete_topics(list(step.names)).items():
            self._partitions.pop(topic)
            self._done(future, "topic_deleted", topic=topic)

    def _group_deleted(self, step: Step) -> None:
        for group, future in self._admin.delete_consumer_groups(list(step.names)).items():
            self._done(future, "group_deleted", group=group)

    def _offsets_set(self, step: Step) -> None:
        """As the tool resets offsets of a group without members; a group that is not there begins so."""
        offsets = {
            place: OffsetAndMetadata(int(step.values[place.topic]), "", -1) for place in self._places(step.values)
        }
        self._libraries.setdefault(step.names[0], "")
        self._operated(lambda admin: admin.alter_group_offsets(step.names[0], offsets), "offsets_set", step)

    def _offsets_deleted(self, step: Step) -> None:
        places = self._places(step.values)
        self._operated(lambda admin: admin.delete_group_offsets(step.names[0], places), "offsets_deleted", step)

    def _leaders_moved(self, step: Step) -> None:
        """Let each partition of a topic be led by the next of its replicas, none of which goes away."""

        def move(admin: KafkaAdminClient) -> None:
            [topic] = admin.describe_topics(list(step.names))
            partitions = {each["partition_index"]: each["replica_nodes"] for each in topic["partitions"]}
            admin.alter_partition_reassignments({
                TopicPartition(step.names[0], number): [*nodes[1:], nodes[0]] for number, nodes in partitions.items()
            })  # fmt: skip
            admin.elect_leaders(0, {step.names[0]: sorted(partitions)}, raise_errors=False)

        self._operated(move, "leaders_moved", step)

    def _places(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in topics for number in range(self._partitions[topic])]

    def _operated(self, operate: Callable[[KafkaAdminClient], object], action: str, step: Step) -> None:
        facts: dict[str, object] = {"names": step.names, **step.values}
        admin = KafkaAdminClient(bootstrap_servers=self._servers, client_id="driver-operator")
        with closing(admin):
            try:
                operate(admin)
            except KafkaError as problem:
                facts["error"] = str(problem)
        self._tell(action, **facts)

    def _done(self, future: Future[Any], action: str, **facts: object) -> None:
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as problem:
            facts["error"] = str(problem)
        self._tell(action, **facts)

    def _broker(self, step: Step) -> Broker:
        return self._brokers[int(step.names[0]) if step.names else 1]

    def _broker_start(self, step: Step) -> None:
        broker = self._broker(step)
        self._tell("broker_start", broker=broker.number)
        broker.start()
        self._tell("broker_started", broker=broker.number)

    def _broker_stop(self, step: Step) -> None:
        broker = self._broker(step)
        self._tell("broker_stop", broker=broker.number)
        broker.stop()
        self._tell("broker_stopped", broker=broker.number)

    def _broker_kill(self, step: Step) -> None:
        self._tell("broker_kill", broker=self._broker(step).number)
        self._broker(step).kill()

    def _broker_freeze(self, step: Step) -> None:
        self._tell("broker_freeze", broker=self._broker(step).number)
        self._broker(step).freeze()

    def _broker_thaw(self, step: Step) -> None:
        self._tell("broker_thaw", broker=self._broker(step).number)
        self._broker(step).thaw()

    def _settled(self, step: Step) -> None:
        """Wait until an admin client sees each living member in a group that is stable: a slow machine joins later."""
        begun, ends = now_ms(), time.monotonic() + _SETTLED_S
        while not (self._seen[0] >= begun and self._stable_members() == self._living()):
            if time.monotonic() > ends:
                raise AssertionError(f"groups do not settle at {step.at_s} s: {self._living()}, {self._seen[1]}")
            time.sleep(_POLL_INTERVAL_S / 4)

    def _stable_members(self) -> set[str]:
        stable = (group for group in self._seen[1] if group["state"] in ("Stable", "Empty"))
        return {driver_s_name(member["client_id"]) for group in stable for member in group["members"]}

    def _living(self) -> set[str]:
        return {name for name, (process, _) in self._members.items() if process.is_alive()}

    def _end(self, _: Step) -> None:
        self._tell("end")

    def _tell(self, action: str, **facts: object) -> None:
        self._truth.write({"at_ms": now_ms(), "action": action, **facts})

    def _poll(self, poller: Poller, admin: Journal) -> None:
        at_ms = now_ms()
        try:
            groups = poller.poll(dict(self._libraries))
            self._seen = (at_ms, groups)
            seen: dict[str, object] = {"groups": groups}
        except KafkaException as problem:
            seen = {"error": str(problem)}
        admin.write({"at_ms": at_ms, "until_ms": now_ms(), **seen})

    def _producing(self) -> tuple[Callable[[], None], float]:
        """Return what gives each partition a record now and then, and how often."""
        producer = Producer({"bootstrap.servers": self._servers, "client.id": "driver-producer", "log_level": 0})

        def produce() -> None:
            for topic, partitions in list(self._partitions.items()):
                for partition in range(partitions):
                    with suppress(BufferError, KafkaException):
                        producer.produce(topic, b"x", partition=partition)
            producer.poll(0)

        return produce, _PRODUCE_INTERVAL_S

    @contextmanager
    def _beside(self, do: Callable[[], None], interval_s: float) -> Iterator[None]:
        """Do something again and again while the story is played."""
        over = threading.Event()

        def repeat() -> None:
            while not over.wait(interval_s):
                do()

        with ThreadPoolExecutor(1) as threads:
            repeating = threads.submit(repeat)
            try:
                yield
            finally:
                over.set()
            repeating.result()
