"""Who looks has the lock before the thread that works takes it again."""

from __future__ import annotations

import threading

from group_coordinator.ground.system.yielding_lock import YieldingLock
from tests.waiting import wait_until


def test_those_that_wait_go_first() -> None:
    lock, order = YieldingLock(yield_max_s=60), []

    def look() -> None:
        with lock:
            order.append("look")

    for _ in range(20):
        looking = threading.Thread(target=look)
        with lock.yielding():
            looking.start()
            wait_until(lambda: lock.waiting == 1)
        with lock.yielding():
            order.append("work")
        looking.join()
    assert order == ["look", "work"] * 20
