"""Kafka's own coordinator of consumer groups, history by history: how the core is compared with it.

That those of 4.3.1 are reproduced is a test of `tests/coordinating/responder/test_recorded_logs.py`, which goes on with
what the core said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from coordinator_state.kafka_versions import RULES
from tests.proving.recordings.forgetful_coordinator import ForgetfulCoordinator
from tests.verify_history import histories
from tests.verify_history.histories import HistoryReport, verify_histories

FOLDER = Path(__file__).parents[1] / "fixtures" / "consumer_histories"
FAMILIES = sorted(path.name.split(".")[0] for path in FOLDER.glob("*.jsonl.gz"))


def path_of(family: str) -> Path:
    return FOLDER / f"{family}.jsonl.gz"


def test_all_histories_are_there() -> None:
    assert len(FAMILIES) == 27
    assert sum(gzip.decompress(path_of(family).read_bytes()).count(b"\n") for family in FAMILIES) == 428


@pytest.mark.parametrize("family", ["config", "regex", "revocation", "static"])
def test_nothing_but_the_blobs_is_needed_between_steps(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "Coordinator", ForgetfulCoordinator)
    report = verify_histories([path_of(family)])
    assert [line for difference in report.differences[:3] for line in difference.lines()] == []


def test_kafka_does_as_we_do_where_a_judge_of_ours_had_it_otherwise() -> None:
    """Kafka 4.3.1's classes played what the simulation took for faults of the coordinator."""
    report = verify_histories([FOLDER.parent / "judged_histories.jsonl.gz"])
    assert report.answers > 20
    assert [line for difference in report.differences for line in difference.lines()] == []


def test_a_difference_is_found(tmp_path: Path) -> None:
    with gzip.open(path_of("join"), "rt") as file:
        recorded = json.loads(file.readline())
    step = next(step for step in recorded["steps"] if step.get("records"))
    step["records"][0]["value_b64"] = "AAAA"
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(recorded) + "\n")
    assert [difference.what for difference in verify_histories([path]).differences] == ["records"]


def test_who_takes_the_place_of_a_static_member_in_kafka_4_4() -> None:
    """A random history of Kafka 4.4.0's classes (`tests.beside_kafka`), in which the target stays the same."""
    path = FOLDER.parent / "kafka_4_4" / "replacement.jsonl.gz"
    assert verify_histories([path], kafka_version="4.4").differences == []
    assert [difference.what for difference in verify_histories([path], kafka_version="4.3").differences][:1]


def test_histories_that_kafka_4_4_decides_otherwise() -> None:
    """All of those of 4.3.1 that 4.4.0's classes answer otherwise, recorded anew; the rest are the same."""
    path = FOLDER.parent / "kafka_4_4" / "differing.jsonl.gz"
    report = verify_histories([path], kafka_version="4.4")
    assert (report.histories, report.steps) == (243, 10_381)
    assert [line for difference in report.differences[:3] for line in difference.lines()] == []


def test_histories_of_what_is_new_in_kafka_4_4() -> None:
    """Its rules, TxnOffsetCommit 6 and DeleteGroups 3."""
    path = FOLDER.parent / "kafka_4_4" / "since_4_4.jsonl.gz"
    report = verify_histories([path], kafka_version="4.4")
    assert report.answers > 100
    assert [line for difference in report.differences[:3] for line in difference.lines()] == []


def test_members_in_the_order_of_a_table_that_grew_and_of_an_upgraded_group() -> None:
    """Random histories of Kafka 4.4.0's classes in which members share a slot: who is first has more, or leads."""
    report = verify_histories([FOLDER.parent / "kafka_4_4" / "member_order.jsonl.gz"], kafka_version="4.4")
    assert (report.histories, report.steps) == (6, 538)
    assert [line for difference in report.differences[:3] for line in difference.lines()] == []


def test_a_target_is_computed_for_a_group_as_its_conversion_made_it() -> None:
    """A random history of Kafka 4.3.1's classes: the order is that of the group before it is made of its records."""
    report = verify_histories([FOLDER.parent / "kafka_4_4" / "member_order_of_4_3.jsonl.gz"], kafka_version="4.3")
    assert report.histories == 1
    assert report.differences == []


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_of_kafka_4_4_is_needed(rule: str) -> None:
    shown_in = {"malformed_subscription_is_inconsistent": "since_4_4", "instance_keeps_target": "replacement"}
    path = FOLDER.parent / "kafka_4_4" / f"{shown_in.get(rule, 'differing')}.jsonl.gz"
    with pytest.raises(_DifferenceFound):
        verify_histories([path], _stop_at_a_difference, kafka_version=f"4.4-{rule}")


class _DifferenceFound(Exception):
    """There is one, and others need not be looked for."""


def _stop_at_a_difference(report: HistoryReport) -> None:
    if report.differences:
        raise _DifferenceFound
