"""The one way in which tests wait for what happens in other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def wait_until(
    look: Callable[[], Answer],
    timeout_s: float = 60.0,
    message: str | Callable[[], object] = "it did not happen in time",
    *,
    interval_s: float = 0.1,
) -> Answer:
    """What `look` answers, as soon as that is true; `message`: that of the failure."""
    give_up_at_s = time.monotonic() + timeout_s
    while not (answer := look()):
        assert time.monotonic() < give_up_at_s, message() if callable(message) else message
        time.sleep(interval_s)
    return answer


def wait_until_still(look: Callable[[], Answer], looks: int = 10, timeout_s: float = 60.0) -> Answer:
    """What `look` answers, as soon as it has answered the same so often in a row."""
    answers: list[Answer] = []

    def is_still() -> bool:
        answers.append(look())
        return len(answers) >= looks and all(answer == answers[-1] for answer in answers[-looks:])

    wait_until(is_still, timeout_s, lambda: f"it goes on: {answers[-looks:]}")
    return answers[-1]
