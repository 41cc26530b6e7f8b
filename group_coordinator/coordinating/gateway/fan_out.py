"""A request over several groups is sent group by group, and its answers are merged into one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from group_coordinator.coordinating.gateway.answer_sizes import UNKNOWN_BYTES, AnswerSizes
from group_coordinator.coordinating.gateway.refusals import refusal
from schemas.error_codes import ErrorCode
from schemas.events import groups_named
from schemas.messages import Request, Response

ASKED_AT_ONCE_MAX = 500
"""Each question is an event of the log, and whoever comes next waits behind all that are in it."""
_REFUSED_BYTES = 256
"""About what is kept of a group whose answer finds no room."""

AskOne = Callable[[Request, Callable[[Response], None]], None]


class FanOut:
    """Each group is asked about once, however often it is named, and answered as often: Kafka does not look for
    repetitions.

    The bytes of answers that are awaited and kept are bounded. A group beyond the bound is answered
    COORDINATOR_LOAD_IN_PROGRESS, upon which admin clients ask for it again.
    """

    def __init__(
        self,
        api: str,
        requests: list[Request],
        ask_one: AskOne,
        sizes: AnswerSizes,
        answer_bytes_max: int,
        groups_max: int,
    ) -> None:
        """`requests` has one request for each mention of a group."""
        self._api = api
        self._requests = requests
        self._ask_one = ask_one
        self._sizes = sizes
        self._bytes_max = answer_bytes_max
        distinct = list(dict.fromkeys(requests))
        self._to_ask = distinct[:groups_max][::-1]
        self._answers: dict[Request, Response] = {request: _no_room(request) for request in distinct[groups_max:]}
        self._sizes_of: dict[Request, int] = {}
        self._awaited: dict[Request, int] = {}
        """Question -> the bytes that are expected."""
        self._awaited_bytes = 0
        self._kept_bytes = 0
        self._is_asking = False
        self._on_end: Callable[[list[Response]], None] | None = None

    def begin(self, on_end: Callable[[list[Response]], None]) -> None:
        """Send the requests. `on_end` gets an answer for each mention, in their order, now or later."""
        self._on_end = on_end
        self._go_on()

    def _go_on(self) -> None:
        """Send as many requests as there is room for; answers that come at once are taken on the way."""
        if self._is_asking:
            return
        self._is_asking = True
        while self._to_ask and self._may_ask_more:
            request = self._to_ask.pop()
            if self._kept_bytes >= self._bytes_max:
                self._answers[request] = _no_room(request)
                continue
            last = self._sizes.last(self._api, *groups_named(request))
            expected = UNKNOWN_BYTES if last is None else last
            self._awaited[request] = expected
            self._awaited_bytes += expected
            self._ask_one(request, partial(self._take, request))
        self._is_asking = False
        if not self._to_ask and not self._awaited and self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(self._in_order())

    @property
    def _may_ask_more(self) -> bool:
        has_room = self._awaited_bytes + self._kept_bytes < self._bytes_max
        return not self._awaited or (has_room and len(self._awaited) < ASKED_AT_ONCE_MAX)

    def _take(self, request: Request, answer: Response) -> None:
        self._awaited_bytes -= self._awaited.pop(request)
        size = self._sizes.last(self._api, *groups_named(request)) or 0
        if self._answers and self._kept_bytes + size > self._bytes_max:
            answer, size = _no_room(request), _REFUSED_BYTES
        self._answers[request] = answer
        self._sizes_of[request] = size
        self._kept_bytes += size
        self._go_on()

    def _in_order(self) -> list[Response]:
        """Return the answers by mention, as far as there is room: a repeated one counts again."""
        answers: list[Response] = []
        bytes_left = self._bytes_max
        for request in self._requests:
            size = self._sizes_of.get(request, _REFUSED_BYTES)
            answer = self._answers[request] if size <= bytes_left or not answers else _no_room(request)
            bytes_left -= size
            answers.append(answer)
        return answers


def _no_room(request: Request) -> Response:
    return refusal(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
