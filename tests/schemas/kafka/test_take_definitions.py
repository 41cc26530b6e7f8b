"""The definitions that are checked in are those of Kafka's jars."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.jars.resolving import jars_directory
from tests.schemas.kafka.take_definitions import ROOT, definition_files


@pytest.mark.skipif(not jars_directory().exists(), reason="Kafka's jars have not been resolved: make jars")
def test_the_definitions_are_those_of_the_jars() -> None:
    checked_in = {
        str(path.relative_to(ROOT)): path.read_text("utf-8") for path in [ROOT / "NOTICE", *ROOT.glob("*/*.json")]
    }
    assert checked_in == definition_files()
