"""Answers that a responder hands to gateways on its machine: real sockets, as both ends use them."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from group_coordinator.coordinating.answer_sockets import (
    AnswerSender,
    AnswerSocket,
    AnswerSocketError,
    HandedAnswer,
)
from group_coordinator.coordinating.gateway.request_ids import RequestIds


@pytest.fixture
def home() -> Iterator[str]:
    """A directory with a short name: that of a socket has at most some hundred bytes."""
    with tempfile.TemporaryDirectory() as directory:
        yield f"{directory}/answers"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def gateway(stack: ExitStack, home: str, ids: RequestIds) -> AnswerSocket:
    end = AnswerSocket(home, ids.run_id)
    stack.callback(end.close)
    return end


def responder(stack: ExitStack, home: str) -> AnswerSender:
    sender = AnswerSender(home)
    stack.callback(sender.close)
    return sender


def answer(request_id: str, value: bytes = b"value") -> HandedAnswer:
    return HandedAnswer(request_id.encode(), value, {"epoch": "0", "seq": "1"})


def received(end: AnswerSocket) -> list[HandedAnswer]:
    answers: list[HandedAnswer] = []
    while (datagram := end.receive()) is not None:
        answers += datagram.answers
    return answers


def test_each_gateway_gets_the_answers_to_its_own_requests(stack: ExitStack, home: str) -> None:
    first, second = RequestIds(), RequestIds()
    ends = [gateway(stack, home, ids) for ids in (first, second)]
    sender = responder(stack, home)
    answers = [answer(ids.new(), str(number).encode()) for number, ids in enumerate((first, second, first))]
    assert sender.hand_over(answers)
    assert [received(end) for end in ends] == [[answers[0], answers[2]], [answers[1]]]


def test_it_says_when_a_gateway_is_not_here_and_hands_over_the_others(stack: ExitStack, home: str) -> None:
    here, elsewhere = RequestIds(), RequestIds()
    end, sender = gateway(stack, home, here), responder(stack, home)
    mine = answer(here.new())
    assert not sender.hand_over([answer(elsewhere.new()), mine])
    assert received(end) == [mine]


def test_a_gateway_that_has_ended_or_was_killed_gets_nothing(stack: ExitStack, home: str) -> None:
    ids, killed = RequestIds(), RequestIds()
    end, sender = AnswerSocket(home, ids.run_id), responder(stack, home)
    end.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(f"{home}/{killed.run_id}")
    assert not sender.hand_over([answer(ids.new())])
    assert not sender.hand_over([answer(killed.new())])
    assert os.listdir(home) == [killed.run_id]


def test_a_start_removes_what_killed_gateways_have_left_and_nothing_else(stack: ExitStack, home: str) -> None:
    living, killed, ids = RequestIds(), RequestIds(), RequestIds()
    end = gateway(stack, home, living)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(f"{home}/{killed.run_id}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(f"{home}/of-somebody-else")
    Path(home, "notes").write_text("of somebody else, too")
    gateway(stack, home, ids)
    assert set(os.listdir(home)) == {living.run_id, ids.run_id, "of-somebody-else", "notes"}
    mine = answer(living.new())
    assert responder(stack, home).hand_over([mine])
    assert received(end) == [mine]


@pytest.mark.parametrize(
    ("request_id", "path"),
    [
        ("r", "r"),
        ("r-1", "r"),
        ("0123456789abcdef", "0123456789abcdef"),
        ("0123456789abcdef1-1", "0123456789abcdef1"),
        ("0123456789ABCDEF-1", "0123456789ABCDEF"),
        ("0123456789abcdef\n-1", "0123456789abcdef\n"),
        ("../0123456789abcd-1", "../0123456789abcd"),
        ("../other-1", "../other"),
    ],
)
def test_who_writes_events_cannot_choose_a_path(stack: ExitStack, home: str, request_id: str, path: str) -> None:
    sender = responder(stack, home)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        other.bind(f"{home}/{path}")
        assert not sender.hand_over([answer(request_id)])
        with pytest.raises(BlockingIOError):
            other.recv(1)


def test_a_gateway_that_stands_still_holds_up_no_other(stack: ExitStack, home: str) -> None:
    still, living = RequestIds(), RequestIds()
    gateway(stack, home, still)
    end, sender = gateway(stack, home, living), responder(stack, home)
    while sender.hand_over([answer(still.new(), b"x" * 60_000)]):
        pass
    mine = answer(living.new(), b"x" * 60_000)
    assert sender.hand_over([mine])
    assert received(end) == [mine]


def test_gateways_come_and_go_and_no_descriptor_is_left(stack: ExitStack, home: str) -> None:
    sender = responder(stack, home)
    before = len(os.listdir("/dev/fd"))
    for number in range(300):
        ids = RequestIds()
        end = AnswerSocket(home, ids.run_id)
        mine = answer(ids.new())
        assert sender.hand_over([mine])
        assert received(end) == [mine]
        end.close()
        if number % 2:
            assert not sender.hand_over([mine])
    assert len(os.listdir("/dev/fd")) - before <= 100


def test_what_is_too_large_or_finds_no_room_goes_another_way(stack: ExitStack, home: str) -> None:
    ids = RequestIds()
    end, sender = gateway(stack, home, ids), responder(stack, home)
    assert not sender.hand_over([answer(ids.new(), b"x" * 65_536)])
    handed = 0
    while sender.hand_over([answer(ids.new(), b"x" * 60_000)]):
        handed += 1
        assert handed < 1_000
    assert handed > 0
    assert len(received(end)) == handed
    assert sender.hand_over([answer(ids.new())])


def test_what_is_not_understood_has_no_answers_in_it(stack: ExitStack, home: str) -> None:
    ids = RequestIds()
    end, sender = gateway(stack, home, ids), responder(stack, home)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        for garbage in (b"", b"garbage", b"\x92\x01\xc0", b"x" * 200_000):
            other.sendto(garbage, f"{home}/{ids.run_id}")
    mine = answer(ids.new())
    assert sender.hand_over([mine])
    assert received(end) == [mine]


def test_no_other_user_may_enter(stack: ExitStack, home: str) -> None:
    gateway(stack, home, RequestIds())
    assert stat.S_IMODE(os.stat(home).st_mode) == 0o700


@pytest.mark.parametrize("make", [lambda path: path.mkdir(mode=0o755), lambda path: path.write_text("")])
def test_a_place_that_others_may_enter_is_not_used(tmp_path: Path, make: object) -> None:
    place = tmp_path / "answers"
    assert callable(make)
    make(place)
    for end in (lambda: AnswerSender(str(place)), lambda: AnswerSocket(str(place), RequestIds().run_id)):
        with pytest.raises(AnswerSocketError, match=str(place)):
            end()


def test_nor_is_a_link_that_somebody_has_laid(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "answers").symlink_to(tmp_path / "real")
    with pytest.raises(AnswerSocketError, match="belongs to this user"):
        AnswerSender(str(tmp_path / "answers"))


def no_place_for_temporary_files() -> str:
    raise FileNotFoundError(2, "No usable temporary directory found")


def no_descriptor(*_: object) -> socket.socket:
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize("is_of_the_gateway", [True, False])
@pytest.mark.parametrize("trouble", ["too long", "no place", "no descriptor"])
def test_whatever_the_system_refuses_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str, trouble: str, is_of_the_gateway: bool
) -> None:
    directory: str | None = home
    if trouble == "too long":
        directory = str(tmp_path / ("x" * 120))
    elif trouble == "no place":
        directory = None
        monkeypatch.setattr(tempfile, "gettempdir", no_place_for_temporary_files)
    else:
        monkeypatch.setattr(socket, "socket", no_descriptor)
    words = {"too long": "too long", "no place": "No usable", "no descriptor": "Too many open files"}[trouble]
    with pytest.raises(AnswerSocketError, match=words):
        AnswerSocket(directory, RequestIds().run_id) if is_of_the_gateway else AnswerSender(directory)


def test_by_default_they_meet_where_temporary_files_are(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(Path(home).parent))
    ids = RequestIds()
    end, sender = AnswerSocket(None, ids.run_id), AnswerSender(None)
    mine = answer(ids.new())
    assert sender.hand_over([mine])
    assert received(end) == [mine]
    end.close()
    sender.close()
