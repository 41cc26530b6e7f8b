"""Pictures of the dashboard's pages, taken from a running demo and from recordings: `make screenshots` writes
docs/images/.

Needs Chromium (`CHROMIUM` names another one) and what the demo needs. It looks when the demo has had its crash, its
deploy and its flapping member. Pictures of watched clusters are of reports on the recordings of real clusters.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from PIL import Image

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.report import report_of_index

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parent / "images"
CLUSTERS = Path(__file__).parent.parent / "tests" / "fixtures" / "clusters"
COMMAND = (sys.executable, "-m", "group_coordinator.command_line.main")
START_TIMEOUT_S = 300
STORY_S = 110
"""How long the demo runs before the pictures are taken."""


STORY = "story of a consumer group"
"""That of the dashboard's tests."""


class Picture(Struct, frozen=True, kw_only=True):
    """One picture."""

    name: str
    view: str
    """The part of the address after `#`."""
    ready: str
    """What must be seen (a selector)."""
    width: int = 1280
    height: int = 800
    theme: Literal["light", "dark"] = "light"
    act: Callable[[Page], None] = lambda page: None
    recording: str = ""
    """Of a cluster, or `STORY`, in place of the demo."""


def _open_crash(page: Page) -> None:
    page.locator("tr[data-key]:has-text('expired')").first.click()
    page.wait_for_selector(".panel.rebalance .steps")


def _play(page: Page) -> None:
    page.locator("#wi-session").fill("30")
    page.locator("form.whatif button").click()
    page.wait_for_selector("h2:text('As it would have been')")


PICTURES = (
    Picture(name="groups", view="/groups", ready=".rows .row"),
    Picture(name="group", view="/group/payments", ready="tr[data-key]", act=_open_crash),
    Picture(name="group-dark", view="/group/orders?tab=members", ready=".lanes", theme="dark"),
    Picture(name="events", view="/events", ready=".feed li"),
    Picture(name="what-if", view="/group/payments?compare=yes", ready="form.whatif", act=_play),
    Picture(name="groups-390", view="/groups", ready=".rows .row", width=390, height=844),
    Picture(name="group-390", view="/group/payments", ready="tr[data-key]", width=390, height=844, theme="dark"),
    Picture(name="watch-groups", view="/groups", ready=".rows .row", height=520, recording="three-brokers"),
    Picture(
        name="watch-group",
        view="/group/mixed",
        ready="tr[data-key]",
        act=_open_crash,
        recording="three-brokers",
    ),
    Picture(
        name="watch-epochs",
        view="/group/pattern?at=1795371025300",
        ready=".targets li",
        recording="consumer-protocol",
    ),
    Picture(name="consumer-group", view="/group/orders", ready=".targets li", height=960, recording=STORY),
)


def take(browser: Browser, address: str, picture: Picture) -> None:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height}, color_scheme=picture.theme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(f"{address}#{picture.view}")
    page.wait_for_selector(picture.ready)
    picture.act(page)
    page.wait_for_timeout(700)
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    path = IMAGES / f"{picture.name}.png"
    shot.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(Path.cwd())}: {path.stat().st_size // 1024} KiB", flush=True)
    context.close()


def report_on(recording: str, directory: Path) -> str:
    """The address of a report on what a cluster left."""
    report = directory / f"{recording}.html"
    if recording == STORY:
        from tests.watching.dashboard import consumer_scene

        index = Index()
        for value in consumer_scene.values():
            index.add(value)
        report.write_text(report_of_index(index, recording), encoding="utf-8")
        return report.as_uri()
    logs = [f"--broker-log={path}" for path in sorted(CLUSTERS.glob(f"{recording}.*server.log.gz"))]
    dump = f"{recording}.offsets.jsonl.gz"
    subprocess.run([*COMMAND, "replay", dump, *logs, f"--report={report}"], cwd=CLUSTERS, check=True)
    return report.as_uri()


def address_of(demo: subprocess.Popen[str]) -> str:
    """What the demo says that its dashboard's address is."""
    assert demo.stdout is not None
    began_s = time.monotonic()
    for line in demo.stdout:
        print(line, end="", flush=True)
        found = re.match(r"In a browser: (\S+)", line)
        if found:
            return found[1]
        if time.monotonic() > began_s + START_TIMEOUT_S:
            break
    sys.exit("The demo did not start.")


@contextmanager
def running_demo() -> Iterator[str]:
    """Its dashboard's address, when it has played its story."""
    demo = subprocess.Popen([*COMMAND, "demo"], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        address = address_of(demo)
        time.sleep(STORY_S)
        yield address
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of a dashboard that runs already, in place of a demo")
    parser.add_argument("--only", nargs="*", choices=[picture.name for picture in PICTURES])
    arguments = parser.parse_args()
    path = next(
        (
            found
            for name in (os.environ.get("CHROMIUM"), "chromium", "google-chrome")
            if name and (found := shutil.which(name))
        ),
        None,
    )
    if path is None:
        sys.exit("There is no Chromium here.")
    from playwright.sync_api import sync_playwright

    wanted = [picture for picture in PICTURES if arguments.only is None or picture.name in arguments.only]
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        recordings = sorted({picture.recording for picture in wanted if picture.recording})
        addresses = {recording: report_on(recording, Path(directory)) for recording in recordings}
        is_needed = arguments.address is None and any(not picture.recording for picture in wanted)
        with running_demo() if is_needed else nullcontext(arguments.address or "") as address:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            for picture in wanted:
                take(browser, addresses.get(picture.recording, address), picture)
            browser.close()


if __name__ == "__main__":
    main()
