"""The page says what it watches, from which sources, and where each rebalance was seen."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from group_coordinator.watching.commands.observed_source import observed_source
from group_coordinator.watching.dashboard.change import Change
from group_coordinator.watching.dashboard.documents import Documents, NotFound
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.report import report_of_index
from schemas.events import encode_json
from schemas.history import OffsetsCommitted
from tests.watching.observed.recorded import CLUSTERS

if TYPE_CHECKING:
    from playwright.sync_api import Page


def index_of(name: str, *, with_logs: bool = True) -> Index:
    logs = sorted(str(path) for path in CLUSTERS.glob(f"{name}.*server.log.gz")) if with_logs else []
    observed = observed_source([Path(CLUSTERS / f"{name}.offsets.jsonl.gz")], logs, None, UTC, UTC)
    index = Index()
    index.doubts, index.watched = observed.doubts, (observed.watched,)
    for record in observed.history:
        index.add_record(record, encode_json(record))
    return index


@pytest.fixture(scope="module")
def watched() -> Index:
    return index_of("three-brokers")


def test_a_rebalance_says_where_it_was_seen(watched: Index) -> None:
    page = Documents(watched).group("mixed")
    sources = [entry.seen.sources for entry in page["rebalances"] if entry.seen]
    assert sources == ["log of broker 3", "log of broker 3"]
    story = Documents(watched).rebalance("mixed", page["rebalances"][1].key)
    assert story.rebalance.seen is not None
    assert story.rebalance.seen.places.startswith("log of broker 3, three-brokers.broker-3.server.log.gz, line ")
    assert {entry.seen.sources for entry in story.steps if entry.seen} == {"log of broker 3", "offsets topic"}


def test_how_long_a_member_kept_its_partitions_is_not_known(watched: Index) -> None:
    page = Documents(watched).group("mixed")
    kinds = {tuple(gap[2] for gap in lane["gaps"]) for lane in page["lanes"]}
    assert kinds == {("not_known",), ("unowned",)}


def test_without_logs_no_reason_is_claimed() -> None:
    index = index_of("three-brokers", with_logs=False)
    page = Documents(index).group("mixed")
    assert {rebalance.seen and rebalance.seen.certainty for rebalance in page["rebalances"]} == {"not known"}
    assert index.watched[0].not_known[0].startswith("No broker's log is read")


def test_the_report_has_its_sources_at_the_top(page: Page, watched: Index, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_of_index(watched, "three-brokers"), encoding="utf-8")
    page.goto(f"{file.as_uri()}#/group/mixed")
    page.wait_for_selector("tr[data-key]")
    text = page.locator("#watched").inner_text()
    assert "three-brokers.offsets.jsonl.gz" in text
    assert "log of broker 2" in text
    assert "Not known: No request log is read" in text
    page.locator("#watched summary").click()
    assert page.locator("#watched tbody tr").count() == 4
    assert "log of broker 3" in page.locator("tr[data-key]").first.inner_text()


REVOKING_MS = 1795371025300
"""A member of `pattern` must give up a partition then, and another one has not heard of the new target."""


@pytest.fixture(scope="module")
def of_consumer_protocol() -> Index:
    return index_of("consumer-protocol")


def test_groups_that_count_epochs(of_consumer_protocol: Index) -> None:
    documents = Documents(of_consumer_protocol)
    assert {row.group_id: row.type for row in of_consumer_protocol.rows(documents.now_ms)} == dict.fromkeys(
        ("pattern", "shop", "site"), "consumer"
    )
    page = documents.group("pattern")
    assert {entry.counts for entry in page["rebalances"]} == {"epoch"}
    before = [entry for entry in page["epochs"]["members"] if entry[0] <= REVOKING_MS]
    assert before[-1][2:] == ["unrevoked_partitions", 5, "orders 5-8; orders-us 1", "orders-eu 2"]
    assert page["epochs"]["targets"][-1][1] == page["group"].generation


def test_share_and_streams_groups() -> None:
    index = index_of("share-streams")
    rows = index.rows(index.last_ms)
    assert {row.group_id: row.type for row in rows} == {"workers": "share", "letters": "streams"}


def test_a_group_that_was_converted_and_back() -> None:
    page = Documents(index_of("migration")).group("live")
    assert page["group"].type == "classic"
    assert {conversion[1] for conversion in page["epochs"]["conversions"]} == {"consumer", "classic"}
    assert page["epochs"]["now"] == {}


def test_target_beside_current_assignment(page: Page, of_consumer_protocol: Index, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_of_index(of_consumer_protocol, "consumer-protocol"), encoding="utf-8")
    page.goto(f"{file.as_uri()}#/group/pattern?at={REVOKING_MS}")
    page.wait_for_selector(".targets li")
    assert "Target of epoch 6, by range" in page.locator(".side").inner_text()
    assert [" ".join(text.split()) for text in page.locator(".holders li").all_inner_texts()] == [
        "pattern-b (FEI9GZ21) must give up orders-eu 0-1 and has not heard of it yet",
        "pattern-a (wj4hKINa) must give up orders-eu 2 since 18:10:25, for 106 ms (else it is dropped at 18:15:25)",
    ]
    assert "consumer group (KIP-848)" in page.locator(".grouphead").inner_text()
    page.locator("tr[data-key]").first.click()
    page.wait_for_selector(".panel.rebalance h2:text('Epoch 8')")


def test_what_if_says_why_it_cannot_be_played(of_consumer_protocol: Index, watched: Index) -> None:
    for index, group_id, reason in (
        (watched, "mixed", "brokers' logs and polls do not say which requests each client sent"),
        (of_consumer_protocol, "shop", "brokers' logs and polls do not say which requests each client sent"),
    ):
        documents = Documents(index)
        assert reason in (documents.group(group_id)["no_what_if"] or "")
        with pytest.raises(NotFound, match=reason):
            documents.what_if(group_id, Change())


def test_what_if_is_not_offered_where_it_cannot_be_played(page: Page, watched: Index, tmp_path: Path) -> None:
    """Who follows a link to it is told why."""
    file = tmp_path / "report.html"
    file.write_text(report_of_index(watched, "three-brokers"), encoding="utf-8")
    page.goto(f"{file.as_uri()}#/group/mixed")
    page.wait_for_selector("tr[data-key]")
    assert page.locator("a.asked").count() == 0
    page.goto(f"{file.as_uri()}#/group/mixed?compare=yes")
    page.wait_for_selector(".compare:has-text('request logs say it')")
    page.locator("a.asked:has-text('Back to what happened')").click()
    page.wait_for_selector("tr[data-key]")


def test_commits_before_the_window_are_told(page: Page, tmp_path: Path) -> None:
    """The records that are kept of a group may begin long after its last commit."""
    days_ms = 3 * 86_400_000
    index = Index()
    observed = observed_source([Path(CLUSTERS / "three-brokers.offsets.jsonl.gz")], [], None, UTC, UTC)
    for record in observed.history:
        if record.group_id == "mixed":
            is_commit = isinstance(record, OffsetsCommitted)
            moved = replace(record, timestamp_ms=record.timestamp_ms - days_ms) if is_commit else record
            index.add_record(moved, encode_json(moved))
    file = tmp_path / "report.html"
    file.write_text(report_of_index(index, "three-brokers"), encoding="utf-8")
    page.goto(f"{file.as_uri()}#/group/mixed?tab=offsets")
    cells = page.locator("td.life")
    cells.first.wait_for()
    texts = cells.all_inner_texts()
    assert len(texts) == 6
    assert all(text.startswith("none since 2026-11-22 ") and text.endswith(", the last 2 d ago") for text in texts)
