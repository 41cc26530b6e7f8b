"""An answer matrix as text, and the errors of an answer.

A line without an indent names a request; each indented one below it has states, two spaces or more, and an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from coordinator_state import Answer, Output
from schemas.error_codes import ErrorCode
from tests.coordinator_state.harness import GroupHarness

Harness = TypeVar("Harness", bound=GroupHarness)


def cases(matrix: str, all_states: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(request, state, answer) of each cell of the matrix."""
    request = ""
    for line in matrix.strip().splitlines():
        if not line.startswith(" "):
            request = line
            continue
        states, answer = re.split(r"  +", line.strip())
        for state in all_states if states == "every state" else states.split(", "):
            yield request, state, answer


def errors_of(response: object) -> set[ErrorCode]:
    """The errors of an answer, wherever that answer carries them."""
    errors = {ErrorCode(getattr(response, "error_code", ErrorCode.NONE))}
    for name in ("topics", "partitions", "groups", "results", "members", "coordinators"):
        for part in getattr(response, name, None) or ():
            errors |= errors_of(part)
    return errors - {ErrorCode.NONE}


def answer_of(group: Harness, request: Callable[[Harness], list[Output]]) -> str:
    """The error of the answer to a request, by its name; `parked`: there is no answer yet."""
    outputs = request(group)
    answers = [output for output in outputs if isinstance(output, Answer) and output.request_id == f"r{group.offset}"]
    if not answers:
        return "parked"
    (answer,) = answers
    return ", ".join(sorted(error.name for error in errors_of(answer.response))) or "NONE"
