"""Answers of responders held against the query's: what was answered while the query was away, it must answer, too."""

from __future__ import annotations

import time
from collections import Counter

from msgspec import Struct

from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from group_coordinator.watching.group_metrics.light_records import read_answer
from schemas.error_codes import ErrorCode
from schemas.query_progress import WRITER_HEADER

_QUERY = "query"
_PATIENCE_S = 240.0


class AnswerAudit(Struct):
    """Of a responses topic, in the time that was asked for."""

    by_responders: int = 0
    """Answers that responders have given, before or after the query."""
    waiting: int = 0
    """Those of them that the query has not given yet."""
    errors: Counter[str] = Counter()
    """Kafka's names of the errors of all answers."""
    problems: list[str] = []

    @property
    def final_errors(self) -> list[str]:
        """Errors after which a client does not ask again."""
        return [name for name in self.errors if not ErrorCode[name].retriable]


def wait_for_the_query(servers: str, responses: str, since_ms: int, until_ms: int) -> AnswerAudit:
    """Wait until the query has answered all that was answered in this time, and compare."""
    result = audit_answers(servers, responses, since_ms, until_ms)
    give_up_s = time.monotonic() + _PATIENCE_S
    while result.waiting and time.monotonic() < give_up_s:
        time.sleep(2)
        result = audit_answers(servers, responses, since_ms, until_ms)
    if result.waiting:
        result.problems.append(f"{result.waiting} answers of responders were not given by the query")
    return result


def audit_answers(servers: str, responses: str, since_ms: int, until_ms: int) -> AnswerAudit:
    """Compare all answers that were first written from `since_ms` until `until_ms`."""
    result = AnswerAudit(errors=Counter(), problems=[])
    answers: dict[tuple[bytes, str, str], dict[str, tuple[int | None, bytes]]] = {}
    for record in read_topic({"bootstrap.servers": servers}, responses):
        headers, answer = headers_of(record), (record.partition(), record.value() or b"")
        identity = bytes(record.key() or b""), headers["epoch"], headers["seq"]
        if identity not in answers:
            if not since_ms <= record.timestamp()[1] < until_ms:
                continue
            error = read_answer(answer[1]).error
            result.errors.update([error] if error != "NONE" else [])
        answers.setdefault(identity, {})[headers.get(WRITER_HEADER, _QUERY)] = answer
    for identity, by_writer in answers.items():
        result.by_responders += by_writer.keys() != {_QUERY}
        result.waiting += _QUERY not in by_writer
        if len(set(by_writer.values())) > 1:
            result.problems.append(f"the answers to {identity[0]!r}, epoch {identity[1]}, seq {identity[2]} differ")
    return result
