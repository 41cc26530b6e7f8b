"""How a consumer in a process of its own is told what to do, and tells what happened:
a line each, words apart by tabs."""

from __future__ import annotations

import sys
import threading
from queue import Queue


def say(kind: str, *parts: object) -> None:
    print("\t".join([kind, *(str(part).replace("\n", " ") for part in parts)]), flush=True)


def commands() -> Queue[list[str]]:
    """The commands as they come; the last is to close."""
    waiting: Queue[list[str]] = Queue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(line.split())
        waiting.put(["close"])

    threading.Thread(target=read, daemon=True).start()
    return waiting
