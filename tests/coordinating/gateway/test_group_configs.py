"""Settings of groups in requests of admin clients, on the wire: what goes to the coordinator, what to the broker, and
one answer to both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from group_coordinator.coordinating.gateway.codec import request_payload, response_body_start, response_payload
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.frames import RequestHead, frame
from group_coordinator.coordinating.gateway.group_configs import CONFIG_APIS, GROUP, ConfigsRequest
from group_coordinator.coordinating.gateway.group_events import GroupEvent, OnAnswer
from group_coordinator.coordinating.gateway.own_settings import OwnSettings, write_to
from group_coordinator.coordinating.gateway.refusals import refusal
from schemas.error_codes import ErrorCode
from schemas.events import decode_group_event
from schemas.group_metadata_events import GroupConfiguration
from schemas.group_settings import OwnSettingsBounds
from schemas.kafka.codec import decode
from schemas.messages import DescribeGroupsResponse
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.filtered_connections import connection
from tests.coordinating.gateway.machines import carried

DESCRIBE, ALTER, ALTER_BY_INCREMENTS, LIST = CONFIG_APIS
TOPIC = 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
Values = dict[str, Any]


class Bench:
    """One connection, the settings behind it, and a log whose events are handled when told."""

    def __init__(self, allows: Callable[[str], bool] = lambda _: True) -> None:
        self.published: dict[str, GroupConfiguration] = {}
        self.log: list[tuple[str, bytes]] = []
        self.now_s = 0.0
        self.takes_events = True
        self._questions: list[tuple[GroupEvent, OnAnswer]] = []
        self._allows = allows
        self._settings = OwnSettings(OwnSettingsBounds(), lambda: self.published, write_to(self), lambda: self.now_s)
        self.machine: Connection = connection()

    def append(self, group_id: str, value: bytes, on_failure: Callable[[], None]) -> None:
        if self.takes_events:
            self.log.append((group_id, value))
        else:
            on_failure()

    def ask(self, event: GroupEvent, on_answer: OnAnswer) -> None:
        self._questions.append((event, on_answer))

    def handled(self, *, in_time: bool = True) -> None:
        """The coordinator has handled what is in the log."""
        questions, self._questions = self._questions, []
        for event, on_answer in questions:
            doubt = refusal(event.request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            on_answer(DescribeGroupsResponse(groups=()) if in_time else doubt)

    def say(self, api_key: int, version: int, values: Values) -> None:
        head = RequestHead(api_key, version, 7, None, 0)
        self.machine.from_client(frame(request_payload(CONFIG_APIS[api_key] + "Request", head, values)))
        while self.machine.has_more:
            self.machine.go_on()
        for pending in list(self.machine.to_coordinator):
            request = pending.request
            assert isinstance(request, ConfigsRequest)
            self._settings.ask(request, self._allows, lambda answer: self.machine.answer(0, answer))
        self.machine.to_coordinator.clear()

    def at_broker(self, api_key: int, version: int) -> Values:
        """What the broker is asked."""
        (asked,) = wire.frames(carried(self.machine.to_broker))
        message = CONFIG_APIS[api_key] + "Request"
        head = RequestHead(api_key, version, 7, None, 0)
        start = len(request_payload(message, head, _EMPTY[api_key])) - _SIZE[api_key]
        return decode(message, version, asked[4:], start)

    def broker_says(self, api_key: int, version: int, values: Values) -> None:
        payload = response_payload(CONFIG_APIS[api_key] + "Response", version, 7, {"throttle_time_ms": 0, **values})
        self.machine.from_broker(frame(payload))

    def told(self, api_key: int, version: int) -> Values:
        """What the client is told."""
        assert self.machine.closing is None
        (answer,) = wire.frames(carried(self.machine.to_client))
        message = CONFIG_APIS[api_key] + "Response"
        return decode(message, version, answer[4:], response_body_start(message, version))

    def alter(self, *resources: Values, **fields: Any) -> None:
        self.say(ALTER_BY_INCREMENTS, 1, {"resources": resources, "validate_only": False, **fields})

    def described(self, *group_ids: str) -> list[dict[str, tuple[str, int]]]:
        """For each group its settings: value and source."""
        resources = tuple(resource(group_id, configuration_keys=None) for group_id in group_ids)
        self.say(
            DESCRIBE, 4, {"resources": resources, "include_synonyms": False, "include_documentation": False}
        )
        results = self.told(DESCRIBE, 4)["results"]
        assert [result["error_code"] for result in results] == [0] * len(group_ids)
        return [
            {config["name"]: (config["value"], config["config_source"]) for config in result["configs"]}
            for result in results
        ]


_EMPTY: dict[int, Values] = {
    ALTER_BY_INCREMENTS: {"resources": (), "validate_only": False},
    LIST: {"resource_types": ()},
}
_SIZE = {ALTER_BY_INCREMENTS: 3, LIST: 2}
"""Bytes of such a body, with its tags."""


def resource(name: str, resource_type: int = GROUP, **fields: Any) -> Values:
    return {"resource_type": resource_type, "resource_name": name, **fields}


def sets(group_id: str, *configs: tuple[str, int, str | None]) -> Values:
    return resource(
        group_id,
        configs=tuple({"name": name, "config_operation": how, "value": value} for name, how, value in configs),
    )


def test_an_alteration_is_an_event_and_is_answered_when_it_is_handled() -> None:
    bench = Bench()
    bench.alter(sets("g", (SESSION, 0, "50000")))
    assert [(group_id, decode_group_event(group_id, value)) for group_id, value in bench.log] == [
        ("g", GroupConfiguration(consumer_session_timeout_ms=50_000))
    ]
    assert carried(bench.machine.to_client) == b""
    bench.handled()
    (result,) = bench.told(ALTER_BY_INCREMENTS, 1)["responses"]
    assert (result["error_code"], result["resource_type"], result["resource_name"]) == (0, GROUP, "g")
    assert bench.described("g", "other") == [
        {SESSION: ("50000", 8), HEARTBEAT: ("5000", 5), "consumer.assignment.interval.ms": ("1000", 5)},
        {SESSION: ("45000", 5), HEARTBEAT: ("5000", 5), "consumer.assignment.interval.ms": ("1000", 5)},
    ]
    assert carried(bench.machine.to_broker) == b""


def test_alterations_one_upon_the_other() -> None:
    """The second does not wait until the first is published; an own setting that is deleted is that of all groups."""
    bench = Bench()
    bench.published["g"] = GroupConfiguration(consumer_assignment_interval_ms=0)
    bench.alter(sets("g", (SESSION, 0, "50000")))
    bench.handled()
    bench.told(ALTER_BY_INCREMENTS, 1)
    bench.alter(sets("g", (HEARTBEAT, 0, " 6000 "), ("consumer.assignment.interval.ms", 1, None)))
    bench.handled()
    own = GroupConfiguration(consumer_session_timeout_ms=50_000, consumer_heartbeat_interval_ms=6_000)
    assert decode_group_event("g", bench.log[-1][1]) == own
    bench.told(ALTER_BY_INCREMENTS, 1)
    all_of_it = resource("g", configs=({"name": SESSION, "value": "55000"},))
    bench.say(ALTER, 2, {"resources": (all_of_it,), "validate_only": False})
    bench.handled()
    replaced = GroupConfiguration(consumer_session_timeout_ms=55_000)
    assert decode_group_event("g", bench.log[-1][1]) == replaced, "the older request replaces all"


def test_what_others_have_written_counts_when_it_is_published() -> None:
    bench = Bench()
    bench.alter(sets("g", (SESSION, 0, "50000")))
    bench.handled()
    bench.told(ALTER_BY_INCREMENTS, 1)
    bench.published["g"] = GroupConfiguration(consumer_session_timeout_ms=50_000)
    assert bench.described("g")[0][SESSION] == ("50000", 8)
    bench.published["g"] = GroupConfiguration(consumer_session_timeout_ms=60_000)
    assert bench.described("g")[0][SESSION] == ("60000", 8)
    bench.alter(sets("g", (SESSION, 0, "50000")))
    bench.handled()
    bench.told(ALTER_BY_INCREMENTS, 1)
    assert bench.described("g")[0][SESSION] == ("50000", 8)
    bench.now_s = 31.0
    assert bench.described("g")[0][SESSION] == ("60000", 8), "somebody has changed it again, right behind"


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ((SESSION, 0, "44999"), 40),
        ((SESSION, 0, "60001"), 40),
        ((SESSION, 0, "1s"), 40),
        ((SESSION, 0, "99999999999"), 40),
        ((SESSION, 0, None), 40),
        ((SESSION, 2, "50000"), 40),
        ((SESSION, 9, "50000"), 42),
        (("share.session.timeout.ms", 0, "50000"), 40),
        (("streams.session.timeout.ms", 0, "50000"), 40),
        (("retention.ms", 0, "1"), 40),
    ],
)
def test_what_kafka_refuses(config: tuple[str, int, str | None], code: int) -> None:
    bench = Bench()
    bench.alter(sets("g", config), sets("fine", (SESSION, 0, "50000")))
    bench.handled()
    refused, fine = bench.told(ALTER_BY_INCREMENTS, 1)["responses"]
    assert (refused["error_code"], bool(refused["error_message"])) == (code, True)
    assert fine["error_code"] == 0, "each resource for itself"
    assert [group_id for group_id, _ in bench.log] == ["fine"]


def test_names_that_come_twice_and_no_name() -> None:
    bench = Bench()
    good = (SESSION, 0, "50000")
    bench.alter(sets("g", good, good), sets("twice", good), sets("twice", good), sets("", good))
    assert [result["error_code"] for result in bench.told(ALTER_BY_INCREMENTS, 1)["responses"]] == [42] * 4
    assert bench.log == []


def test_groups_beyond_the_bound_are_to_come_again() -> None:
    bench = Bench()
    bench.alter(*(sets(f"g{number}", (SESSION, 0, "50000")) for number in range(1_002)))
    bench.handled()
    codes = [result["error_code"] for result in bench.told(ALTER_BY_INCREMENTS, 1)["responses"]]
    assert codes == [0] * 1_000 + [14] * 2
    assert len(bench.log) == 1_000


def test_validation_alone_and_groups_that_the_client_may_not_use() -> None:
    bench = Bench(allows="g".__eq__)
    bench.alter(sets("g", (SESSION, 0, "50000")), sets("h", (SESSION, 0, "50000")), validate_only=True)
    assert [result["error_code"] for result in bench.told(ALTER_BY_INCREMENTS, 1)["responses"]] == [0, 30]
    assert bench.log == []


@pytest.mark.parametrize("is_taken", [True, False])
def test_without_an_answer_the_change_is_in_doubt(is_taken: bool) -> None:
    bench = Bench()
    bench.takes_events = is_taken
    bench.alter(sets("g", (SESSION, 0, "50000")))
    bench.handled(in_time=False)
    (result,) = bench.told(ALTER_BY_INCREMENTS, 1)["responses"]
    assert result["error_code"] == 7
    assert bench.described("g")[0][SESSION] == ("45000", 5)


def test_other_resources_of_the_request_go_to_the_broker() -> None:
    bench = Bench()
    topic = resource("t", TOPIC, configs=({"name": "retention.ms", "config_operation": 0, "value": "1"},))
    bench.alter(sets("a", (SESSION, 0, "50000")), topic, sets("b", (SESSION, 0, "1")))
    bench.machine.from_client(wire.heartbeat(8))
    assert carried(bench.machine.to_broker) == b""
    assert bench.machine.to_coordinator == [], "what comes behind it waits"
    bench.handled()
    assert bench.at_broker(ALTER_BY_INCREMENTS, 1)["resources"] == (topic,)
    assert [pending.api for pending in bench.machine.to_coordinator] == ["Heartbeat"]
    answer = {"error_code": 44, "error_message": "no", "resource_type": TOPIC, "resource_name": "t"}
    bench.broker_says(ALTER_BY_INCREMENTS, 1, {"responses": (answer,)})
    results = bench.told(ALTER_BY_INCREMENTS, 1)["responses"]
    assert [(result["resource_name"], result["error_code"]) for result in results] == [("a", 0), ("t", 44), ("b", 40)]


@pytest.mark.parametrize(("types", "groups"), [((), ["g"]), ((GROUP, TOPIC), ["g"]), ((TOPIC,), [])])
def test_the_groups_with_settings_are_listed_in_place_of_the_brokers(types: tuple[int, ...], groups: list[str]) -> None:
    bench = Bench(allows=lambda group_id: group_id != "hidden")
    bench.published = {name: GroupConfiguration(consumer_session_timeout_ms=50_000) for name in ("g", "hidden")}
    bench.say(LIST, 1, {"resource_types": types})
    assert bench.at_broker(LIST, 1)["resource_types"] == types
    brokers = tuple(
        {"resource_name": name, "resource_type": kind} for name, kind in (("theirs", GROUP), ("orders", TOPIC))
    )
    bench.broker_says(LIST, 1, {"error_code": 0, "config_resources": brokers})
    listed = bench.told(LIST, 1)["config_resources"]
    assert [each["resource_name"] for each in listed] == ["orders", *groups]


def test_synonyms_say_where_a_value_comes_from() -> None:
    bench = Bench()
    bench.published["g"] = GroupConfiguration(consumer_session_timeout_ms=50_000)
    asked = resource("g", configuration_keys=(SESSION,))
    bench.say(DESCRIBE, 3, {"resources": (asked,), "include_synonyms": True, "include_documentation": True})
    ((config,),) = [result["configs"] for result in bench.told(DESCRIBE, 3)["results"]]
    assert [(each["name"], each["value"], each["source"]) for each in config["synonyms"]] == [
        (SESSION, "50000", 8), (f"group.{SESSION}", "45000", 5),
    ]  # fmt: skip
    assert config["documentation"]
