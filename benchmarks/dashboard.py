"""The dashboard with many groups: reading them, its memory, the list of all groups, a group's page.

    python -m benchmarks.dashboard [--groups 15000] [--asked 40] [--no-browser]

Histories are those of the real coordinator and real members in a simulated world (joins, a crash, a rolling deploy,
commits), multiplied under other names; one group is as large as the bounds let it be. The server is asked over HTTP,
and Chromium, where there is one, is timed from the address to the first rows. The bars: the list and a page within a
second.
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import os
import resource
import shutil
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from coordinator_state import GroupConfig
from group_coordinator.watching.dashboard.api_routes import PAGE_MAX
from group_coordinator.watching.dashboard.server import RunningServer, start_server
from schemas.events import encode_json
from schemas.history import HistoryRecord
from simulation.run import live_through
from simulation.scenario import Close, Crash, Fault, MemberPlan, Scenario
from simulation.world import World
from tests.watching.dashboard.values_source import ValuesSource

NAME = "template"
LARGE = "large"
LARGE_MEMBERS, LARGE_PARTITIONS, LARGE_ROUNDS = 60, 240, 90


def world(group_id: str, members: int, partitions: int, faults: list[Fault], commit_every_ms: int) -> list[bytes]:
    """The history of one group, as it lies on the topic."""
    plans = tuple(
        MemberPlan(
            name=f"{group_id}-{number}", group_id=group_id, topics=(f"{group_id}-records",), start_ms=150 * number,
            session_timeout_ms=10_000, heartbeat_interval_ms=3_000, auto_commit_interval_ms=commit_every_ms,
        )
        for number in range(members)
    )  # fmt: skip
    scenario = Scenario(
        seed=1,
        config=GroupConfig(),
        topics={f"{group_id}-records": partitions},
        members=plans,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        faults_end_ms=max(fault.at_ms for fault in faults) + 20_000,
    )
    lived = World(scenario)
    live_through(lived)
    return [encode_json(placed.output) for placed in lived.written if isinstance(placed.output, HistoryRecord)]


def template() -> list[bytes]:
    """Seven members: one dies and comes back, three are deployed."""
    faults: list[Fault] = [Crash(member=f"{NAME}-1", at_ms=30_000, back_after_ms=15_000)]
    faults += [
        Close(member=f"{NAME}-{number}", at_ms=40_000 + 8_000 * number, back_after_ms=3_000) for number in (2, 3)
    ]
    return world(NAME, 7, 14, faults, commit_every_ms=40_000)


def large() -> list[bytes]:
    """Many members, many partitions, one rebalance after the other."""
    faults: list[Fault] = [
        Close(member=f"{LARGE}-{number % LARGE_MEMBERS}", at_ms=30_000 + 15_000 * number, back_after_ms=6_000)
        for number in range(LARGE_ROUNDS)
    ]
    return world(LARGE, LARGE_MEMBERS, LARGE_PARTITIONS, faults, commit_every_ms=10_000)


def write_templates(path: Path) -> None:
    """Runs in a process of its own: the worlds' memory is not the dashboard's."""
    path.write_bytes(msgspec.json.encode([[value.decode() for value in values] for values in (template(), large())]))


def values(path: Path, groups: int) -> Iterator[bytes]:
    """The histories of all groups, record by record in turn, as a topic has them."""
    names = [f"group-{number:05}".encode() for number in range(groups)]
    record_texts, large_group_texts = msgspec.json.decode(path.read_bytes(), type=list[list[str]])
    for value in record_texts:
        yield from (value.encode().replace(NAME.encode(), name) for name in names)
    yield from (value.encode() for value in large_group_texts)


def rss_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


class Asked(NamedTuple):
    """One question to the server."""

    wall_s: float
    """Until the whole answer is there."""
    cpu_s: float
    """Of this process, which asks and answers: what it would take on a machine that has nothing else to do."""
    size: int
    """Unpacked."""


def ask(server: RunningServer, path: str) -> Asked:
    request = urllib.request.Request(server.address.rstrip("/") + path, headers={"accept-encoding": "gzip"})
    began_s, cpu_s = time.perf_counter(), time.process_time()
    with urllib.request.urlopen(request) as answer:
        body = answer.read()
        is_gzip = answer.headers.get("content-encoding") == "gzip"
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    return Asked(wall_s, cpu_s, len(gzip.decompress(body) if is_gzip else body))


def print_times(label: str, answers: Sequence[Asked], more: str = "") -> None:
    wall, cpu = ([sorted(times[at] for times in answers) for at in (0, 1)])
    texts = [
        f"{name} {statistics.median(figures) * 1000:6.0f} ms, worst {figures[-1] * 1000:6.0f} ms"
        for name, figures in (("wall", wall), ("CPU", cpu))
    ]
    print(f"{label:<36} {'   '.join(texts)}   {more}", flush=True)


_WHEN_SHOWN = """new MutationObserver(() => {
  if (window.shownAfterMs === undefined && document.querySelector("SELECTOR")) window.shownAfterMs = performance.now();
}).observe(document, { childList: true, subtree: true });"""
"""By the page's own clock, which begins with the navigation."""


def in_browser(server: RunningServer) -> None:
    path = next(
        (
            executable
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (executable := shutil.which(name))
        ),
        None,
    )
    if path is None:
        print("There is no Chromium here.")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for label, view, selector in (
            ("in Chromium: the list", "#/groups", ".rows .row"),
            ("in Chromium: a group's page", "#/group/group-00007", "tr[data-key]"),
            ("in Chromium: the large group's page", f"#/group/{LARGE}", "tr[data-key]"),
        ):
            times = []
            for _ in range(5):
                page = browser.new_page()
                page.add_init_script(_WHEN_SHOWN.replace("SELECTOR", selector))
                page.goto(server.address + view, wait_until="commit")
                page.wait_for_selector(selector)
                times.append(page.evaluate("window.shownAfterMs") / 1000)
                page.close()
            print(
                f"{label:<36} wall {statistics.median(times) * 1000:6.0f} ms, worst {max(times) * 1000:6.0f} ms",
                flush=True,
            )
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=15_000)
    parser.add_argument("--asked", type=int, default=40, help="how many groups' pages are asked for")
    parser.add_argument("--no-browser", action="store_true")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as directory:
        templates = Path(directory) / "templates.json"
        writer = multiprocessing.get_context("spawn").Process(target=write_templates, args=(templates,))
        writer.start()
        writer.join()
        measure(values(templates, arguments.groups), arguments)


def measure(records: Iterator[bytes], arguments: argparse.Namespace) -> None:
    before_mib, began_s, cpu_s = rss_mib(), time.perf_counter(), time.process_time()
    with start_server(ValuesSource("benchmark", records)) as server:
        took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        index = server.index
        members = sum(
            len(facts.members) for group_id in index.group_ids() if (facts := index.facts(group_id)) is not None
        )
        print(
            f"{len(index):,} groups, {members:,} members, {index.records:,} records; {os.cpu_count()} cores, load "
            f"{os.getloadavg()[0]:.0f}"
        )
        print(f"read in {took_s:.0f} s, CPU {cpu_s:.0f} s ({index.records / cpu_s:,.0f} records a second of CPU)")
        print(
            f"memory {rss_mib() - before_mib:,.0f} MiB, of which records {index.kept_bytes / 2**20:,.0f} MiB",
            flush=True,
        )
        lists = [ask(server, f"/api/v1/groups?limit={PAGE_MAX}&max_wait_ms=50") for _ in range(10)]
        print_times("a page of the list, the first time", lists[:1], f"{lists[0].size / 2**20:.1f} MiB")
        print_times("a page of the list", lists[1:])
        past = f"/api/v1/past-groups?at_ms={index.last_ms - 60_000}"
        print_times("the list as it was", [ask(server, past) for _ in range(5)])
        step = max(arguments.groups // arguments.asked, 1)
        address = "/api/v1/group-over-time?group="
        pages = [ask(server, f"{address}group-{number:05}") for number in range(0, arguments.groups, step)]
        print_times("a group's page", pages, f"{pages[0].size / 1024:.0f} KiB")
        page = ask(server, f"{address}{LARGE}")
        print_times("the large group's page", [page], f"{page.size / 2**20:.1f} MiB, {record_count(server)} records")
        print(f"memory after that {rss_mib() - before_mib:,.0f} MiB")
        if not arguments.no_browser:
            in_browser(server)


def record_count(server: RunningServer) -> str:
    records = server.index.group_records(LARGE)
    return "0" if records is None else f"{sum(chunk.size for chunk in records.life[0]) + len(records.life[1]):,}"


if __name__ == "__main__":
    main()
