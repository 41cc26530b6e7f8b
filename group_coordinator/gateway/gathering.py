"""One request over several groups, asked group by group, and its answer, put together again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from group_coordinator.gateway.answer_sizes import UNKNOWN_BYTES, AnswerSizes
from group_coordinator.gateway.refusals import refusal
from schemas.error_codes import ErrorCode
from schemas.events import groups_named
from schemas.messages import Request, Response

_REFUSED_BYTES = 256
"""About what is kept of a group whose answer finds no room."""

AskOne = Callable[[Request, Callable[[Response], None]], None]


class Gathering:
    """Each group is asked about once, however often it is named, and answered as often: Kafka does not look for repetitions.

    Only so many bytes of answers are awaited and kept at a time. What finds no room is answered COORDINATOR_LOAD_IN_PROGRESS,
    upon which admin clients ask for it again.
    """

    def __init__(
        self, api: str, questions: list[Request], ask_one: AskOne, sizes: AnswerSizes, answer_bytes_max: int, groups_max: int
    ) -> None:
        """`questions`: one for each mention of a group."""
        self._api = api
        self._questions = questions
        self._ask_one = ask_one
        self._sizes = sizes
        self._bytes_max = answer_bytes_max
        distinct = list(dict.fromkeys(questions))
        self._to_ask = distinct[:groups_max][::-1]
        self._answers: dict[Request, Response] = {each: _no_room(each) for each in distinct[groups_max:]}
        self._sizes_of: dict[Request, int] = {}
        self._awaited: dict[Request, int] = {}
        """Question -> the bytes that are expected."""
        self._awaited_bytes = 0
        self._kept_bytes = 0
        self._is_asking = False
        self._on_end: Callable[[list[Response]], None] | None = None

    def begin(self, on_end: Callable[[list[Response]], None]) -> None:
        """Ask. `on_end` gets an answer for each mention, in their order, now or later."""
        self._on_end = on_end
        self._go_on()

    def _go_on(self) -> None:
        """Ask as much as finds room; answers that come at once are taken on the way."""
        if self._is_asking:
            return
        self._is_asking = True
        while self._to_ask and (not self._awaited or self._awaited_bytes + self._kept_bytes < self._bytes_max):
            question = self._to_ask.pop()
            if self._kept_bytes >= self._bytes_max:
                self._answers[question] = _no_room(question)
                continue
            last = self._sizes.last(self._api, *groups_named(question))
            expected = UNKNOWN_BYTES if last is None else last
            self._awaited[question] = expected
            self._awaited_bytes += expected
            self._ask_one(question, partial(self._take, question))
        self._is_asking = False
        if not self._to_ask and not self._awaited and self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(self._in_order())

    def _take(self, question: Request, answer: Response) -> None:
        self._awaited_bytes -= self._awaited.pop(question)
        size = self._sizes.last(self._api, *groups_named(question)) or 0
        if self._answers and self._kept_bytes + size > self._bytes_max:
            answer, size = _no_room(question), _REFUSED_BYTES
        self._answers[question] = answer
        self._sizes_of[question] = size
        self._kept_bytes += size
        self._go_on()

    def _in_order(self) -> list[Response]:
        """The answers by mention, as far as they find room: a repeated one takes it again."""
        answers: list[Response] = []
        left = self._bytes_max
        for question in self._questions:
            size = self._sizes_of.get(question, _REFUSED_BYTES)
            answer = self._answers[question] if size <= left or not answers else _no_room(question)
            left -= size
            answers.append(answer)
        return answers


def _no_room(question: Request) -> Response:
    return refusal(question, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
