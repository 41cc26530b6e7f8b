"""A log that is followed tells what the broker did; where it cannot know, it says so and tells nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.history import GroupRecorded, RecordingGap
from tests.recordings.followed import (
    CLUSTERS,
    RECORDINGS,
    followed,
    name_of,
    outputs_of,
    owners_of_broker,
    owners_told,
)


@pytest.mark.parametrize("path", [*RECORDINGS, *CLUSTERS], ids=name_of)
def test_owners_of_every_generation_are_the_broker_s(path: Path) -> None:
    assert owners_told(outputs_of(followed(path))) == owners_of_broker(path)


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_nothing_is_doubted_in_a_whole_log(path: Path) -> None:
    outputs = outputs_of(followed(path))
    assert not [each for each in outputs if isinstance(each, RecordingGap | GroupRecorded)]
