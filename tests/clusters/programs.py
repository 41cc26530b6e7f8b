"""Members of groups of all kinds in Java, and what describes share and streams groups: Kafka's clients (`java/`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

from group_coordinator.coordinating.jars.java import SHORT_LIVED, find_java
from tests.clusters.member import Settings
from tests.clusters.versions import Version
from tests.kafka_programs import compile_java, streams_jars

KINDS = {"share": "ShareMember", "streams": "StreamsMember"}
"""By the library that a story names: members of groups that not each version knows."""
PROGRAMS = KINDS | {"java": "ConsumerMember"}
_ASSIGNORS = {"range": "Range", "roundrobin": "RoundRobin", "cooperative-sticky": "CooperativeSticky"}
_SOURCES = Path(__file__).with_name("java")
_STRATEGY = "partition.assignment.strategy"
_HEAP_MB = 96
_DESCRIBER = {"client.id": "driver-kinds", "default.api.timeout.ms": 8_000, "request.timeout.ms": 4_000}
_PROCESSES = get_context("forkserver")


class Programs:
    """The programs of one version of Kafka, compiled into a directory. Raises JarsError or JavaError."""

    def __init__(self, version: Version, libraries: Iterable[str], directory: Path) -> None:
        self._has_kinds = not KINDS.keys().isdisjoint(libraries)
        jars = [*version.jars(), *(streams_jars(version.text) if self._has_kinds else ())]
        directory.mkdir(parents=True)
        names = ["Driven", *(["Describer"] if self._has_kinds else []), *map(PROGRAMS.__getitem__, libraries)]
        classes = compile_java([_SOURCES / f"{name}.java" for name in names], directory, jars)
        self._class_path = os.pathsep.join(map(str, [classes, *jars]))
        self._directory = directory

    def start(self, member: Settings) -> tuple[BaseProcess, Connection]:
        """Start a member. Returns its process and the pipe to it."""
        props: dict[str, Any] = {"bootstrap.servers": member.bootstrap_servers, "client.id": member.client_id}
        if member.library == "streams":
            props |= {"application.id": member.group, "group.protocol": "streams", "commit.interval.ms": 2_000}
            props |= {"state.dir": self._directory / member.client_id, "consumer.auto.offset.reset": "earliest"}
        else:
            props |= {"group.id": member.group}
        if member.library == "java":
            props |= {"auto.offset.reset": "earliest", "enable.auto.commit": "false", "metadata.max.age.ms": 5_000}
        return self._run(
            PROGRAMS[member.library], member.client_id, ",".join(member.topics), props | _java(member.props)
        )

    def describer(self, bootstrap_servers: str) -> Describer | None:
        """Start what describes groups, if there are some of the kinds that need it."""
        if not self._has_kinds:
            return None
        return Describer(
            *self._run("Describer", "describer", "", {"bootstrap.servers": bootstrap_servers, **_DESCRIBER})
        )

    def _run(self, name: str, *arguments: str | dict[str, Any]) -> tuple[BaseProcess, Connection]:
        options = [*SHORT_LIVED, f"-Xmx{_HEAP_MB}m", "-Dlog4j2.level=OFF", "-cp", self._class_path, name]
        words = [text for text in arguments if isinstance(text, str)]
        words += [f"{key}={value}" for props in arguments if isinstance(props, dict) for key, value in props.items()]
        ours, theirs = _PROCESSES.Pipe()
        process = _PROCESSES.Process(target=_become, args=([str(find_java()), *options, *words], theirs), daemon=True)
        process.start()
        theirs.close()
        return process, ours


def _java(props: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties as Java's client has them: assignors are classes."""
    if _STRATEGY not in props:
        return dict(props)
    classes = [f"org.apache.kafka.clients.consumer.{_ASSIGNORS[name]}Assignor" for name in props[_STRATEGY].split(",")]
    return {**props, _STRATEGY: ",".join(classes)}


class Describer:
    """An admin client of Java's, that describes share and streams groups."""

    def __init__(self, process: BaseProcess, pipe: Connection) -> None:
        self._process = process
        self._pipe = pipe

    def describe(self, shares: Sequence[str], streams: Sequence[str]) -> list[dict[str, Any]]:
        """Return the groups that are there and whose coordinator answers, in the words of a recording."""
        self._pipe.send_bytes(json.dumps([shares, streams]).encode())
        groups: list[dict[str, Any]] = json.loads(self._pipe.recv_bytes())
        return groups

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _become(command: list[str], pipe: Connection) -> NoReturn:
    """Let a program take the place of this process, with the pipe as its standard input and output."""
    os.dup2(pipe.fileno(), 0)
    os.dup2(pipe.fileno(), 1)
    os.execv(command[0], command)
