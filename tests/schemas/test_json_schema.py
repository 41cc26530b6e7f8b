"""The JSON Schema files are those of the types, and hold for what is written."""

import json
import os
from pathlib import Path

import jsonschema
import pytest

import schemas
from schemas.events import encode_json, encode_request_event, encode_tick
from schemas.history import Cause, GroupCreated, GroupSnapshot
from schemas.messages import HeartbeatRequest
from tests.schemas.json_schemas import json_schemas

FOLDER = Path(schemas.__file__).parent / "json"


def test_checked_in_files_are_up_to_date() -> None:
    for name, schema in json_schemas().items():
        text = json.dumps(schema, indent=2) + "\n"
        if os.environ.get("REWRITE"):
            (FOLDER / name).write_text(text)
        assert (FOLDER / name).read_text() == text, f"{name}: run `make schemas`, and look at what changed"


def test_no_file_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(json_schemas())


def check(name: str, value: bytes) -> None:
    schema = json_schemas()[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(value))


def test_what_is_written_is_valid() -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    event = encode_request_event("Heartbeat", 4, heartbeat, request_id="r", reply_partition=0, client_id="c")
    check("event.schema.json", event)
    check("event.schema.json", encode_tick(5))
    cause = Cause(kind="request", partition=0, offset=1, api="JoinGroup")
    created = GroupCreated(group_id="g", epoch=1, seq=1, time_ms=1, timestamp_ms=1, generation_id=0, cause=cause)
    check("history.schema.json", encode_json(created))
    snapshot = GroupSnapshot(
        group_id="g",
        epoch=1,
        seq=2,
        time_ms=1,
        state="Empty",
        timestamp_ms=1,
        state_since_ms=1,
        generation_id=0,
        protocol_type=None,
        protocol_name=None,
        leader_id=None,
        members=(),
    )
    check("assignment.schema.json", encode_json(snapshot))


@pytest.mark.parametrize(
    "value",
    [
        b'{"type":"tick"}',
        b'{"type":"tick","clock_ms":"1"}',
        b'{"type":"request","request_id":"r","reply_partition":0,"api":"Heartbeat","api_version":4,"body":{}}',
        b'{"type":"request","request_id":"r","reply_partition":0,"api":"Shout","api_version":4,"body":{}}',
    ],
)
def test_what_is_wrong_is_invalid(value: bytes) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check("event.schema.json", value)
