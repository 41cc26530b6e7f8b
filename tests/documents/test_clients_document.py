"""docs/clients.md: the versions that it lists are those that a gateway offers, and its bounds are the defaults."""

import re
from pathlib import Path

from group_coordinator.gateway.config import Answers, Bounds
from group_coordinator.gateway.versions import GROUP_APIS, GROUP_VERSIONS

TEXT = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
UNITS = {"": 1, "MiB": 1 << 20, "s": 1_000}


def test_the_versions_of_group_apis() -> None:
    (row,) = re.findall(r"^\| group APIs \| (.*) \|$", TEXT, re.MULTILINE)
    offered = {GROUP_APIS[key]: (first, last) for key, (first, last) in GROUP_VERSIONS.items()}
    listed = {name: tuple(map(int, versions.split("-"))) for name, versions in re.findall(r"(\w+) ([\d-]+)", row)}
    assert {name: (span[0], span[-1]) for name, span in listed.items()} == offered


def test_bounds_are_the_defaults() -> None:
    """`64 MiB (`buffered_bytes_max`)`, `30 s (`request_timeout_ms`)`."""
    written = re.findall(r"([\d,]+) ?(MiB|s|) \(`(\w+)`\)", TEXT)
    settings = {**vars(Bounds()), **vars(Answers())}
    stated = {name: int(number.replace(",", "")) * UNITS[unit] for number, unit, name in written}
    assert {"buffered_bytes_max", "connections_max", "answer_timeout_ms"} <= stated.keys()
    assert stated == {name: settings[name] for name in stated}
