"""docs/clients.md: the versions that it lists are those that a gateway offers."""

import re
from pathlib import Path

from group_coordinator.coordinating.gateway.versions import GROUP_APIS, GROUP_VERSIONS

TEXT = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()


def test_the_versions_of_group_apis() -> None:
    (row,) = re.findall(r"^\| group APIs \| (.*) \|$", TEXT, re.MULTILINE)
    offered = {GROUP_APIS[key]: (first, last) for key, (first, last) in GROUP_VERSIONS.items()}
    listed = {name: tuple(map(int, versions.split("-"))) for name, versions in re.findall(r"(\w+) ([\d-]+)", row)}
    assert {name: (span[0], span[-1]) for name, span in listed.items()} == offered
