"""Logs: one JSON object a line with the group's id, or lines for people; a storm does not become one of lines."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from group_coordinator.coordinating.operations.group_log import GroupLog
from group_coordinator.ground.monitoring.line_limit import LINES_PER_WINDOW
from group_coordinator.ground.monitoring.logs import OURS, configure_logs
from schemas.history import decode_history
from tests.coordinating.operations.records import CONFIG, log, outputs


@pytest.fixture(autouse=True)
def _leave_no_trace() -> Iterator[None]:
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    root.handlers[:] = before
    for name in OURS:
        logging.getLogger(name).setLevel(logging.NOTSET)


def history() -> list[bytes]:
    return [
        output.value or b""
        for output in outputs(log("payments"))
        if output.topic == CONFIG.topics.history
    ]


def tell(group_log: GroupLog) -> None:
    for value in history():
        group_log.history(decode_history(value))


def test_json_lines_have_the_group(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    tell(GroupLog())
    GroupLog().dead_letter(
        b"payments", "bad_body", {"topic": "e", "partition": "0", "offset": "7", "detail": "so\nwrong"}
    )
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["group_id"] for line in lines} == {"payments"}
    assert any(line.get("happened") == "rebalance_started" and "joined" in line["message"] for line in lines)
    assert lines[-1] | {"time": ""} == {
        "time": "", "level": "warning", "logger": "group_coordinator.coordinating.operations.group_log",
        "group_id": "payments",
        "reason": "bad_body", "message": "dead letter of e, partition 0, offset 7: so\nwrong",
    }  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lines[0]["time"])


def test_an_exception_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("streaming").exception("it failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ValueError: a\nb" in json.loads(line)["exception"]


def test_text_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    tell(GroupLog())
    assert re.search(r'^\S+Z INFO    .*group_id="payments"', capsys.readouterr().err)


def test_refusals_are_told_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "info")
    tell(GroupLog())
    assert "refused" not in capsys.readouterr().err
    configure_logs("text", "debug")
    tell(GroupLog())
    assert "refused with ILLEGAL_GENERATION" in capsys.readouterr().err


def test_libraries_are_heard_only_when_something_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text", "debug")
    logging.getLogger("py4j.clientserver").info("chatter")
    logging.getLogger("py4j.clientserver").warning("trouble")
    log_text = capsys.readouterr().err
    assert "chatter" not in log_text
    assert "trouble" in log_text


def test_a_storm_is_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    group_log = GroupLog()
    for _ in range(LINES_PER_WINDOW + 30):
        group_log.dead_letter(None, "no_key", {})
    assert len(capsys.readouterr().err.splitlines()) == LINES_PER_WINDOW


def test_what_clients_have_named_at_length_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("text")
    group_log = GroupLog()
    for value in history():
        group_log.history(replace(decode_history(value), group_id="g" * 30_000))
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert max(map(len, lines)) < 3_000
    assert "30000 characters" in lines[0]
