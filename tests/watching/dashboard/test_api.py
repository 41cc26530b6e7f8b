"""The API: every answer is as its OpenAPI document says, pages follow each other, and the fields stay."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import jsonschema
import pytest

from group_coordinator.watching.dashboard.server import RunningServer
from tests.watching.dashboard.http import ask, document

BASE = "/api/v1"
FIELDS_OF_VERSION_1 = {
    "Overview": "api_version caught_up dead_letters doubts first_ms groups groups_left_out has_what_if is_live "
    "is_report kept_bytes last_ms now_ms progress records source unreadable verdict_window_ms watched",
    "Watched": "cluster detail not_known sources",
    "WatchedSource": "detail kind last_ms name problem to_ms",
    "Groups": "groups groups_left_out next_page now_ms",
    "Group": "classic_members cluster finding_counts findings generation group_id held_up_since_ms holds_until_ms "
    "lag lag_ms lag_ms_is_at_least last_commit_ms last_event_ms last_rebalance_cause last_rebalance_duration_ms "
    "last_rebalance_ms latest_rebalances_ms loses_in_ms lost member members partitions partitions_beyond_end reason "
    "rebalances refusals severity state state_since_ms target_epoch topics type uncommitted_messages "
    "uncommitted_partitions verdict",
    "Finding": "committed_offset in_ms is_committed_again kind member_id messages partition rebalance_ms since_ms text "
    "topic",
    "PastGroups": "at_ms groups now_ms",
    "PastGroup": "generation group_id members state state_since_ms",
    "GroupDetails": "assignor findings group leader_id members now_ms open_transactions partitions",
    "OpenTransactions": "left_out oldest",
    "OpenTransaction": "producer_epoch producer_id since_ms text topics transactional_id",
    "Member": "client_id group_instance_id host member_id topics",
    "Partition": "committed_ms committed_offset is_beyond_end lag lag_ms lag_ms_is_at_least log_end_offset "
    "log_start_offset lost member_id metadata partition topic uncommitted_messages",
    "GroupOverTime": "deploys epochs group lanes members no_what_if now offsets open_transactions rebalances records "
    "refusals rewinds states unowned_ms votes window",
    "Deploy": "ended longest_ms members not_known_ms rebalances replaced started unowned_ms",
    "PartitionOverTime": "committed_by committed_ms committed_offset end_offsets end_times_ms expires_ms "
    "is_beyond_end lag lag_ms lag_ms_is_at_least log_end_offset log_start_offset lost member_id metadata offsets "
    "partition times_ms topic uncommitted_messages",
    "Rebalance": "cause counts dropped duration_ms ended_ms generation has_steps initial is_begin_known key outcome "
    "seen started_ms trigger waited_for",
    "Seen": "certainty places sources",
    "Votes": "protocol tie time_ms votes",
    "Rebalances": "group_id next_page now_ms rebalances",
    "RebalanceDetails": "group_id headline holders interrupts join_ms members moves rebalance steps steps_left_out "
    "votes waited_for waiting",
    "Step": "advice cause is_cause seen text time_ms type",
    "Cause": "api api_version armed_ms certainty client_host client_id deadline_ms evidence group_instance_id kind "
    "member_id offset partition producer_id reason request_id timer",
    "Evidence": "broker file line offset partition source",
    "WaitedFor": "fate gone_ms is_slowest joined_ms member_id told_ms",
    "Holder": "member_id partitions since_ms until_ms waiting",
    "Move": "member_id_after member_id_before member_id_target partitions topic",
    "Identity": "client_id group_instance_id host member_id",
    "Comparison": "after assumptions before page ranges unchanged",
    "Events": "events next_page now_ms",
    "Event": "cause group_id number seen text time_ms type",
    "DeadLetters": "dead_letters now_ms",
    "DeadLetter": "detail group_id number offset partition reason timestamp_ms value",
    "Request": "timestamp_ms value",
    "Problem": "error",
    "ReadinessPage": "counts groups next_page not_judged not_seen now_ms settings",
    "Readiness": "assignor cost group_id is_converted_live members protocol_type reasons remarks session_timeouts_ms "
    "static_members stored_ms verdict",
    "Cost": "not_known_ms rebalances since_ms without_owner_ms",
    "BrokerSettings": "has_protocol migration_policy session_timeout_max_ms session_timeout_min_ms session_timeout_ms "
    "size_max source",
}
"""Programs of other people read them: a new one may come, none may go."""

def described(served: RunningServer) -> dict[str, Any]:
    found: dict[str, Any] = document(served, f"{BASE}/openapi.json")
    return found


def problems(value: Any, schema: dict[str, Any], api: dict[str, Any]) -> list[str]:
    """Check a value against a schema of the document, where it may have no further fields."""
    strict = {
        name: each | ({"additionalProperties": False} if "properties" in each else {})
        for name, each in api["components"]["schemas"].items()
    }
    validator = jsonschema.Draft202012Validator({**schema, "components": {"schemas": strict}})
    return [error.message for error in validator.iter_errors(value)]


def test_every_answer_is_as_the_document_says(served: RunningServer) -> None:
    api = described(served)
    assert api["openapi"].startswith("3.1")
    groups = [each["group_id"] for each in document(served, f"{BASE}/groups")["groups"]]
    assert len(groups) == 8
    asked = 0
    for path, operations in api["paths"].items():
        assert operations.keys() == {"get"}
        responses = operations["get"]["responses"]
        needed = [each["name"] for each in operations["get"]["parameters"] if each["required"]]
        for group in groups if needed else [""]:
            status, _, body = ask(served, f"{BASE}{path}" + (f"?{urlencode({'group': group})}" if needed else ""))
            schema = responses[str(status)]["content"]["application/json"]["schema"]
            assert problems(json.loads(body), schema, api) == [], (path, group)
            asked += status == 200
    assert asked > 3 * len(groups)


def test_the_check_finds_differences(served: RunningServer) -> None:
    api, schema = described(served), {"$ref": "#/components/schemas/Overview"}
    overview = document(served, f"{BASE}/overview")
    assert problems(overview, schema, api) == []
    for changed in ({"groups": "8"}, {"more": 1}, {"api_version": "v2"}, {"doubts": [1]}):
        assert problems(overview | changed, schema, api), changed
    assert problems({name: overview[name] for name in overview if name != "now_ms"}, schema, api)


def test_the_fields_stay(served: RunningServer) -> None:
    schemas = described(served)["components"]["schemas"]
    for name, fields in FIELDS_OF_VERSION_1.items():
        assert set(fields.split()) <= schemas[name]["properties"].keys(), name
    assert schemas.keys() == FIELDS_OF_VERSION_1.keys()


@pytest.mark.parametrize(
    ("path", "key", "limit"),
    [("/groups?", "groups", 3), ("/rebalances?group=payments&", "rebalances", 1), ("/events?", "events", 300)],
)
def test_pages_follow_each_other(served: RunningServer, path: str, key: str, limit: int) -> None:
    everything = document(served, f"{BASE}{path}limit=1000")
    found: list[Any] = []
    page: dict[str, str] = {}
    while True:
        answer = document(served, f"{BASE}{path}{urlencode({'limit': limit} | page)}")
        assert len(answer[key]) <= limit
        found += answer[key]
        if answer["next_page"] is None or len(found) >= len(everything[key]):
            break
        page = {"page": answer["next_page"]}
    assert found[: len(everything[key])] == everything[key]
    assert len(found) > 2 * limit
    assert answer["next_page"] == everything["next_page"] or key == "events"


def test_groups_are_chosen(served: RunningServer) -> None:
    groups = document(served, f"{BASE}/groups")["groups"]
    for name in ("state", "verdict"):
        value = groups[0][name]
        chosen = document(served, f"{BASE}/groups?{urlencode({name: value})}")["groups"]
        assert chosen == [each for each in groups if each[name] == value]
    assert [each["group_id"] for each in document(served, f"{BASE}/groups?contains=aymen")["groups"]] == ["payments"]


def test_its_answers_are_of_one_form(served: RunningServer) -> None:
    page = document(served, f"{BASE}/group-over-time?group=payments")
    told = document(served, f"{BASE}/rebalances?group=payments")["rebalances"]
    assert told[::-1] == page["rebalances"]
    last = document(served, f"{BASE}/rebalance?group=payments")
    assert last["rebalance"] == told[0]
    named = urlencode({"group": "payments", "rebalance": told[0]["key"]})
    assert document(served, f"{BASE}/rebalance?{named}") == last
    details = document(served, f"{BASE}/group?group=payments")
    assert details["group"] == page["group"]
    assert details["group"] in document(served, f"{BASE}/groups")["groups"]
    for now, over_time in zip(details["partitions"], page["offsets"], strict=True):
        assert now.items() <= over_time.items()


@pytest.mark.parametrize(
    ("question", "status", "error"),
    [
        ("/group", 400, "group is missing: The group's id."),
        ("/group?group=nobody", 404, "There is no group nobody."),
        ("/groups?limit=0", 400, "limit is 0, but must be 1 to 20000."),
        ("/groups?limit=many", 400, "limit is a whole number."),
        ("/groups?page=x", 400, "page is what an answer has named as next_page."),
        ("/groups?verdict=bad", 400, "verdict is none of"),
        ("/groups?sort=lag", 400, "There is no parameter sort"),
        ("/events?page=x", 400, "page is what an answer has named as next_page."),
        ("/rebalance?group=payments&rebalance=0-0", 404, "Group payments has no rebalance 0-0"),
    ],
)
def test_what_is_no_question(served: RunningServer, question: str, status: int, error: str) -> None:
    answer = ask(served, BASE + question)
    assert answer[0] == status
    assert json.loads(answer[2])["error"].startswith(error)
