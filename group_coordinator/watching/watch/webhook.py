"""The beginning and the end of each verdict are posted to an address, as CloudEvents 1.0 or in Slack's form.

Nothing waits for it: one thread looks at the groups, another one posts. What finds no room, or is refused, is lost, and
counted. The address may be a secret: of it only the host is ever told.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any, Literal, Self
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from group_coordinator.ground.kafka_topics.errors import STOP_S
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.metrics import Value
from group_coordinator.ground.monitoring.posting import Refused, failure_reason, poster
from group_coordinator.ground.monitoring.printable import printable
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.verdicts import IN_TROUBLE

Form = Literal["cloudevents", "slack"]
QUEUE_MAX = 1_000
LOOK_S = 2.0
RETRY_MIN_S, RETRY_MAX_S = 1.0, 60.0
GIVE_UP_S = 3_600.0
"""So long a message is tried."""
_MEDIA_TYPES: dict[Form, str] = {
    "slack": "application/json; charset=utf-8",
    "cloudevents": "application/cloudevents+json; charset=utf-8",
}
_BEGAN, _ENDED = "group-coordinator.verdict.began", "group-coordinator.verdict.ended"
_log = logging.getLogger(__name__)


class Told(Struct, frozen=True, kw_only=True):
    """A verdict that began, or ended. Times are milliseconds since 1970."""

    verdict_id: str
    """The same for its beginning and its end."""
    verdict: str
    began_ms: int
    """When it was first seen."""
    ended_ms: int | None
    group: Group
    """As it is now; of a group that is gone, as it was last."""

    @property
    def type(self) -> str:
        return _BEGAN if self.ended_ms is None else _ENDED


class Webhook:
    """A context manager. `values` are its gauges."""

    def __init__(
        self,
        url: str,
        form: Form,
        source: str,
        rows: Callable[[], Iterable[Group]],
        is_ready: Callable[[], bool],
        look_s: float = LOOK_S,
        retry_s: float = RETRY_MIN_S,
    ) -> None:
        """`source`: what is watched. `rows`: the groups as they are. `is_ready`: they are up to date; while they are
        not, nothing begins and nothing ends. `retry_s`: from the first try to the second one."""
        self.host = urlsplit(url).hostname or ""
        self._post = poster(url)
        self._form: Form = form
        self._source = f"group-coordinator/{quote(source, safe='')}"
        self._rows, self._is_ready = rows, is_ready
        self._look_s, self._retry_s = look_s, retry_s
        self._known: dict[str, Told] = {}
        """By group, the verdict that has begun."""
        self._queue: deque[tuple[float, bytes]] = deque()
        """When it was put there, and the message."""
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self.delivered = self.lost = 0
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in (("webhook-verdicts", self._look_on), ("webhook-posts", self._post_on))
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop. What has not been posted by then is lost."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(STOP_S)
        if self._queue:
            _log.warning("%d messages for the webhook at %s were not posted", len(self._queue), self.host)

    def values(self) -> Iterator[Value]:
        """Yield how many messages there were."""
        for outcome, number in (("delivered", self.delivered), ("lost", self.lost), ("waiting", len(self._queue))):
            yield Value(m.WEBHOOK_MESSAGES, (outcome,), number)

    def look(self) -> None:
        """Look once, and put what began and ended into the queue."""
        now_ms = time.time_ns() // 1_000_000
        rows = {row.group_id: row for row in self._rows() if row.severity >= IN_TROUBLE or row.group_id in self._known}
        for group_id, told in list(self._known.items()):
            row = rows.get(group_id)
            if row is None or row.severity < IN_TROUBLE or row.verdict != told.verdict:
                del self._known[group_id]
                self._put(msgspec.structs.replace(told, ended_ms=now_ms, group=row or told.group))
        for group_id, row in rows.items():
            if row.severity >= IN_TROUBLE and group_id not in self._known:
                self._known[group_id] = begun = Told(
                    verdict_id=uuid.uuid4().hex, verdict=row.verdict, began_ms=now_ms, ended_ms=None, group=row
                )
                self._put(begun)

    def _put(self, told: Told) -> None:
        message = cloud_event(told, self._source) if self._form == "cloudevents" else slack_message(told)
        with self._lock:
            self._queue.append((time.monotonic(), msgspec.json.encode(message)))
            if len(self._queue) > QUEUE_MAX:
                self._queue.popleft()
                self._lose(f"more than {QUEUE_MAX} messages wait")
        self._wake.set()

    def _lose(self, reason: str) -> None:
        self.lost += 1
        _log.warning("a message for the webhook at %s is lost: %s", self.host, reason)

    def _look_on(self) -> None:
        while not self._stopping.wait(self._look_s):
            if self._is_ready():
                self.look()

    def _post_on(self) -> None:
        wait_s = self._retry_s
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            while self._queue and not self._stopping.is_set():
                problem = self._post_first()
                if problem is None:
                    wait_s = self._retry_s
                    continue
                _log.warning("the webhook at %s does not answer as it should: %s", self.host, problem)
                self._stopping.wait(wait_s)
                wait_s = min(2 * wait_s, RETRY_MAX_S)

    def _post_first(self) -> str | None:
        """Post the message that has waited longest. Returns why it has to be tried again; None: it has not."""
        with self._lock:
            entry = since_s, message = self._queue[0]
        problem = None
        try:
            self._post(message, _MEDIA_TYPES[self._form])
        except Refused as refusal:
            problem, is_lost = str(refusal), True
        except (OSError, HTTPException) as failure:
            problem, is_lost = failure_reason(failure), time.monotonic() - since_s > GIVE_UP_S
        with self._lock:
            if problem is not None and not is_lost:
                return problem
            if self._queue and self._queue[0] is entry:  # else there was no room for it any more
                self._queue.popleft()
            if problem is None:
                self.delivered += 1
            else:
                self._lose(problem)
        return None


def cloud_event(told: Told, source: str) -> dict[str, Any]:
    """Return the message in the structured form of CloudEvents 1.0, for JSON."""
    at_ms = told.began_ms if told.ended_ms is None else told.ended_ms
    return {
        "specversion": "1.0",
        "id": f"{told.verdict_id}-{told.type.rpartition('.')[2]}",
        "source": source,
        "type": told.type,
        "subject": told.group.group_id,
        "time": datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": told,
    }


def slack_message(told: Told) -> dict[str, Any]:
    """Return the message as Slack's incoming webhooks take it. What clients have chosen is no markup."""
    name, reason = (
        printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
        for text in (told.group.group_id, told.group.reason)
    )
    verdict = told.verdict.replace("_", " ")
    if told.ended_ms is None:
        return {"text": f":warning: Group `{name}` is {verdict}: {reason}."}
    now = f"Now it is {told.group.state}: {reason}."
    return {"text": f":white_check_mark: Group `{name}` is no longer {verdict}. {now}"}
