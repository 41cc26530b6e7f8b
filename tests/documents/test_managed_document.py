"""docs/managed.md: the settings that it gives to be pasted are taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from group_coordinator.command_line.options import load_as
from group_coordinator.watching.commands.watch_settings import WatchSettings

TEXT = (Path(__file__).parents[2] / "docs" / "managed.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
FLAGS = [re.findall(r"--kafka (\S+)", block) for block in re.findall(r"```\n(.*?)```", TEXT, re.DOTALL)]


@pytest.mark.parametrize("block", BLOCKS)
def test_settings_of_a_file(block: str, tmp_path: Path) -> None:
    file = tmp_path / "watch.toml"
    file.write_text(block)
    assert load_as(WatchSettings, {}, file).config.client_properties


@pytest.mark.parametrize("flags", [flags for flags in FLAGS if flags])
def test_settings_of_flags(flags: list[str]) -> None:
    assert load_as(WatchSettings, {"kafka": flags}, None).config.kafka
