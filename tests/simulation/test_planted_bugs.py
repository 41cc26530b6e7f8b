"""Each bug that is planted here must be caught, by the rule or by the histories of Kafka's own classes that are meant
for it: that the judges can fail is tested too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from simulation.generate import scenario_of
from simulation.run import run_world
from simulation.scenario import BrokerClockJump, Scenario, Subscribe
from tests.random_requests.request_sequence import has_both_protocols, run_sequence, sequence_of
from tests.simulation import planted_bugs as bugs
from tests.simulation import planted_consumer_bugs as consumer_bugs
from tests.simulation import planted_transaction_bugs as transaction_bugs
from tests.verify_history.histories import verify_histories

FIXTURES = Path(__file__).parents[1] / "fixtures"
Plant = Callable[[pytest.MonkeyPatch], None]
WORLDS = [seed for seed in range(360) if seed % 3 != 2]
SEQUENCES = range(2, 1_000_000_000, 3)
"""These seeds are those of sequences of random requests, all others of worlds."""
RANDOM_REQUESTS = SEQUENCES[:50]
CONSUMER_WORLDS = [seed for seed in WORLDS if has_both_protocols(seed)]
PRODUCER_WORLDS = [seed for seed in WORLDS if scenario_of(seed).producers]
CONSUMER_REQUESTS = [seed for seed in RANDOM_REQUESTS if has_both_protocols(seed)]


def _subscribes_as_static_member(case: Scenario) -> bool:
    if len(case.topics) == 1:
        return False
    static = {plan.name for plan in case.members if plan.instance_id is not None}
    return any(isinstance(fault, Subscribe) and fault.member in static for fault in case.faults)


def _broker_is_set_back(case: Scenario) -> bool:
    return any(isinstance(fault, BrokerClockJump) and fault.by_ms < -9_000 for fault in case.faults)


class Seeds:
    """The seeds of worlds of which something holds, looked for when a test asks for them; first one that is known."""

    def __init__(self, known: int, end: int, holds: Callable[[Scenario], bool]) -> None:
        self._known, self._end, self._holds = known, end, holds

    def __iter__(self) -> Iterator[int]:
        yield self._known
        yield from (seed for seed in range(self._end) if seed % 3 != 2 and self._holds(scenario_of(seed)))


BROKERS_SET_BACK = Seeds(132, 900, _broker_is_set_back)
STATIC_SUBSCRIBERS = Seeds(3_282, 4_000, _subscribes_as_static_member)


def caught_by(seeds: Iterable[int], rules: set[str]) -> set[str]:
    """What the first seed that breaks one of the rules breaks."""
    for seed in seeds:
        outcome = run_sequence(sequence_of(seed)) if seed in SEQUENCES else run_world(scenario_of(seed))
        broken = {violation.rule for violation in outcome.violations}
        if broken & rules:
            return broken
    return set()


# A seed that stands before the others is known to break the rule: without it the same is found, a hundred worlds later.
BUGS: list[tuple[Plant, Iterable[int], set[str]]] = [
    (bugs.a_process_goes_by_its_own_rules, CONSUMER_WORLDS, {"BatchesCannotBeSeen"}),
    (bugs.a_process_goes_by_its_own_rules, CONSUMER_REQUESTS, {"BatchesCannotBeSeen"}),
    (bugs.all_go_by_the_rules_of_new_logs, CONSUMER_WORLDS, {"RulesAsLogged"}),
    (bugs.two_owners, WORLDS, {"OneOwner"}),
    (bugs.two_owners, RANDOM_REQUESTS, {"AssignmentsAsDecided"}),
    (bugs.a_forgotten_commit, WORLDS, {"CommitsKept"}),
    (bugs.a_commit_that_is_not_logged, WORLDS, {"LogTellsHardState"}),
    (bugs.no_tombstones, RANDOM_REQUESTS, {"LogTellsHardState"}),
    (bugs.an_old_commit_is_taken, RANDOM_REQUESTS, {"OnlyCurrentCommits"}),
    (bugs.a_fenced_member_commits, [151, *WORLDS], {"OnlyCurrentCommits"}),
    (bugs.heartbeats_are_not_heard, WORLDS, {"SessionsKept"}),
    (bugs.heartbeats_are_not_heard, [201, *WORLDS], {"TheLivingStay"}),
    (bugs.the_dead_stay, WORLDS, {"SessionsKept"}),
    (bugs.a_tick_of_the_future_counts, [34, *WORLDS], {"TheFutureIsFar"}),
    (bugs.a_tick_of_the_future_counts, RANDOM_REQUESTS, {"TheFutureIsFar"}),
    (bugs.time_runs_before_the_first_tick, WORLDS, {"OnlyTicksMoveTime"}),
    (bugs.a_static_member_keeps_its_new_subscription_to_itself, STATIC_SUBSCRIBERS, {"GroupsSettle"}),
    (bugs.the_clock_jumps_after_a_pause, WORLDS, {"TheLivingStay"}),
    (bugs.a_clock_of_long_ago_is_caught_up, [93, *WORLDS], {"GroupsSettle"}),
    (bugs.what_a_group_waits_for_is_left_behind, WORLDS, {"TheLivingStay"}),
    (bugs.the_brokers_clock_is_not_looked_at, BROKERS_SET_BACK, {"OwnTicksCount"}),
    (bugs.a_pause_is_not_noticed, WORLDS, {"PausesCostNobody"}),
    (bugs.waiting_for_the_query_is_taken_for_a_pause, [24, *WORLDS], {"GroupsSettle"}),
    (bugs.the_clock_runs_ahead_of_timers_that_have_not_fired, [285, *WORLDS], {"TheLivingStay"}),
    (bugs.a_log_rests_too_soon, [71_000_223, 71_009_913], {"PausesCostNobody"}),
    (bugs.sessions_go_on_after_a_pause, WORLDS, {"PausesCostNobody"}),
    (bugs.sessions_go_on_after_a_pause, RANDOM_REQUESTS, {"SessionsKept"}),
    (bugs.a_parked_answer_is_dropped, WORLDS, {"EveryRequestOnce"}),
    (bugs.an_answer_comes_twice, WORLDS, {"EveryRequestOnce"}),
    (bugs.an_answer_goes_to_somebody_else, WORLDS, {"EveryRequestOnce"}),
    (bugs.a_generation_is_skipped, WORLDS, {"GenerationsRise"}),
    (bugs.a_generation_falls, WORLDS, {"GenerationsRise"}),
    (bugs.arrival_order, WORLDS, {"BatchesCannotBeSeen"}),
    (bugs.arrival_order, RANDOM_REQUESTS, {"BatchesCannotBeSeen"}),
    (bugs.timers_are_lost_between_batches, WORLDS, {"BatchesCannotBeSeen"}),
    (bugs.timers_change_their_order_between_batches, RANDOM_REQUESTS, {"BatchesCannotBeSeen"}),
    (bugs.ids_by_chance, WORLDS, {"RepeatsAreEqual", "BatchesCannotBeSeen"}),
    (bugs.time_by_the_batch, WORLDS, {"BatchesCannotBeSeen"}),
    (bugs.retention_is_over_at_once, RANDOM_REQUESTS, {"CommitsKept"}),
    (bugs.offsets_of_a_topic_that_is_gone_stay, RANDOM_REQUESTS, {"CommitsKept"}),
    (bugs.offsets_without_a_topic_id_outlive_their_topic, RANDOM_REQUESTS, {"CommitsKept"}),
    (bugs.a_topic_made_again_loses_its_offsets, RANDOM_REQUESTS, {"CommitsKept"}),
    (bugs.offsets_of_a_topic_that_is_gone_stay, WORLDS, {"OffsetsGoWithTheirTopic"}),
    (bugs.topics_are_known_by_name, WORLDS, {"OffsetsGoWithTheirTopic"}),
    (bugs.a_broker_that_is_behind_is_believed, [28, *WORLDS], {"OffsetsGoWithTheirTopic"}),
    (bugs.offsets_without_a_bound, RANDOM_REQUESTS, {"OffsetsWithinBound"}),
    (consumer_bugs.a_partition_is_given_before_it_is_released, CONSUMER_REQUESTS, {"OneOwnerAtATime"}),
    (consumer_bugs.a_partition_is_given_before_it_is_released, CONSUMER_WORLDS, {"OneOwnerAtATime"}),
    (consumer_bugs.a_session_is_armed_only_at_the_join, CONSUMER_REQUESTS, {"NativeSessionsKept"}),
    (consumer_bugs.a_session_is_armed_only_at_the_join, CONSUMER_WORLDS, {"TheLivingStay"}),
    (consumer_bugs.silent_native_members_stay, CONSUMER_REQUESTS, {"NativeSessionsKept"}),
    (consumer_bugs.silent_native_members_stay, CONSUMER_WORLDS, {"GroupsSettle"}),
    (consumer_bugs.nobody_bumps_the_epoch_when_members_go, [66, *CONSUMER_WORLDS], {"GroupsSettle"}),
    (consumer_bugs.the_last_native_member_leaves_a_consumer_group_behind, CONSUMER_WORLDS, {"GroupsSettle"}),
    (consumer_bugs.a_refused_upgrade_shortens_the_session_of_who_waits, [71_006_054], {"SessionsKept"}),
    (consumer_bugs.a_downgrade_forgets_who_has_what, [150_001_114, 777_000_258], {"GroupsSettle"}),
    (consumer_bugs.a_session_is_armed_only_at_the_join, [777_003_760, 777_009_201], {"TheLivingStay"}),
    (consumer_bugs.what_a_heartbeat_tells_of_topics_is_lost, [777_010_373, 777_010_625], {"TopicsAsTold"}),
    (consumer_bugs.nobody_tells_groups_of_topics, CONSUMER_WORLDS, {"GroupsSettle"}),
    (transaction_bugs.a_marker_is_lost, PRODUCER_WORLDS, {"TransactionsEnd", "OffsetsAsDecided"}),
    (transaction_bugs.a_late_copy_is_appended, PRODUCER_WORLDS, {"FetchesAreStable", "OffsetsAsDecided"}),
    (transaction_bugs.a_stable_fetch_gives_the_older_offset, PRODUCER_WORLDS, {"FetchesAreStable"}),
    (transaction_bugs.a_sequence_is_used_twice, PRODUCER_WORLDS, {"FetchesAreStable", "OffsetsAsDecided"}),
    (transaction_bugs.a_relay_that_begins_again_is_believed, PRODUCER_WORLDS, {"EveryRequestOnce", "TransactionsEnd"}),
]


KAFKAS: list[tuple[Plant, str]] = [
    (bugs.absent_members_stay, "histories/missed_rejoin"),
    (bugs.the_old_id_of_an_instance_is_not_fenced, "histories/static_restart"),
    (bugs.offsets_of_a_topic_that_is_gone_stay, "consumer_histories/offsets"),
    (consumer_bugs.an_older_epoch_is_accepted_from_who_tells_of_no_partitions, "consumer_histories/epochs"),
    (consumer_bugs.targets_are_computed_at_once, "consumer_histories/interval"),
    (consumer_bugs.a_targets_tombstone_is_forgotten, "consumer_histories/leave"),
    (consumer_bugs.an_expressions_tombstone_is_forgotten, "consumer_histories/regex"),
    (consumer_bugs.a_rebalance_timer_is_not_cancelled, "consumer_histories/revocation"),
    (consumer_bugs.who_does_not_give_up_is_not_fenced, "consumer_histories/revocation"),
    (consumer_bugs.everything_goes_to_the_first_member, "consumer_histories/assignors"),
    (consumer_bugs.nobody_bumps_the_epoch_when_members_go, "consumer_histories/leave"),
    (consumer_bugs.a_commit_of_an_older_epoch_is_taken, "consumer_histories/offsets"),
    (consumer_bugs.a_join_with_partitions_is_accepted, "consumer_histories/validation"),
    (consumer_bugs.an_expression_that_a_member_left_behind_is_forgotten, "judged_histories"),
    (consumer_bugs.partitions_that_are_not_there_are_taken_away, "judged_histories"),
    (consumer_bugs.an_empty_group_stays_when_a_join_has_no_protocol, "judged_histories"),
]
"""What breaks no rule, since a rule would have to know all of Kafka's answers, and the histories of Kafka's own classes
that show it."""


@pytest.mark.parametrize(("plant", "seeds", "rules"), BUGS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_bug_is_caught(
    plant: Plant, seeds: Iterable[int], rules: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert caught_by(seeds, rules) & rules


@pytest.mark.parametrize(("plant", "histories"), KAFKAS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_bug_does_not_as_kafka_did(plant: Plant, histories: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert verify_histories([FIXTURES / f"{histories}.jsonl.gz"]).differences
