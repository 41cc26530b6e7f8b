"""A story of groups of all kinds on real brokers of the newest version that is known: what is told of it is what was
true."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.jars.java import JavaError
from group_coordinator.coordinating.jars.resolving import JarsError
from tests.clusters.acts import judge
from tests.clusters.recorder import record
from tests.clusters.story import FAILOVER, KINDS, OPERATIONS, STORY, steps
from tests.clusters.versions import VERSIONS, Version, versions
from tests.watching.observed.recorded import polls
from tests.watching.observed.scores import ALL_SOURCES, DUMP, LOGS, Sources, scores

NEWEST = Version(VERSIONS[-1])
TYPES = {"Classic", "Consumer", "Share", "Streams"}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a recording that was just made, without endings."""
    directory = tmp_path_factory.mktemp("recording")
    try:
        record(NEWEST, steps(KINDS, NEWEST), directory, "kinds")
    except (JarsError, JavaError) as problem:
        pytest.skip(f"the jars of Kafka {NEWEST.text} cannot be had: {problem}")
    return str(directory / "kinds")


@pytest.mark.kafka
@pytest.mark.parametrize("sources", ALL_SOURCES, ids=lambda sources: "+".join(sorted(sources)))
def test_what_is_told_is_what_was_true(recording: str, sources: Sources) -> None:
    measured, acts = scores(recording, sources), judge(recording, sources)
    assert {poll.group["type"] for poll in polls(recording) if poll.owners} == TYPES
    assert measured.polls_checked > 50
    assert measured.commits_checked > 200
    assert (measured.polls_wrong, measured.invented, acts.wrong) == (0, 0, 0), acts.lines
    if DUMP in sources:
        assert measured.polls_not_known == 0
        assert measured.commits_wrong == 0
        assert measured.generations_wrong == 0
        # Request logs alone have no line where a session of a consumer group ends, and do not tell of other kinds.
        assert acts.missed == 0, acts.lines
    if {DUMP, LOGS} <= sources:
        assert acts.not_known == 0


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("version", versions(""), ids=lambda version: version.text)
def test_every_member_of_a_story_is_started_before_something_is_done_to_it(version: Version, seed: int) -> None:
    for story in (STORY, KINDS, FAILOVER, OPERATIONS):
        started: set[str] = set()
        for step in steps(story, version, seed):
            if step.action == "start":
                started.update(step.names)
            elif step.action in ("stop", "kill", "freeze", "thaw", "hang", "subscribe"):
                assert started.issuperset(step.names), step


def test_a_list_of_versions_names_the_known_one_of_each_line() -> None:
    assert [version.text for version in versions("3.4,4.0.0")] == ["3.4.1", "4.0.0"]
    assert [version.text for version in versions("")] == list(VERSIONS)


def test_a_seed_is_another_life_of_the_same_story() -> None:
    plain, first, again, second = (steps(OPERATIONS, NEWEST, seed) for seed in (0, 7, 7, 8))
    assert first == again
    assert plain != first != second
    assert len(plain) == len(first) == len(second)
    of_one_group = [[step.action for step in life if "mig-a" in step.names] for life in (plain, first, second)]
    assert of_one_group[0] == of_one_group[1] == of_one_group[2]
