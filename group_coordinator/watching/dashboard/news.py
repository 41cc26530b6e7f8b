"""Changed rows and new records are gathered a few times a second, for all listeners at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from group_coordinator.watching.dashboard.documents import Documents, event_of

INTERVAL_S = 0.4
ROWS_MAX = 1_000
"""When more rows than these change at once, listeners are told to fetch the list."""
EVENTS_MAX = 200
"""So many records are sent at most of what is new at once."""
_QUEUE_MAX = 64

Item = tuple[str, bytes]
"""Name and data of a server-sent event."""


class News:
    """Listeners get what happens from then on. One that does not keep up is cut off: its browser comes again."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._queues: list[asyncio.Queue[Item | None]] = []
        self._last_number = documents.index.records
        self._closed = False

    @contextmanager
    def listener(self) -> Iterator[asyncio.Queue[Item | None]]:
        queue: asyncio.Queue[Item | None] = asyncio.Queue(_QUEUE_MAX)
        self._queues.append(queue)
        if self._closed:
            self._cut_off(queue)
        try:
            yield queue
        finally:
            if queue in self._queues:
                self._queues.remove(queue)

    def close(self) -> None:
        """Release all listeners. Runs in the thread of the server's loop."""
        self._closed = True
        for queue in list(self._queues):
            self._cut_off(queue)

    async def gather(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            for item in await asyncio.to_thread(self.collect):
                self._send(item)

    def collect(self) -> list[Item]:
        """Return the changes since the last call."""
        documents = self._documents
        now_ms = documents.now_ms
        changed = documents.index.take_changed(now_ms)
        items_new = list(documents.index.feed(after=self._last_number))
        self._last_number = max(self._last_number, items_new[0].number if items_new else 0)
        clock = {"now": now_ms, "records": documents.index.records, "groups": len(documents.index)}
        items: list[Item] = [("clock", msgspec.json.encode(clock))]
        if len(changed) > ROWS_MAX:
            items.append(("reload", b"{}"))
        elif changed:
            items.append(("rows", msgspec.json.encode(changed)))
        if items_new:
            left_out = max(len(items_new) - EVENTS_MAX, 0)
            shown = [event_of(item) for item in items_new[:EVENTS_MAX]]
            items.append(("events", msgspec.json.encode({"events": shown, "left_out": left_out})))
        return items

    def _send(self, item: Item) -> None:
        for queue in list(self._queues):
            try:
                queue.put_nowait(item)
            except asyncio.QueueFull:
                self._cut_off(queue)

    def _cut_off(self, queue: asyncio.Queue[Item | None]) -> None:
        self._queues.remove(queue)
        if queue.full():
            queue.get_nowait()
        queue.put_nowait(None)
