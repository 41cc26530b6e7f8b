"""Alerts by Prometheus's own `promtool`: each fires at the first occurrence of what it is for, and none in quiet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "alerts.yml"
P = "group_coordinator_"
HEARTBEAT = f'{P}answer_seconds_bucket{{api="Heartbeat",le='
JOIN = f'{P}answer_seconds_bucket{{api="JoinGroup",le='
BATCH = f'{P}batch_seconds_bucket{{shard="0",phase="triggerExecution",le='
STALLED = f'{P}members_gone_total{{reason="coordinator_stalled"}}'
EXPIRED = f'{P}members_gone_total{{reason="session_expired"}}'
OFFSETS = f'{P}offsets_total{{change="expired"}}'
FAILED = f'{P}answers_total{{api="JoinGroup",error="UNKNOWN_SERVER_ERROR"}}'
LETTERS = f'{P}dead_letters_total{{reason="bad_body"}}'
REFUSED = f'{P}refusals_total{{api="Heartbeat",rule="unknown_member",error="UNKNOWN_MEMBER_ID"}}'
UP = 'up{job="group-coordinator",instance="a"}'


class Case(NamedTuple):
    """What an alert is told, a value a minute from minute 0 on, and whether it fires at the minute `at`."""

    alert: str
    series: dict[str, str]
    at: int
    fires: bool


def fires(alert: str, at: int, series: dict[str, str]) -> Case:
    return Case(alert, series, at, True)


def quiet(alert: str, at: int, series: dict[str, str]) -> Case:
    return Case(alert, series, at, False)


def counters(alert: str, name: str, few: int, many: int) -> list[Case]:
    """A counter whose series begins with its first occurrence, in all forms that this takes."""
    return [
        fires(alert, 21, {name: f"_x20 {many}x5"}),
        fires(alert, 28, {name: f"_x20 {many}x20"}),
        fires(alert, 21, {name: f"0x20 {many}x5"}),
        fires(alert, 22, {name: f"0x20 {many // 2 or many} {many}x5"}),
        fires(alert, 41, {name: f"{many}x19 _x20 {many}x5"}),  # a process that was away and counts from zero
        fires(alert, 22, {name: f"{many}x20 0 {many}x5"}),
        quiet(alert, 90, {name: f"_x20 {many}x100"}),
        quiet(alert, 90, {name: f"{few}x100"}),
        quiet(alert, 90, {name: "0x100"}),
        quiet(alert, 25, {name: f"{many}x80 0x30"}) if few else quiet(alert, 85, {name: f"{many}x80 0x30"}),
    ]


CASES = [
    fires("CoordinatorDown", 11, {UP: "1x9 0x10"}),
    fires("CoordinatorDown", 2, {UP: "0x10"}),
    quiet("CoordinatorDown", 10, {UP: "1x20"}),
    fires("CoordinatorMissing", 6, {}),
    fires("CoordinatorMissing", 21, {UP: "1x9 _x20"}),
    quiet("CoordinatorMissing", 10, {UP: "1x20"}),
    quiet("CoordinatorMissing", 10, {UP: "0x20"}),
    fires("CoordinatorNotReady", 4, {f"{P}ready": "0x10"}),
    fires("CoordinatorNotReady", 14, {f"{P}ready": "1x9 0x10"}),
    quiet("CoordinatorNotReady", 10, {f"{P}ready": "0 0 1x20"}),
    fires("ProgramPartEnded", 10, {f"{P}ended_threads": "0x9 1x10"}),
    quiet("ProgramPartEnded", 10, {f"{P}ended_threads": "0x20"}),
    fires("CoordinatorClockBehind", 10, {f'{P}watermark_lag_seconds{{shard="0"}}': "0+60x60"}),
    fires(
        "CoordinatorClockBehind", 10, {f'{P}watermark_lag_seconds{{shard="0"}}': "40 42 41 40 42 41 40 42 41 40 42 40"}
    ),
    fires("CoordinatorClockBehind", 7, {f'{P}watermark_lag_seconds{{shard="0"}}': "100x60"}),
    quiet("CoordinatorClockBehind", 20, {f'{P}watermark_lag_seconds{{shard="0"}}': "1 2 1 1 2 1x60"}),
    # Away for five minutes, and then it catches up: 0.1 s a second.
    *(
        quiet("CoordinatorClockBehind", at, {f'{P}watermark_lag_seconds{{shard="0"}}': "1x9 _x5 300-6x48"})
        for at in (18, 25, 40, 60)
    ),
    fires("CoordinatorClockStandsStill", 10, {f'{P}clock_standstill{{shard="0"}}': "0x9 1x10"}),
    quiet("CoordinatorClockStandsStill", 10, {f'{P}clock_standstill{{shard="0"}}': "0x20"}),
    fires("CoordinatorClockSkew", 20, {f'{P}clock_skew_seconds{{shard="0"}}': "0x9 1.5x20"}),
    quiet("CoordinatorClockSkew", 20, {f'{P}clock_skew_seconds{{shard="0"}}': "0.4x30"}),
    fires("CoordinatorForeignTicks", 3, {f'{P}foreign_ticks_total{{shard="0"}}': "0 0 1x20"}),
    quiet("CoordinatorForeignTicks", 20, {f'{P}foreign_ticks_total{{shard="0"}}': "0x30"}),
    fires("CoordinatorSourceLag", 22, {f'{P}source_lag_events{{shard="0"}}': "60000+1000x60"}),
    quiet("CoordinatorSourceLag", 40, {f'{P}source_lag_events{{shard="0"}}': "900000-10000x60"}),
    quiet("CoordinatorSourceLag", 40, {f'{P}source_lag_events{{shard="0"}}': "0+100x60"}),
    fires(
        "CoordinatorAnswersSlow",
        20,
        {f'{HEARTBEAT}"5"}}': "0x60", f'{HEARTBEAT}"10"}}': "0+9x60", f'{HEARTBEAT}"+Inf"}}': "0+9x60"},
    ),
    fires(
        "CoordinatorAnswersSlow",
        30,
        {f'{HEARTBEAT}"5"}}': "_x9 0x60", f'{HEARTBEAT}"10"}}': "_x9 9+9x60", f'{HEARTBEAT}"+Inf"}}': "_x9 9+9x60"},
    ),
    quiet("CoordinatorAnswersSlow", 30, {f'{HEARTBEAT}"5"}}': "0+9x60", f'{HEARTBEAT}"+Inf"}}': "0+9x60"}),
    quiet("CoordinatorAnswersSlow", 30, {f'{HEARTBEAT}"5"}}': "0x60", f'{HEARTBEAT}"+Inf"}}': "0x60"}),
    quiet(
        "CoordinatorAnswersSlow", 30, {f'{JOIN}"5"}}': "0x60", f'{JOIN}"60"}}': "0+9x60", f'{JOIN}"+Inf"}}': "0+9x60"}
    ),
    fires(
        "CoordinatorBatchSlow", 30, {f'{BATCH}"5"}}': "0x60", f'{BATCH}"30"}}': "0+3x60", f'{BATCH}"+Inf"}}': "0+3x60"}
    ),
    quiet("CoordinatorBatchSlow", 30, {f'{BATCH}"5"}}': "0+60x60", f'{BATCH}"+Inf"}}': "0+60x60"}),
    fires("ResponderDown", 14, {f'{P}responder_up{{shard="0"}}': "1x9 0x20"}),
    fires("ResponderDown", 14, {'up{job="group-coordinator-responder",instance="a"}': "1x9 0x20"}),
    quiet("ResponderDown", 14, {f'{P}responder_up{{shard="0"}}': "1x9 0 1x20"}),
    fires("RelayDown", 14, {f'{P}relay_up{{shard="0"}}': "1x9 0x20"}),
    fires("RelayDown", 14, {f'{P}relay_lag_records{{shard="0"}}': "0x9 20000x20"}),
    quiet("RelayDown", 14, {f'{P}relay_up{{shard="0"}}': "1x9 0 1x20"}),
    fires("RelayWaitsForTransaction", 14, {f'{P}relay_oldest_open_seconds{{shard="0"}}': "0x9 1000x20"}),
    quiet("RelayWaitsForTransaction", 14, {f'{P}relay_oldest_open_seconds{{shard="0"}}': "800x20"}),
    fires("RelayRefuses", 14, {f'{P}relay_refused_records{{shard="0"}}': "0x9 1x20"}),
    quiet("RelayRefuses", 14, {f'{P}relay_refused_records{{shard="0"}}': "0x30"}),
    fires("ResponderDiffers", 11, {f"{P}responder_differences": "0x9 1x20"}),
    quiet("ResponderDiffers", 11, {f"{P}responder_differences": "0x30"}),
    *counters("HandedAnswersNotRecorded", f"{P}gateway_answers_not_recorded_total", 0, 1),
    *counters("GroupsLeftOut", f"{P}gateway_groups_left_out_total", 0, 7),
    *counters("ConnectionsRefused", f"{P}gateway_connections_refused_total", 0, 3),
    fires("AnswersInDoubt", 18, {f"{P}gateway_in_doubt_total": "0x9 1+1x20"}),
    quiet("AnswersInDoubt", 18, {f"{P}gateway_in_doubt_total": "0x9 5x20"}),
    fires("ResponderNotCompared", 11, {f"{P}responder_answers_forgotten": "0x9 70x20"}),
    quiet("ResponderNotCompared", 40, {f"{P}responder_answers_forgotten": "70x60"}),
    *counters("DeadLetters", LETTERS, 0, 1),
    fires("GroupStuck", 8, {f'{P}group_rebalancing_seconds{{group="g",state="PreparingRebalance"}}': "0+60x20"}),
    fires("GroupHeldUp", 5, {f'{P}group_held_up_seconds{{group="g"}}': "0+60x20"}),
    quiet("GroupHeldUp", 8, {f'{P}group_held_up_seconds{{group="g"}}': "0 60 110 _x20"}),
    fires("GroupHasNoTarget", 4, {f'{P}group_rebalancing_seconds{{group="g",state="Assigning"}}': "0+60x20"}),
    quiet("GroupHasNoTarget", 8, {f'{P}group_rebalancing_seconds{{group="g",state="Reconciling"}}': "0+60x20"}),
    fires("PendingOffsetsOld", 18, {f'{P}group_pending_offsets_seconds{{group="g"}}': "0+60x30"}),
    quiet("PendingOffsetsOld", 15, {f'{P}group_pending_offsets_seconds{{group="g"}}': "0+60x30"}),
    quiet("GroupStuck", 8, {f'{P}group_rebalancing_seconds{{group="g",state="PreparingRebalance"}}': "0 60 120 _x20"}),
    fires("Stalled", 11, {f'{P}group_stalled_partitions{{group="g"}}': "_x9 1x5"}),
    quiet("Stalled", 20, {f'{P}group_stalled_partitions{{group="g"}}': "_x9 1x5"}),
    fires("LosingMessages", 11, {f'{P}group_lost_messages{{group="g"}}': "_x9 7x5"}),
    fires("LosingMessages", 11, {f'{P}group_loses_messages_in_seconds{{group="g"}}': "_x9 7000x5"}),
    quiet("LosingMessages", 20, {f'{P}group_lost_messages{{group="g"}}': "_x9 7x5"}),
    fires("OffsetsJumped", 11, {f'{P}group_partitions_found{{group="g",finding="rewound"}}': "_x9 1x5"}),
    quiet("OffsetsJumped", 20, {f'{P}group_partitions_found{{group="g",finding="skipped"}}': "_x9 1x5"}),
    quiet("OffsetsJumped", 11, {f'{P}group_partitions_found{{group="g",finding="stalled"}}': "_x9 1x5"}),
    fires("Uneven", 11, {f'{P}group_partitions_found{{group="g",finding="hot_partition"}}': "_x9 1x5"}),
    quiet("Uneven", 20, {f'{P}group_partitions_found{{group="g",finding="member_behind"}}': "_x9 1x5"}),
    fires("Deploying", 10, {f'{P}group_verdict{{group="g",verdict="deploying"}}': "_x9 1x5"}),
    quiet("Deploying", 20, {f'{P}group_verdict{{group="g",verdict="deploying"}}': "_x9 1x5"}),
    quiet("Deploying", 11, {f'{P}group_verdict{{group="g",verdict="uneven"}}': "_x9 1x5"}),
    fires("EmptyWithLag", 20, {f'{P}group_verdict{{group="g",verdict="empty_with_lag"}}': "_x9 1x20"}),
    quiet("EmptyWithLag", 20, {f'{P}group_verdict{{group="g",verdict="expiring"}}': "_x9 1x20"}),
    quiet("EmptyWithLag", 20, {f'{P}group_verdict{{group="g",verdict="empty_with_lag"}}': "_x9 1x5"}),
    fires("Lagging", 15, {f'{P}group_lag_seconds{{group="g",topic="t"}}': "0x9 3700+60x20"}),
    quiet("Lagging", 15, {f'{P}group_lag_seconds{{group="g",topic="t"}}': "3000x30"}),
    fires("WebhookLosesMessages", 20, {f'{P}webhook_messages{{outcome="lost"}}': "0x15 3x20"}),
    quiet("WebhookLosesMessages", 40, {f'{P}webhook_messages{{outcome="lost"}}': "3x60"}),
    quiet("WebhookLosesMessages", 30, {f'{P}webhook_messages{{outcome="waiting"}}': "0+1x60"}),
    fires("GroupRebalanceStorm", 16, {f'{P}group_rebalances_recently{{group="g"}}': "_x9 11x20"}),
    quiet("GroupRebalanceStorm", 16, {f'{P}group_rebalances_recently{{group="g"}}': "3x20"}),
    *counters("SessionExpiries", EXPIRED, 20, 42),
    *counters("CoordinatorStalled", STALLED, 0, 1),
    *counters("RefusalsRise", REFUSED, 600, 1300),
    fires("RefusalsRise", 31, {REFUSED: "_x9 90+90x60"}),
    quiet("RefusalsRise", 40, {REFUSED: "0+50x60"}),
    *counters("AnswersFail", FAILED, 0, 1),
    *counters("OffsetsExpire", OFFSETS, 0, 500),
    fires("StateGrows", 420, {f'{P}state_groups{{shard="0"}}': "20000+100x500"}),
    quiet("StateGrows", 420, {f'{P}state_groups{{shard="0"}}': "20000x500"}),
    quiet("StateGrows", 420, {f'{P}state_groups{{shard="0"}}': "10+1x500"}),
    fires("StateLarge", 30, {f'{P}responder_state_bytes{{shard="0"}}': "1000000x9 600000000x30"}),
    fires("StateLarge", 30, {f'{P}state_disk_bytes{{shard="0"}}': "1000000x9 600000000x30"}),
    quiet("StateLarge", 30, {f'{P}responder_state_bytes{{shard="0"}}': "500000000x40"}),
    fires("MetricsBehind", 21, {f'{P}metrics_reader_lag_records{{topic="e"}}': "_x9 200000x30"}),
    quiet("MetricsBehind", 21, {f'{P}metrics_reader_lag_records{{topic="e"}}': "900x30"}),
]


@pytest.fixture(scope="module")
def promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("there is no promtool here (Debian's package prometheus)")
    return path


def test_every_alert_is_tried() -> None:
    alerts = {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
    assert {case.alert for case in CASES if case.fires} == alerts
    assert {case.alert for case in CASES if not case.fires} == alerts


def test_the_rules_are_well_formed(promtool: str) -> None:
    subprocess.run([promtool, "check", "rules", RULES], check=True, capture_output=True)


def test_alerts_fire_at_the_first_occurrence_and_not_in_quiet(promtool: str, tmp_path: Path) -> None:
    """A file of tests for each alert, with its rule alone: promtool evaluates all rules of a file at each minute."""
    cases = {alert: [case for case in CASES if case.alert == alert] for alert in {case.alert: None for case in CASES}}
    for alert, cases_of_alert in cases.items():
        (tmp_path / f"{alert}.rules.yml").write_text(yaml.safe_dump(rule_without_words(alert)))
        tests = [
            {
                "interval": "1m",
                "name": f"{number} {case.alert} {case.series}",
                "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{case.alert}",alertstate="firing"}})',
                        "eval_time": f"{case.at}m",
                        "exp_samples": [{"value": 1}] if case.fires else [],
                    }
                ],
            }
            for number, case in enumerate(cases_of_alert)
        ]
        described = {"rule_files": [f"{alert}.rules.yml"], "evaluation_interval": "1m", "tests": tests}
        (tmp_path / f"{alert}.yml").write_text(yaml.safe_dump(described))
    files = [tmp_path / f"{alert}.yml" for alert in cases]
    done = subprocess.run([promtool, "test", "rules", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_an_alert_says(promtool: str, tmp_path: Path) -> None:
    """The words of one, with its labels and value in them."""
    (tmp_path / "rules.yml").write_text(RULES.read_text())
    alert_rule = next(
        rule
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
        if rule["alert"] == "RefusalsRise"
    )
    expected = {
        **alert_rule["annotations"],
        "summary": "1.3k requests were refused by the rule unknown_member in ten minutes.",
    }
    alert = {"exp_labels": {"severity": "warning", "rule": "unknown_member"}, "exp_annotations": expected}
    test = {
        "interval": "1m",
        "input_series": [{"series": REFUSED, "values": "_x5 1300x9"}],
        "alert_rule_test": [{"eval_time": "9m", "alertname": "RefusalsRise", "exp_alerts": [alert]}],
    }
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def rule_without_words(alert: str) -> Any:
    """The rules with this alert's alone, in its group."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule["alert"] == alert]
        for rule in group["rules"]:
            del rule["annotations"]
    return {**rules, "groups": [group for group in rules["groups"] if group["rules"]]}
