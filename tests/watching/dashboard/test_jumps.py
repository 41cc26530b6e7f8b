"""Commits that go back or pass over messages: who did it, what that means, and what is no such thing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.findings import Finding
from group_coordinator.watching.dashboard.settings import HealthSettings
from schemas.history import Cause, OffsetChange, OffsetsCommitted
from tests.watching.dashboard.lives import HOUR, MINUTE, POLL_MS, SECOND, START_MS, STEP_MS, Life, Plan, live, steady

SETTINGS = HealthSettings()
TOOL = "an admin tool or another client that is no member"


def lived(plan: Plan | None = None) -> Life:
    """Return a life of an hour."""
    life = Life(plan or Plan(name="g", traffic=steady(20), members=2), Random(1))
    for _ in live(life, HOUR, SETTINGS):
        pass
    return life


def after(life: Life, for_ms: int) -> list[Group]:
    return [row for _, row in live(life, HOUR + for_ms, SETTINGS, HOUR)]


def only(row: Group) -> Finding:
    (finding,) = row.findings
    return finding


def test_a_member_that_goes_back_is_named_by_what_it_has_and_told_for_an_hour() -> None:
    life = lived()
    high = life.facts.offsets["t", 1].offset
    life.commit(1, 500, HOUR - 5 * SECOND)
    life.seek(1, 500)
    first, *later = after(life, HOUR + 5 * MINUTE)
    assert first.reason.startswith(f"a member (m1 has it) went back in t-1 from offset {high:,} to 500 at 00:59:55: ")
    assert first.reason.endswith(f": {high - 500:,} messages are read again")
    finding = only(first)
    assert (first.verdict, finding.kind, finding.member_id, finding.partition) == ("rewound", "rewound", "m1", 1)
    assert (finding.messages, finding.since_ms) == (high - 500, START_MS + HOUR - 5 * SECOND)
    assert [row.verdict for row in later[: HOUR // POLL_MS - 2]] == ["rewound"] * (HOUR // POLL_MS - 2)
    assert later[-1].verdict == "stable"


@pytest.mark.parametrize("back", [1, 300])
def test_who_goes_back_by_no_more_than_one_of_its_commits_has_read_that_twice_and_no_more(back: int) -> None:
    life = lived()
    life.commit(1, life.facts.offsets["t", 1].offset - back, HOUR - 5 * SECOND)
    assert all(row.verdict == "stable" for row in after(life, 10 * MINUTE))


@pytest.mark.parametrize(
    ("move", "kind", "messages", "says"),
    [
        (lambda offset: 0, "rewound", None, "went back in t-0 from offset"),
        (lambda offset: offset + 2_000, "skipped", 2_000, "went on in t-0 from offset"),
    ],
)
def test_a_tool_that_sets_the_offset_of_a_group_without_members_is_told(
    move: Callable[[int], int], kind: str, messages: int | None, says: str
) -> None:
    life = lived()
    life.leave(HOUR)
    offset = life.facts.offsets["t", 0].offset
    assert {row.verdict for row in after(life, 10 * MINUTE)} <= {"stable", "empty_with_lag", "empty"}
    life.commit(0, move(offset), HOUR + 10 * MINUTE)
    rows = [row for _, row in live(life, HOUR + 12 * MINUTE, SETTINGS, HOUR + 10 * MINUTE)]
    finding = only(rows[-1])
    assert (rows[-1].verdict, finding.kind, finding.member_id) == (kind, kind, None)
    assert finding.messages == (offset if messages is None else messages)
    assert rows[-1].reason.startswith(f"{TOOL} {says} {offset:,} to {move(offset):,} at 01:10:00")


def test_who_reads_without_being_a_member_passes_over_nothing() -> None:
    """Its group once had members."""
    life = lived()
    life.leave(HOUR)
    after(life, 10 * MINUTE)
    rows = []
    for at_ms in range(HOUR + 10 * MINUTE, 2 * HOUR, STEP_MS):
        life.commit(0, life.logs[0].end, at_ms)
        rows += [row for _, row in live(life, at_ms + STEP_MS, SETTINGS, at_ms)]
    assert not any(row.findings for row in rows)


def test_a_commit_beyond_the_end_of_the_log_is_told_and_whose_it_is() -> None:
    life = lived()
    end = life.logs[1].end
    life.commit(1, end + 1_000_000, HOUR)
    life.stuck_from_ms[1] = HOUR
    rows = after(life, 2 * MINUTE)
    finding = only(rows[-1])
    assert (rows[-1].verdict, finding.kind, finding.member_id) == ("skipped", "skipped", "m1")
    assert rows[-1].reason.startswith(f"m1 committed {end + 1_000_000:,} at 01:00:00 in the log of t-1, which ends at ")


def test_a_log_that_was_made_anew_is_nobodys_jump() -> None:
    life = lived()
    life.logs[1].end = 10
    life.stuck_from_ms[1] = HOUR
    assert all(not row.findings for row in after(life, 4 * MINUTE))


@pytest.mark.parametrize(
    ("cause", "member_id", "who"),
    [
        (Cause(kind="request", partition=0, offset=0), "m0.1", "m0.1"),
        (
            Cause(kind="request", partition=0, offset=0, client_id="tool", client_host="/10.0.0.9"),
            None,
            "client tool (/10.0.0.9), which is no member,",
        ),
        (Cause(kind="observed", partition=0, offset=0, certainty="inferred"), None, "somebody, not known who,"),
    ],
)
def test_who_did_it_is_said_as_far_as_it_is_known(cause: Cause, member_id: str | None, who: str) -> None:
    life = lived()
    now_ms, change = START_MS + HOUR - 5 * SECOND, OffsetChange("t", 0, 0, 1)
    life.facts.follow(
        OffsetsCommitted("g", life.facts.epoch, 0, now_ms, now_ms, 1, cause, member_id=member_id, offsets=(change,))
    )
    assert after(life, MINUTE)[0].reason.startswith(f"{who} went back in t-0")
