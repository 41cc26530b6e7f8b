"""The pages in a real browser: no error, the right cause, the owner at any moment, accessible,
in both themes and widths."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.report import report_of_index, write_report
from group_coordinator.watching.dashboard.server import RunningServer, start_server
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Ownership
from schemas.records_file import Record, encode_record
from tests.watching.dashboard import scene
from tests.watching.dashboard.http import document
from tests.watching.dashboard.pages import owner_at, owners_shown
from tests.watching.observed.pieces import mixed
from tests.watching.watch.recorded_source import Recorded

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

VIEWS = (
    "#/groups", "#/groups?at=1700000062000", "#/group/payments", "#/group/clicks?tab=members",
    "#/group/clicks?tab=offsets",
    "#/group/payments?tab=refusals", "#/group/orders?tab=records", "#/events?commits=yes", "#/dead-letters",
    "#/group/payments?compare=yes", "#/readiness",
)  # fmt: skip


def open_view(page: Page, server: RunningServer, view: str) -> None:
    page.goto(server.address + view)
    page.wait_for_selector("#main :is(.rows .row, .panel, .feed li, .nothing, form.whatif)")
    page.wait_for_timeout(150)


def row_of(page: Page, group_id: str) -> Locator:
    """A group's row in the list. Other rows may name it, too: as a topic, or in a cause."""
    return page.locator(".rows .row", has=page.locator(f".name a:text-is('{group_id}')"))


def test_the_list_has_all_groups_the_worst_first(page: Page, served: RunningServer) -> None:
    from playwright.sync_api import expect

    open_view(page, served, "#/groups")
    names = page.locator(".rows .name a").all_inner_texts()
    assert names[:2] == ["clicks", "reports"]
    assert len(names) == 8
    page.keyboard.press("/")
    page.keyboard.type("pay")
    expect(page.locator(".rows .row")).to_have_count(3)
    assert sorted(page.locator(".rows .name a").all_inner_texts()) == ["ledger", "nightly", "payments"]
    assert "q=pay" in page.url


def test_readiness(browser: Browser, page: Page) -> None:
    """What the page shows of each group is what the API judges; a chip shows those of one verdict, a link a group."""
    from playwright.sync_api import expect

    source = Recorded("connect")
    source.give(mixed("connect", Random(7)))
    with start_server(source) as server:
        judged = document(server, "/api/v1/readiness")["groups"]
        open_view(page, server, "#/groups")
        page.locator(".tools a").click()
        page.wait_for_selector(".readiness tbody tr")
        cells = "rows => rows.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.innerText))"
        shown = page.locator(".readiness tbody tr").evaluate_all(cells)
        assert [(row[0], row[1][2:]) for row in shown] == [(each["group_id"], each["verdict"]) for each in judged]
        for row, each in zip(shown, judged, strict=True):
            assert all(sentence in row[2] for sentence in (*each["reasons"], *each["remarks"]))
        page.locator(".chip", has_text="wait").click()
        expect(page.locator(".readiness tbody tr")).to_have_count(2)
        assert "show=wait" in page.url
        page.locator(".readiness tbody a").first.click()
        page.wait_for_selector(".grouphead h1:text('connect-cluster')")


def test_keys_lead_from_the_list_to_the_cause(page: Page, served: RunningServer) -> None:
    open_view(page, served, "#/groups?sort=id&down=no&q=payments")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".grouphead h1:text('payments')")
    page.wait_for_selector("tr[data-key]")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    panel = page.locator(".panel.rebalance")
    panel.wait_for()
    page.wait_for_selector(".because:has-text('expired')")
    text = panel.inner_text()
    assert "payments-b" in text
    assert "is heard for the last time" in text
    assert "2 of 6 changed owner" in text
    # The address leads back to the very same.
    page.wait_for_url(lambda url: "rebalance=" in url)
    page.reload()
    page.wait_for_selector(".because:has-text('expired')")


def test_the_request_behind_a_step_is_shown(page: Page, served: RunningServer) -> None:
    open_view(page, served, "#/group/clicks")
    page.locator("tr[data-key]").nth(1).click()
    step = page.locator(".steps li.cause").first
    step.wait_for()
    step.locator("summary").click()
    text = step.inner_text()
    assert "LeaveGroup v5" in text
    assert "events partition 0, offset" in text
    assert "the consumer is being closed" in text


@pytest.mark.parametrize("after_ms", [-5_000, 7_000, 20_000, 80_000])
def test_time_travel_shows_the_owner_of_the_ownership_table(page: Page, served: RunningServer, after_ms: int) -> None:
    at_ms = scene.CRASH_MS + after_ms
    open_view(page, served, f"#/group/payments?at={at_ms}")
    page.wait_for_selector(".owners")
    owners = owners_shown(page)
    rows = [
        msgspec.structs.asdict(row)
        for row in fold(scene.scene())
        if isinstance(row, Ownership) and row.group_id == "payments"
    ]
    for partition in range(scene.TOPICS["payments"]):
        owner = owner_at(rows, partition, at_ms)
        name = owners[f"payments-{partition}"]
        assert (owner is None and name == "nobody") or (owner is not None and owner.startswith(name)), partition


def test_the_ruler_is_a_slider_for_the_keyboard(page: Page, served: RunningServer) -> None:
    open_view(page, served, "#/group/payments")
    page.locator(".ruler").focus()
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda url: "at=" in url)
    assert page.locator(".ruler").get_attribute("aria-valuetext") != "the present"
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "at=" not in url)


def test_dragging_the_bar_shows_all_groups_as_they_were(page: Page, served: RunningServer) -> None:
    open_view(page, served, "#/groups")
    page.locator(".timebar input").evaluate("range => { range.value = 20; range.dispatchEvent(new Event('input')); }")
    page.wait_for_selector(".groups.past .row")
    page.wait_for_selector(".tally:has-text('As of 2023-11-14')")
    assert "at=" in page.url


def test_a_list_of_the_past_names_topics_as_soon_as_they_are_known(page: Page, served: RunningServer) -> None:
    """The past has no topics of its own: they come with a second answer, after which nothing else draws the list."""
    from playwright.sync_api import Route, expect

    def late(route: Route) -> None:
        page.wait_for_timeout(400)
        route.continue_()

    page.route("**/api/v1/groups?*", late)
    page.goto(f"{served.address}#/groups?at={scene.CRASH_MS - 1_000}")
    expect(row_of(page, "ledger").locator(".name small")).to_have_text("orders, payments")


def test_clicking_a_lane_and_a_rebalance(page: Page, served: RunningServer) -> None:
    open_view(page, served, "#/group/payments")
    box = page.locator(".lanes .body").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 400, box["y"] + 80)
    page.wait_for_selector(".tip:has-text('payments-')")
    page.mouse.click(box["x"] + 500, box["y"] + 80)
    page.wait_for_url(lambda url: "at=" in url)
    strip = page.locator(".lanes .strip").bounding_box()
    assert strip is not None
    page.mouse.click(strip["x"] + 132, strip["y"] + 24)
    page.wait_for_selector(".panel.rebalance")


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_nothing_serious_for_axe_and_nothing_wider_than_the_window(
    browser: Browser, served: RunningServer, theme: Any, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=theme, reduced_motion="reduce", bypass_csp=True
    )
    page = context.new_page()
    page.add_init_script(Axe().axe_script)
    expired = next(
        entry
        for entry in document(served, "/api/v1/group-over-time?group=payments")["rebalances"]
        if entry["trigger"] == "member_expired"
    )
    for view in (*VIEWS, f"#/group/payments?rebalance={expired['key']}"):
        open_view(page, served, view)
        violations = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        serious = [
            {"id": entry["id"], "nodes": [node["html"][:200] for node in entry["nodes"][:3]]}
            for entry in violations
            if entry["impact"] in ("serious", "critical")
        ]
        assert serious == [], f"{view}: {json.dumps(serious, indent=1)}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
    context.close()


def test_the_report_opens_from_disk_without_a_network(browser: Browser, tmp_path: Path) -> None:
    outputs = tmp_path / "out"
    outputs.mkdir()
    lines = [encode_record(Record(partition=None, key=b"k", value=value)) for value in scene.values()]
    (outputs / "history.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    letter = Record(partition=None, key=None, value=b"?", headers={"reason": "no_key", "detail": "it has no key"})
    (outputs / "dead-letters.jsonl").write_bytes(encode_record(letter) + b"\n")
    file = tmp_path / "report.html"
    write_report(outputs, file, title="an incident")
    context = browser.new_context(viewport={"width": 1280, "height": 800}, offline=True)
    page = context.new_page()
    problems: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: requests.append(request.url) if not request.url.startswith(("data:", "file:")) else None,
    )
    page.goto(file.as_uri())
    page.wait_for_selector(".rows .row")
    assert page.locator(".rows .row").count() == 8
    page.locator(".rows a:text-is('payments')").click()
    page.wait_for_selector("tr[data-key]")
    page.locator("tr[data-key]:has-text('expired')").click()
    page.wait_for_selector(".panel.rebalance .because:has-text('payments-b')")
    page.goto(f"{file.as_uri()}#/groups?at={scene.CRASH_MS - 1_000}")
    page.wait_for_selector(".groups.past .row")
    payments = row_of(page, "payments")
    assert payments.locator(".members").inner_text().split()[0] == "3"
    assert payments.locator(".gen").inner_text() == "1"
    page.goto(f"{file.as_uri()}#/dead-letters")
    page.wait_for_selector(".tag:text('no key')")
    context.close()
    assert problems == []
    assert requests == []


def test_every_page_begins_with_what_is_doubtful(browser: Browser, tmp_path: Path) -> None:
    index = Index()
    index.doubts = ("<b>The clock</b> goes back.", *(f"Doubt {number}." for number in range(2, 8)))
    for value in scene.values():
        index.add(value)
    file = tmp_path / "report.html"
    file.write_text(report_of_index(index, "an incident"))
    page = browser.new_page()
    for view in ("groups", "group/payments", "events", "dead-letters"):
        page.goto(f"{file.as_uri()}#/{view}")
        page.wait_for_selector("#doubts:visible")
        doubts_text = page.locator("#doubts").inner_text()
        assert "<b>The clock</b> goes back." in doubts_text
        assert "and 3 more" in doubts_text
    index.doubts = ()
    file.write_text(report_of_index(index, "an incident"))
    page.goto(file.as_uri())
    page.reload()
    page.wait_for_selector(".rows .row")
    assert page.locator("#doubts:visible").count() == 0
    page.close()


def test_a_name_that_is_markup_stays_a_name(browser: Browser, tmp_path: Path) -> None:
    index = Index()
    name = "</script><img src=x onerror=alert(1)>"
    for value in scene.values():
        if b'"group_id":"payments"' in value:
            index.add(value.replace(b'"group_id":"payments"', b'"group_id":' + json.dumps(name).encode()))
    file = tmp_path / "report.html"
    file.write_text(report_of_index(index, name))
    page = browser.new_page()
    alerts: list[str] = []
    page.on("dialog", lambda dialog: alerts.append(dialog.message))
    page.goto(file.as_uri())
    page.wait_for_selector(".rows .row")
    assert page.locator(".rows .name a").inner_text() == name
    page.locator(".rows .name a").click()
    page.wait_for_selector("tr[data-key]")
    assert page.locator(".grouphead h1").inner_text() == name
    assert page.locator("img[src=x]").count() == 0
    page.close()
    assert alerts == []
