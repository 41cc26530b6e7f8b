"""A short story on real brokers of the newest version that is known: what is told of it is what was true."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.jars.java import JavaError
from group_coordinator.coordinating.jars.resolving import JarsError
from tests.clusters.acts import judge
from tests.clusters.recorder import record
from tests.clusters.story import FAILOVER, SHORT_STORY, STORY, steps
from tests.clusters.versions import VERSIONS, Version, versions
from tests.watching.observed.recorded import truth
from tests.watching.observed.scores import ALL_SOURCES, DUMP, LOGS, REQUESTS, Sources, scores

NEWEST = Version(VERSIONS[-1])


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a recording that was just made, without endings."""
    try:
        NEWEST.jars()
    except (JarsError, JavaError) as problem:
        pytest.skip(f"the jars of Kafka {NEWEST.text} cannot be had: {problem}")
    directory = tmp_path_factory.mktemp("recording")
    record(NEWEST, steps(SHORT_STORY, NEWEST), directory, "short")
    return str(directory / "short")


@pytest.mark.kafka
@pytest.mark.parametrize("sources", ALL_SOURCES, ids=lambda sources: "+".join(sorted(sources)))
def test_what_is_told_is_what_was_true(recording: str, sources: Sources) -> None:
    measured, acts = scores(recording, sources), judge(recording, sources)
    assert measured.polls_checked > 10
    assert measured.commits_checked > 50
    assert (measured.invented, acts.wrong) == (0, 0), acts.lines
    if DUMP in sources:
        assert measured.commits_wrong == 0
        assert measured.generations_wrong == 0
    if sources != frozenset({REQUESTS}) and sources != frozenset({REQUESTS, DUMP}):
        # Request logs have no line where a session of a consumer group ends: a kill may not be told by them alone.
        assert acts.missed == 0, acts.lines
    if LOGS in sources:
        assert acts.told == _ends_of_members(recording)


def _ends_of_members(recording: str) -> int:
    return sum(one["action"] in ("kill", "stop") for one in truth(recording))


@pytest.mark.parametrize("version", versions(""), ids=lambda version: version.text)
def test_every_member_of_a_story_is_started_before_something_is_done_to_it(version: Version) -> None:
    for story in (STORY, SHORT_STORY, FAILOVER):
        started: set[str] = set()
        for step in steps(story, version):
            if step.action == "start":
                started.update(step.names)
            elif step.action in ("stop", "kill", "freeze", "thaw", "hang", "subscribe"):
                assert started.issuperset(step.names), step


def test_a_list_of_versions_names_the_known_one_of_each_line() -> None:
    assert [version.text for version in versions("3.4,4.0.0")] == ["3.4.1", "4.0.0"]
    assert [version.text for version in versions("")] == list(VERSIONS)
