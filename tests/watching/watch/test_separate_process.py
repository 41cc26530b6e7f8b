"""A process that answers: its end is told and is not ours, and our end is its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from group_coordinator.watching.watch.separate_process import ProcessEndedError, SeparateProcess
from tests.waiting import wait_until
from tests.watching.watch.doubling import double


@pytest.fixture
def process() -> Iterator[SeparateProcess]:
    process = SeparateProcess("double", double, 2)
    yield process
    process.stop()


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_abort_is_told_and_the_next_question_is_answered(process: SeparateProcess) -> None:
    assert process.ask(21) == 42
    first = process.process_id
    with pytest.raises(ProcessEndedError, match=r"^Its process has ended \(SIGABRT\)\.$"):
        process.ask("abort")
    assert process.ask(4) == 8
    assert process.process_id != first


def test_a_question_under_way_ends_with_stop(process: SeparateProcess) -> None:
    assert process.ask(1) == 2
    stopper = threading.Timer(0.2, process.stop)
    stopper.start()
    with pytest.raises(ProcessEndedError):
        process.ask("silence")
    stopper.join()
    with pytest.raises(ProcessEndedError, match="was stopped"):
        process.ask(1)
    assert process.process_id is not None
    assert not is_alive(process.process_id)


def test_an_interrupt_is_left_to_the_process_that_asks(process: SeparateProcess) -> None:
    assert process.ask(1) == 2
    assert process.process_id is not None
    os.kill(process.process_id, signal.SIGINT)
    assert process.ask(2) == 4


OWNER = """
import time
from group_coordinator.watching.watch.separate_process import SeparateProcess
from tests.watching.watch.doubling import double
if __name__ == "__main__":
    process = SeparateProcess("double", double, 2)
    process.ask(1)
    print(process.process_id, flush=True)
    time.sleep(600)
"""


def test_it_ends_with_a_process_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        process_id = int(owner.stdout.readline())
        assert is_alive(process_id)
        owner.kill()
    wait_until(lambda: not is_alive(process_id))
