"""Where a watched cluster says what is told of it, in words. Pure."""

from __future__ import annotations

from typing import Literal

from schemas.history import Cause, Certainty, Evidence

CertaintyInWords = Literal["", "inferred", "not known", "not confirmed"]
CERTAINTIES: dict[Certainty, CertaintyInWords] = {
    "told": "", "inferred": "inferred", "not_known": "not known", "not_confirmed": "not confirmed",
}
"""What is said of a record that no evidence tells outright."""


def places(cause: Cause) -> str:
    """The records and lines: `log of broker 1, server.log, line 123`."""
    return "; ".join(_place(fact) for fact in cause.evidence)


def unconfirmed(cause: Cause) -> str:
    """Return what is added to a sentence where a line of a log is all that says so; empty where it is not."""
    return " (not confirmed: only a line of a log says so)" if cause.certainty == "not_confirmed" else ""


def sources(cause: Cause) -> str:
    """The sources alone: `log of broker 1`."""
    return "; ".join(dict.fromkeys(_source(fact) for fact in cause.evidence))


def _place(evidence: Evidence) -> str:
    source = _source(evidence)
    if evidence.source == "offsets_log":
        return f"{source}, partition {evidence.partition}, offset {evidence.offset}"
    if evidence.source in ("broker_log", "request_log") and evidence.line is not None:
        return f"{source}{f', {evidence.file}' if evidence.file else ''}, line {evidence.line}"
    return source


def _source(evidence: Evidence) -> str:
    match evidence.source:
        case "offsets_log":
            return "offsets topic"
        case "broker_log":
            return "a broker's log" if evidence.broker is None else f"log of broker {evidence.broker}"
        case other:
            return other.replace("_", " ")
