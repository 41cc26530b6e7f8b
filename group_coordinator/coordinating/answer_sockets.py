"""A responder hands its answers to gateways on the same machine by Unix sockets, before Kafka has them.

A gateway binds a socket that is named by the run of its request ids, in a directory that only its user may enter. So
the id of a request says which socket its answer goes to, if there is one. Kafka gets every answer all the same.

Source: unix(7).
"""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from schemas.settings import setting

_HANDED_BYTES_MAX = 65_536
"""The most that is handed over at once; Linux takes three times as much from a socket with its defaults."""
_REQUEST_ID = re.compile(rb"([0-9a-f]{16})-[0-9a-f]+")
"""Whoever may write events chooses the request ids in them, and must not choose a path."""
_NAME = re.compile(r"[0-9a-f]{16}")
_PATH_BYTES_MAX = 103
"""The longest name of a socket everywhere: macOS takes 103 bytes, Linux 107."""
_GATEWAYS_MAX = 100
"""Gateways on one machine that have a socket of their own at the sender."""


class AnswerSocketError(RuntimeError):
    """No answers can be handed over: a sentence that says why."""


@dataclass(frozen=True, kw_only=True)
class AnswerSocketSettings:
    """Where responders and gateways on one machine meet."""

    answers_directory: str | None = setting(
        None, "Directory of the sockets by which responders hand answers to gateways on the same machine, before Kafka "
        "has them. Both must run as the user to whom it belongs. Empty: answers come through Kafka alone. Default: "
        "group-coordinator-UID in the system's directory for temporary files.")


class HandedAnswer(NamedTuple):
    """An answer as it lies on the responses topic."""

    request_id: bytes
    value: bytes
    headers: dict[str, str]


class AnswerDatagram(NamedTuple):
    """The answers that are handed over together."""

    timestamp_ms: int
    """Wall clock of the responder."""
    answers: list[HandedAnswer]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnswerDatagram).decode


class AnswerSocket:
    """The gateway's end: it takes answers until it is closed."""

    def __init__(self, directory: str | None, run_id: str) -> None:
        """`directory`: the setting; `run_id`: see `RequestIds`. Raises AnswerSocketError."""
        home = _home(directory)
        _remove_abandoned(home)
        self._path = home / run_id
        self._socket = _datagram_socket()
        try:
            with _explaining(self._path):
                self._socket.bind(str(self._path))
        except AnswerSocketError:
            self._socket.close()
            raise
        self._buffer = bytearray(2 * _HANDED_BYTES_MAX)
        self._view = memoryview(self._buffer)

    def fileno(self) -> int:
        """The descriptor, which is readable when there are answers."""
        return self._socket.fileno()

    def receive(self) -> AnswerDatagram | None:
        """Return what was handed over next, without waiting; None if there is nothing. What is not understood has no
        answers in it."""
        try:
            size = self._socket.recv_into(self._buffer)
        except BlockingIOError:
            return None
        try:
            return _decode(self._view[:size])
        except msgspec.DecodeError:
            return AnswerDatagram(0, [])

    def close(self) -> None:
        """Take no more."""
        self._socket.close()
        with suppress(OSError):
            self._path.unlink()


class AnswerSender:
    """The responder's end."""

    def __init__(self, directory: str | None) -> None:
        """`directory`: the setting. Raises AnswerSocketError."""
        self._home = str(_home(directory))
        self._by_gateway: dict[str, socket.socket] = {}
        """What a gateway has not taken yet fills the socket that it was sent by, so each has one of its own."""
        self._spare = _datagram_socket()
        """For the next gateway that is found."""

    def hand_over(self, answers: Iterable[HandedAnswer]) -> bool:
        """Hand each answer to the gateway that has asked. Return whether all of them have been: a gateway may be on
        another machine, or so busy that it takes no more for now."""
        by_gateway: dict[bytes, list[HandedAnswer]] = {}
        are_all_handed = True
        for answer in answers:
            request_id = _REQUEST_ID.fullmatch(answer.request_id)
            if request_id is None:
                are_all_handed = False
            else:
                by_gateway.setdefault(request_id[1], []).append(answer)
        now_ms = time.time_ns() // 1_000_000
        for run_id, its_answers in by_gateway.items():
            packed = _encode(AnswerDatagram(now_ms, its_answers))
            are_all_handed &= len(packed) <= _HANDED_BYTES_MAX and self._send(packed, run_id.decode())
        return are_all_handed

    def close(self) -> None:
        """Hand over nothing more."""
        self._spare.close()
        self._close_all()

    def _close_all(self) -> None:
        for own in self._by_gateway.values():
            own.close()
        self._by_gateway.clear()

    def _send(self, packed: bytes, run_id: str) -> bool:
        own = self._by_gateway.get(run_id)
        try:
            (own or self._spare).sendto(packed, f"{self._home}/{run_id}")
        except BlockingIOError:  # it is full
            return False
        except OSError:  # there is no such gateway here, or no more
            if own is not None:
                self._by_gateway.pop(run_id).close()
            return False
        if own is None:
            self._found(run_id)
        return True

    def _found(self, run_id: str) -> None:
        with suppress(AnswerSocketError):  # no descriptor is left: they go on to share one
            spare = _datagram_socket()
            if len(self._by_gateway) >= _GATEWAYS_MAX:
                self._close_all()  # the living ones are found again
            self._by_gateway[run_id], self._spare = self._spare, spare


def _home(directory: str | None) -> Path:
    """Return the directory, which is made if it is not there. Raises AnswerSocketError."""
    if not hasattr(socket, "AF_UNIX"):
        raise AnswerSocketError("this system has no Unix sockets")
    with _explaining(directory or "The directory of sockets"):
        if directory is None:
            home = Path(tempfile.gettempdir()) / f"group-coordinator-{os.geteuid()}"
        else:
            home = Path(directory)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise AnswerSocketError(f"{home} must be a directory that belongs to this user and that no other may enter")
    if len(os.fsencode(home)) + len("/0123456789abcdef") > _PATH_BYTES_MAX:
        raise AnswerSocketError(f"{home} is too long: the name of a socket in it has at most {_PATH_BYTES_MAX} bytes")
    return home


def _remove_abandoned(home: Path) -> None:
    """Remove the sockets of gateways that were killed."""
    with suppress(OSError, AnswerSocketError):  # if not this time, then next time
        for path in home.iterdir():
            if _NAME.fullmatch(path.name) and path.is_socket() and _is_abandoned(path):
                path.unlink(missing_ok=True)


def _is_abandoned(path: Path) -> bool:
    with _datagram_socket() as attempt:
        try:
            attempt.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False


def _datagram_socket() -> socket.socket:
    """Raises AnswerSocketError."""
    with _explaining("A socket"):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.setblocking(False)
        return made


@contextmanager
def _explaining(what: object) -> Iterator[None]:
    """Raise AnswerSocketError where the system refuses."""
    try:
        yield
    except OSError as problem:
        raise AnswerSocketError(f"{what} cannot be used: {problem.strerror or problem}") from problem
