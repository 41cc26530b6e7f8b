"""The rebalances of one roll are one episode; what comes and goes otherwise is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from coordinator_state import GroupConfig
from group_coordinator.command_line.main import app
from group_coordinator.ground.monitoring.metrics import GROUP_VERDICT
from group_coordinator.watching.commands.explanation import deploys_told
from group_coordinator.watching.dashboard.deploys import deploys_in
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.health import verdict
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Ownership
from group_coordinator.watching.watch.lag_metrics import LagSeries, lag_values
from schemas.events import encode_json
from schemas.history import History, HistoryRecord, MemberExpired, RebalanceStarted, decode_history
from schemas.records_file import Record, encode_record
from simulation.run import live_through
from simulation.scenario import Close, Crash, Fault, Freeze, MemberPlan, Scenario
from simulation.world import START_MS, World
from tests.watching.dashboard.scene import index_of_scene, scene

SETTINGS = HealthSettings()
MEMBERS, PARTITIONS, APART_MS, DOWN_MS = 6, 12, 15_000, 4_000
ROLLS_MS = 60_000, 400_000


def of_group(history: tuple[History, ...], group_id: str) -> list[History]:
    return [record for record in history if record.group_id == group_id]


@cache
def rolled(assignor: str, rolls_ms: tuple[int, ...] = ROLLS_MS) -> tuple[History, ...]:
    """Return the history of a group whose members are all replaced, one after the other, each time."""
    names = [f"g-{number}" for number in range(MEMBERS)]
    faults = [
        Close(member=name, at_ms=roll_ms + APART_MS * number, back_after_ms=DOWN_MS)
        for roll_ms in rolls_ms
        for number, name in enumerate(names)
    ]
    return lived([planned(name, 500 * number, assignor) for number, name in enumerate(names)], faults)


def planned(name: str, start_ms: int, assignor: str = "range") -> MemberPlan:
    return MemberPlan(
        name=name, group_id="g", topics=("t",), start_ms=start_ms, session_timeout_ms=10_000,
        heartbeat_interval_ms=2_000, assignors=(assignor,),
    )  # fmt: skip


def lived(plans: Iterable[MemberPlan], faults: Sequence[Fault]) -> tuple[History, ...]:
    world = World(
        Scenario(
            seed=3,
            config=GroupConfig(group_initial_rebalance_delay_ms=1_500),
            topics={"t": PARTITIONS},
            members=tuple(plans),
            faults=tuple(faults),
            faults_end_ms=max(fault.at_ms for fault in faults) + 60_000,
        )
    )
    live_through(world)
    return tuple(written.output for written in world.written if isinstance(written.output, HistoryRecord))


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_roll_of_all_members_is_one_episode_with_what_it_cost(assignor: str) -> None:
    history = rolled(assignor)
    first, second = deploys_in(history)
    owned = [row for row in fold(history) if isinstance(row, Ownership)]
    for deploy, roll_ms in ((first, ROLLS_MS[0]), (second, ROLLS_MS[1])):
        assert (deploy.members, deploy.replaced) == (MEMBERS, MEMBERS)
        assert 0 <= deploy.started - START_MS - roll_ms < APART_MS
        assert abs(deploy.ended - START_MS - roll_ms - (MEMBERS - 1) * APART_MS - DOWN_MS) < APART_MS
        begun = [
            each
            for each in history
            if isinstance(each, RebalanceStarted) and deploy.started <= each.timestamp_ms <= deploy.ended
        ]
        assert deploy.rebalances == len(begun) > MEMBERS
        step_ms = 100
        without = sum(
            PARTITIONS - sum(row.from_ms <= at_ms and (row.to_ms is None or row.to_ms > at_ms) for row in owned)
            for at_ms in range(deploy.started, deploy.ended, step_ms)
        )
        assert deploy.unowned_ms == pytest.approx(without * step_ms, rel=0.1)
        assert 0 < deploy.longest_ms <= deploy.unowned_ms
        assert deploy.not_known_ms == 0


def test_who_sets_off_the_first_rebalance_a_moment_before_it_begins() -> None:
    """Brokers' logs have a line for either: who leaves was there before, and who joins was not."""
    joins = [planned(f"g-{number}", 500 * number + 300_000 * (number > 2)) for number in range(6)]
    leaves: list[Fault] = [Close(member=f"g-{number}", at_ms=310_000 + 8_000 * number) for number in range(3)]
    for history in (rolled("range"), lived(joins, leaves)):
        later = [
            replace(record, timestamp_ms=record.timestamp_ms + 2) if isinstance(record, RebalanceStarted) else record
            for record in of_group(history, "g")
        ]
        told, expected = deploys_in(later), deploys_in(of_group(history, "g"))
        assert expected
        assert [(each.replaced, each.members) for each in told] == [(each.replaced, each.members) for each in expected]


def verdicts(history: Iterable[History], group_id: str) -> dict[int, str]:
    facts, told = GroupFacts(group_id), dict[int, str]()
    for record in history:
        facts.add(record)
        told[record.timestamp_ms] = verdict(facts, None, record.timestamp_ms, SETTINGS).kind
    return told


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_while_members_are_replaced_the_group_is_deploying_and_no_storm(assignor: str) -> None:
    told = verdicts(rolled(assignor), "g")
    begin_ms, end_ms = START_MS + ROLLS_MS[0] + APART_MS + 2 * DOWN_MS, START_MS + ROLLS_MS[0] + MEMBERS * APART_MS
    assert {kind for at_ms, kind in told.items() if begin_ms < at_ms < end_ms} == {"deploying"}
    assert not set(told.values()) & {"storming", "flapping", "stuck"}
    assert "deploying" not in {kind for at_ms, kind in told.items() if at_ms < START_MS + ROLLS_MS[0]}


def test_a_rollback_soon_after_the_deploy_is_no_storm() -> None:
    told = verdicts(rolled("range", (60_000, 360_000)), "g")
    assert "deploying" in {kind for at_ms, kind in told.items() if at_ms > START_MS + 360_000}
    assert not set(told.values()) & {"storming", "flapping", "stuck"}


def test_members_that_nobody_can_tell_apart_by_client_and_host_do_not_flap_in_a_deploy() -> None:
    """All have the default client id, on one host or behind one address."""
    identity = re.compile(rb'"(client_id|client_host)":"[^"]*"')
    history = [decode_history(identity.sub(rb'"\1":"same"', encode_json(record))) for record in rolled("range")]
    told = verdicts(history, "g")
    assert "deploying" in told.values()
    assert not set(told.values()) & {"storming", "flapping", "stuck"}


def test_new_members_that_all_start_before_the_old_ones_stop_are_a_deploy() -> None:
    begin_ms, number = 300_000, 5
    old = [planned(f"old-{each}", 500 * each) for each in range(number)]
    new = [planned(f"new-{each}", begin_ms + 10_000 * each) for each in range(number)]
    stops_ms = begin_ms + 10_000 * number
    stops = [Close(member=plan.name, at_ms=stops_ms + 10_000 * each) for each, plan in enumerate(old)]
    told = verdicts(lived([*old, *new], stops), "g")
    most_gone_ms = START_MS + stops_ms + 10_000 * (number // 2) + DOWN_MS
    assert "deploying" not in {kind for at_ms, kind in told.items() if at_ms < START_MS + stops_ms}
    in_the_end = {kind for at_ms, kind in told.items() if most_gone_ms < at_ms < most_gone_ms + 60_000}
    assert in_the_end == {"deploying"}
    assert not set(told.values()) & {"storming", "flapping", "stuck"}


def ending(faults: Callable[[str, int], Fault]) -> tuple[History, ...]:
    """Return the history of a group of six to each of whose members something is done, one after the other."""
    plans = [planned(f"g-{number}", 500 * number) for number in range(MEMBERS)]
    return lived(plans, [faults(plan.name, 60_000 + APART_MS * number) for number, plan in enumerate(plans)])


def test_members_that_were_not_heard_and_come_back_are_no_deploy() -> None:
    """The broker stands still, a network fails: all expire, and all come back under new ids."""
    frozen = ending(lambda name, at_ms: Freeze(member=name, at_ms=at_ms, for_ms=14_000))
    assert sum(isinstance(record, MemberExpired) for record in frozen) == MEMBERS
    assert deploys_in(frozen) == []
    assert "deploying" not in verdicts(frozen, "g").values()


def test_who_expires_because_its_broker_stands_still_does_not_flap() -> None:
    freezes = [Freeze(member="g-0", at_ms=at_ms, for_ms=14_000) for at_ms in range(60_000, 300_000, 60_000)]
    frozen = lived([planned(f"g-{number}", 500 * number) for number in range(3)], freezes)
    stalled = [replace(one, stalled_broker_id=3) if isinstance(one, MemberExpired) else one for one in frozen]
    assert "flapping" in verdicts(frozen, "g").values()
    assert set(verdicts(stalled, "g").values()) <= {"stable", "rebalancing", "unknown", "empty"}


def test_processes_that_end_without_leaving_and_are_started_anew_are_a_deploy() -> None:
    killed = ending(lambda name, at_ms: Crash(member=name, at_ms=at_ms, back_after_ms=DOWN_MS))
    assert sum(isinstance(record, MemberExpired) for record in killed) == MEMBERS
    (deploy,) = deploys_in(killed)
    assert (deploy.members, deploy.replaced) == (MEMBERS, MEMBERS)
    identity = re.compile(rb'"(client_id|client_host)":"[^"]*"')
    for history in (killed, [decode_history(identity.sub(rb'"\1":"same"', encode_json(one))) for one in killed]):
        told = verdicts(history, "g")
        assert "deploying" in told.values()
        assert not set(told.values()) & {"storming", "flapping", "stuck"}


def test_the_alert_has_its_metric_while_members_are_replaced_and_not_after() -> None:
    history, index = rolled("range"), Index()
    end_ms = START_MS + ROLLS_MS[0] + MEMBERS * APART_MS
    for record in history:
        if record.timestamp_ms < end_ms:
            index.add_record(record, encode_json(record))

    def told(now_ms: int) -> list[tuple[str, ...]]:
        values = lag_values(index, index.rows(now_ms), now_ms, LagSeries(groups_max=1))
        return [value.labels for value in values if value.metric == GROUP_VERDICT]

    assert told(end_ms) == [("", "g", "deploying")]
    assert told(end_ms + SETTINGS.roll_apart_ms + APART_MS) == []


def test_deploys_stand_side_by_side_on_the_page_and_in_explain() -> None:
    history = rolled("range")
    index = Index()
    for record in history:
        index.add_record(record, encode_json(record))
    deploys = Documents(index).group("g")["deploys"]
    assert deploys == deploys_in(history)
    header, *lines = deploys_told(deploys)
    assert header.split()[:3] == ["DEPLOY", "TOOK", "REBALANCES"]
    assert [f"{MEMBERS} of {MEMBERS}" in line for line in lines] == [True, True]


def test_explain_shows_the_deploys_of_written_history(tmp_path: Path) -> None:
    values = [Record(partition=None, key=b"orders", value=encode_json(record)) for record in scene()]
    (tmp_path / "history.jsonl").write_bytes(b"".join(encode_record(each) + b"\n" for each in values))
    told = {
        group_id: CliRunner().invoke(app, ["explain", "--group", group_id, "--episode", "--from", str(tmp_path)])
        for group_id in ("orders", "clicks")
    }
    assert (told["orders"].exit_code, told["clicks"].exit_code) == (0, 1)
    assert "3 of 3" in told["orders"].output
    assert "are those of a deploy" in told["clicks"].output


def test_who_flaps_crashes_or_leaves_deploys_nothing() -> None:
    found = {group_id: deploys_in(of_group(scene(), group_id)) for group_id in index_of_scene().group_ids()}
    assert {group_id for group_id, deploys in found.items() if deploys} == {"orders"}
    (deploy,) = found["orders"]
    assert (deploy.members, deploy.replaced) == (3, 3)
    for group_id in found:
        assert ("deploying" in verdicts(of_group(scene(), group_id), group_id).values()) == (group_id == "orders")
