"""A difference for people: what led to it, and both sides."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from schemas.kafka.records import decode_record
from tests.beside_kafka.history import Json
from tests.verify_history.histories import Difference

STEPS_BEFORE = 6
COLUMNS = 400


def lines_of(history: Json, difference: Difference) -> Iterator[str]:
    """Yield the steps of the same group that led to the difference, then what Kafka did there and what we did."""
    yield f"{difference.history} step {difference.step}: {difference.what}"
    if difference.step < 0:
        yield difference.actual
        return
    step = history["steps"][difference.step]
    before = [each for each in history["steps"][: difference.step] if _concerns(each, _group_of(step))]
    for each in [*before[-STEPS_BEFORE:], step]:
        yield from _step(each)
    if isinstance(difference.recorded, list) and isinstance(difference.actual, list):
        alike = [item for item in difference.recorded if item in difference.actual]
        for side, items in (("Kafka", difference.recorded), ("here ", difference.actual)):
            yield from (f"  {side}: {_item(item)}" for item in items if item not in alike)
        if len(alike) == len(difference.recorded) == len(difference.actual):
            yield "  the same, in another order"
    else:
        yield from list(difference.lines())[1:]


def _group_of(step: Json) -> str | None:
    group_id = step.get("request", {}).get("groupId")
    return None if group_id is None else str(group_id)


def _concerns(step: Json, group_id: str | None) -> bool:
    return group_id is None or _group_of(step) in (None, group_id)


def _step(step: Json) -> Iterator[str]:
    told = {name: value for name, value in step.items() if name in ("cluster", "group_config")}
    asked = {name: value for name, value in step.get("request", {}).items() if value is not None}
    what = f"{step['api']} v{step['version']}" if "api" in step else "".join(told) or "time"
    yield f"  {step['id']} at {step['at_ms']}: {what} {_short(asked or told)}"
    for answer in step["answers"]:
        yield f"      answer to {answer['id']}: {_short(answer['response'])}"


def _item(item: Json) -> str:
    if "key" not in item:
        return _short(item)
    # Kept histories have them readable, too.
    key, value = (item.get(f"{part}_b64", item.get(part)) for part in ("key", "value"))
    record = decode_record(b64decode(str(key)), None if value is None else b64decode(value))
    return f"{item['at_ms']} {_cut(str(record))}"


def _short(value: Any) -> str:
    return _cut(json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= COLUMNS else text[:COLUMNS] + "..."
