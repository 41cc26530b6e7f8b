"""A request log as Kafka's brokers write it (`kafka.request.logger` at DEBUG, KIP-673), written from outside a broker.

A line has the request and the answer as they were on the wire, in Kafka's JSON. What only the broker knows is not there
(the times in its queues, the listener). `connection` names the connection that the broker saw, which is the tap's;
`clientAddress`, which brokers do not write, is that of the client.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from group_coordinator.coordinating.gateway.codec import body_start, response_body_start
from group_coordinator.coordinating.gateway.frames import RequestHead
from group_coordinator.coordinating.gateway.versions import ANSWERED_APIS, TOPIC_APIS, OtherApi
from schemas.kafka.codec import decode
from schemas.kafka.json_form import to_json
from schemas.wire import INT32

_OF_THE_CLUSTER = (OtherApi.METADATA, 19, OtherApi.DELETE_TOPICS, 37, OtherApi.INCREMENTAL_ALTER_CONFIGS)
"""What tells of topics, and of groups' settings; 19: CreateTopics, 37: CreatePartitions."""
LOGGED_APIS = (
    ANSWERED_APIS
    | {key: TOPIC_APIS[key] for key in _OF_THE_CLUSTER}
    | {OtherApi.API_VERSIONS: "ApiVersions", 22: "InitProducerId", 26: "EndTxn"}
)
"""The requests that have a line, by key. Never one that logs in: it has a secret."""
_NAMES = {key: re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper() for key, name in LOGGED_APIS.items()}
_METADATA_OF_KAFKA_4 = 13
_connection_numbers = count(time.time_ns() // 1_000_000)
"""Another tap, later on, gives out others."""
_LONG_BYTES = 16_384
_QUESTIONS_MAX = 10_000
_GROUP_RESOURCE = 32
_HIDDEN = "[hidden]"
"""As brokers write it."""


class Exchange(Struct, frozen=True, kw_only=True, gc=False):
    """A request and the broker's answer to it."""

    head: RequestHead
    request: bytes
    response: bytes
    """Both whole, with their headers."""
    connection: str
    """The two ends of the connection to the broker."""
    client_host: str
    principal: str
    took_ms: float
    """From when the broker could take the request until its answer was here."""
    answered_us: int
    """Since 1970."""


class LongAnswers:
    """Long answers that were there before: clients ask again and again which topics there are, and to write down all
    of a large cluster's takes a tenth of a second. Of group requests each counts."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()

    def is_repeated(self, exchange: Exchange) -> bool:
        """Note an answer; return whether the last one to an equal request was the same."""
        head = exchange.head
        if head.api_key in ANSWERED_APIS or len(exchange.response) < _LONG_BYTES:
            return False
        question = sha256(exchange.request[head.size :], usedforsecurity=False)
        question.update(b"%d %d " % (head.api_key, head.api_version))
        answer = sha256(exchange.response[INT32.size :], usedforsecurity=False).digest()
        before = self._answers.pop(question.digest(), None)
        self._answers[question.digest()] = answer
        if len(self._answers) > _QUESTIONS_MAX:
            self._answers.popitem(last=False)
        return before == answer


class RequestLogLines:
    """Makes the lines of one client's connection."""

    def __init__(self) -> None:
        self._number = next(_connection_numbers)
        self._is_old_broker = False

    def line(self, exchange: Exchange) -> bytes:
        """Return the line. Raises `schemas.wire.DecodeError` for what is not understood."""
        head = exchange.head
        key, version, name = head.api_key, head.api_version, LOGGED_APIS[head.api_key]
        start = body_start(f"{name}Request", head, exchange.request)
        request = decode(f"{name}Request", version, exchange.request, start)
        response = decode(f"{name}Response", version, exchange.response, _response_start(name, version))
        if key == OtherApi.INCREMENTAL_ALTER_CONFIGS:
            _hide_values(request)
        elif key == OtherApi.API_VERSIONS:
            self._is_old_broker = _is_old_broker(response)
        fields = {
            "isForwarded": False,
            "requestHeader": {
                "requestApiKey": key,
                "requestApiVersion": version,
                "correlationId": head.correlation_id,
                "clientId": head.client_id,
                "requestApiKeyName": _NAMES[key],
            },
            "request": to_json(f"{name}Request", version, request),
            "response": to_json(f"{name}Response", version, response),
            "connection": f"{exchange.connection}-0{'' if self._is_old_broker else f'-{self._number}'}",
            "totalTimeMs": round(exchange.took_ms, 3),
            "localTimeMs": round(exchange.took_ms, 3),
            "principal": exchange.principal,
            "clientAddress": exchange.client_host,
        }
        seconds, microseconds = divmod(exchange.answered_us, 1_000_000)
        moment = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S},{microseconds:06}Z"
        text = msgspec.json.encode(fields)
        return b"[%s] DEBUG Completed request:%s (kafka.request.logger)\n" % (moment.encode(), text)


def _response_start(name: str, version: int) -> int:
    """The header of ApiVersions never has tags: who reads it does not know the broker yet."""
    message = f"{name}Response"
    return INT32.size if name == "ApiVersions" else response_body_start(message, version)


def _is_old_broker(response: dict[str, Any]) -> bool:
    """Return whether a broker is older than Kafka 4. Behind the addresses of a connection brokers write which processor
    serves it, and since Kafka 4 also a number that each connection has for itself."""
    last_versions = {api["api_key"]: api["max_version"] for api in response["api_keys"]}
    return bool(last_versions.get(OtherApi.METADATA, 0) < _METADATA_OF_KAFKA_4)


def _hide_values(request: dict[str, Any]) -> None:
    """Settings of groups are no secrets; those of others may be passwords."""
    for resource in request["resources"]:
        if resource["resource_type"] != _GROUP_RESOURCE:
            for config in resource["configs"]:
                config["value"] = _HIDDEN


class RotatedFile:
    """A file that lines are appended to. When it is full it becomes `NAME.1`, what was that `NAME.2`, and so on, as
    with log4j's RollingFileAppender; the oldest is deleted. All methods raise OSError."""

    def __init__(self, path: Path, file_bytes_max: int, files_max: int) -> None:
        self._path, self._file_bytes_max, self._files_max = path, file_bytes_max, files_max
        self._file = path.open("ab")
        self._size = self._file.tell()

    def write(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._file_bytes_max:
            self._rotate()
        self._file.write(line)
        self._size += len(line)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._files_max))]
        for older, newer in reversed(list(zip(names[1:], names, strict=False))):
            if newer.exists():
                newer.replace(older)
        self._file = self._path.open("wb")
        self._size = 0
