"""The page asks and shows *What if*: the form offers what makes sense, both lives are one above the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from coordinator_state import GroupConfig
from group_coordinator.coordinating.assignors import ASSIGNORS
from group_coordinator.proving.what_if.what_if import play
from group_coordinator.watching.dashboard.server import RunningServer, start_server
from group_coordinator.watching.dashboard.what_if import GroupPlay
from tests.proving.what_if.recordings import log_of, recorded
from tests.watching.dashboard.http import ask, document
from tests.watching.dashboard.values_source import ValuesSource

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def of_a_deploy() -> Iterator[RunningServer]:
    """A recorded group that can be played again."""

    def play_again(group_id: str) -> GroupPlay:
        return GroupPlay(
            play=lambda change, repetition: play(log_of(group_id), GroupConfig(), ASSIGNORS, change, repetition),
            repetitions=3,
        )

    with start_server(ValuesSource("a deploy", recorded("deploy")), what_if=play_again) as server:
        yield server


def test_the_other_protocol_is_a_parameter(of_a_deploy: RunningServer) -> None:
    answer = document(of_a_deploy, "/api/v1/what-if?group=deploy&group_protocol=consumer&session_timeout_ms=6000")
    assert answer["before"]["protocols"] == answer["unchanged"]["protocols"] == ["classic"]
    assert answer["after"]["protocols"] == ["consumer"]
    assert answer["after"]["unowned_ms"] < answer["before"]["unowned_ms"] / 2
    least_ms, most_ms = answer["ranges"]["after"]["unowned_ms"]
    assert least_ms <= answer["after"]["unowned_ms"] <= most_ms < answer["before"]["unowned_ms"]
    assert any("in each of which what clients do comes later" in words for words in answer["assumptions"])
    assert any("hear of a new assignment with their next heartbeat" in words for words in answer["assumptions"])
    for query, words in (
        ("group_protocol=mine", "classic, consumer"),
        ("group_protocol=consumer&initial_delay_ms=0", "An initial delay is of classic groups"),
    ):
        status, _, body = ask(of_a_deploy, f"/api/v1/what-if?group=deploy&{query}")
        assert status == 400
        assert words in body.decode()


def test_what_if_it_used_the_new_protocol(of_a_deploy: RunningServer, page: Page) -> None:
    page.goto(of_a_deploy.address + "#/group/deploy?compare=yes")
    page.wait_for_selector("form.whatif")
    assert page.locator("label:has(#wi-delay)").is_visible()
    page.select_option("#wi-assignor", "range")
    page.select_option("#wi-protocol", "consumer")
    assert not page.locator("label:has(#wi-delay)").is_visible()
    assert page.locator("label:has(#wi-interval)").is_visible()
    assert page.locator("#wi-assignor option").all_inner_texts() == ["as it was", "uniform", "range"]
    page.locator("#wi-session").fill("6")
    page.locator("form.whatif button").click()
    page.wait_for_selector("h2:text('As it would have been')")
    cells = page.locator("table.numbers tr:has(th:text-is('Group protocol')) td").all_inner_texts()
    assert cells[:3] == ["classic", "classic", "consumer"]
    moved = page.locator("table.numbers tr:has(th:text-is('Partitions that moved')) td").all_inner_texts()
    assert (moved[0], moved[1].split()[0]) == ("36", "36")
    assert int(moved[2].split()[0]) < int(moved[0])
    assert page.locator(".idle dd").count() == 3
    assert "“Played again”" in page.locator(".belief").inner_text()
    assert page.locator(".compared .lanes").count() == 2
    unowned = page.locator("table.numbers tr:has(th:text-is('Partition-time without owner')) td")
    assert unowned.last.locator(".better").count() == 1
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_may_be_chance_is_no_difference(of_a_deploy: RunningServer, page: Page) -> None:
    """Without a change the same players do the same, however near they come to what happened."""
    page.goto(of_a_deploy.address + "#/group/deploy?compare=yes")
    page.locator("form.whatif button").click()
    page.wait_for_selector("h2:text('As it would have been')")
    assert page.locator("table.numbers .range").count() > 0
    assert page.locator("table.numbers .better, table.numbers .worse").count() == 0
    assert set(page.locator("table.numbers tbody tr td:last-child span.muted").all_inner_texts()) == {"same"}
