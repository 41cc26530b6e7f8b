"""A sequence has random requests, right and wrong ones, with random waits, judged by the simulation's rules.

The generator looks at the groups of a coordinator that handles what it makes, so that many requests make sense; the
sequence itself is plain data, so that steps can be left out of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from msgspec import UNSET, Struct

from coordinator_state import Group, GroupConfig, GroupCoordinator, RuleChange
from coordinator_state.kafka_versions import OF_OLD_LOGS
from schemas.events import (
    RENEWAL_AT_PRESENT,
    SESSION_RENEWAL,
    DeletedTopic,
    TopicsDeleted,
    encode_json,
    encode_request_event,
    encode_tick,
)
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.messages import Request
from schemas.rules_events import encode_rules
from schemas.ticks import CLOCK_MAX_MS
from simulation.checker import CheckResult, check_log, classic_of, consumer_of, existing
from simulation.driver import BatchFailed, Driver, Row, Written, to_event
from simulation.log import Log, Record
from simulation.random_streams import RandomStreams
from simulation.rules_of_worlds import check_drivers
from simulation.run import RULES, Outcome, broken
from tests.random_requests.consumer_request_generator import ConsumerRequestGenerator
from tests.random_requests.random_cluster import NAMES, RandomCluster
from tests.random_requests.request_generator import TOPIC_IDS, TOPICS, RequestGenerator

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class SequenceStep(NamedTuple):
    """One step: the clock moves, then somebody sends a request."""

    wait_ms: int
    ticks: bool
    """Whether a tick says that time has passed; if not, the next one does."""
    group_id: str
    api: str
    version: int
    client_id: str
    new_member_id: str | None
    request: Request | None
    """None: what is sent cannot be read."""
    renews: bool = False
    """Before it, a ticker that had stood still renews the group's sessions."""
    moves_time: bool = False
    """With that, the group's time goes on at the present."""
    gone: tuple[DeletedTopic, ...] = ()
    """Before it, the group is told that these topics are gone."""
    facts: tuple[TopicMetadata | RegexesResolved | GroupConfiguration, ...] = ()
    """Before it, the group is told of topics, of what its expressions match, or of settings of its own."""
    attached: TopicMetadata | None = None
    """The request brings this along."""
    rules: str | None = None
    """Before it, the log changes its rules."""
    stray_ms: int | None = None
    """Before it, somebody writes a tick that lies so far after its own record, or before."""


class RequestSequence(Struct, frozen=True, kw_only=True):
    """A sequence of random requests to one group."""

    seed: int
    config: GroupConfig
    steps: tuple[SequenceStep, ...]


def sequence_of(seed: int) -> RequestSequence:
    """Return the sequence of a seed."""
    dice, pauses = RandomStreams(seed).of("soup"), RandomStreams(seed).of("pauses")
    config = _config(seed, dice)
    groups = {group_id: _HandledGroup(group_id, config) for group_id in ("a", "b", "")}
    topics = RandomStreams(seed).of("topics")
    classic = RequestGenerator(dice, config, topics, leads_well=has_both_protocols(seed))
    protocols = RandomStreams(seed).of("both protocols")
    cluster = RandomCluster(protocols) if has_both_protocols(seed) else None
    generator = None if cluster is None else ConsumerRequestGenerator(protocols, config, cluster, classic)
    steps = []
    strangers = RandomStreams(seed).of("strangers")
    rules = RandomStreams(seed).of("rules")
    clock_ms, now_ms, hurry = 0, 0, dice.choice((0.7, 0.9, 0.97))
    for number in range(dice.randint(10, 90)):
        wait_ms = _wait(dice, hurry)
        ticks = dice.random() < 0.7
        now_ms += wait_ms
        if ticks:
            clock_ms = max(clock_ms, now_ms)
        stray_ms = _stray(strangers, config.tick_ahead_bound_ms) if strangers.random() < 0.1 else None
        if stray_ms is not None and stray_ms <= config.tick_ahead_bound_ms:
            clock_ms = max(clock_ms, now_ms + stray_ms)
        group_id = dice.choices(("a", "b", ""), (85, 13, 2))[0]
        group = groups[group_id]
        new_rules = rules.choice(("4.3", "4.4")) if rules.random() < (0.04 if number else 0.7) else None
        if new_rules is not None:
            _change_rules(groups.values(), RuleChange(number - 1, START_MS + clock_ms, new_rules))
        group.begin_step(number, START_MS + now_ms, START_MS + clock_ms)
        renews = pauses.random() < 0.06
        moves_time = renews and pauses.random() < 0.3
        if renews:
            group.handle(_renewal(moves_time))
        deleted = some_topics(topics, cluster) if topics.random() < 0.08 else ()
        if deleted:
            group.handle(encode_json(TopicsDeleted(topics=deleted)))
        facts = () if cluster is None else facts_told(cluster, protocols, group.group, START_MS + clock_ms)
        for fact in facts:
            group.handle(encode_json(fact))
        made = (
            classic.request(group_id, classic_of(group.group))
            if generator is None
            else generator.request(group_id, group.group)
        )
        attached = cluster.told() if cluster is not None and protocols.random() < 0.4 else None
        steps.append(step := SequenceStep(
            wait_ms, ticks, group_id, *made, renews, moves_time, deleted, facts, attached, new_rules, stray_ms
        ))  # fmt: skip
        group.handle(_request_value(step, number))
    return RequestSequence(seed=seed, config=config, steps=tuple(steps))


class _HandledGroup:
    """One group of a sequence in the making. A coordinator handles what is made; what the group does is not judged yet:
    once it raises an exception, the group stays as it was."""

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self._group_id = group_id
        self._coordinator = GroupCoordinator(group_id, config)
        self._number = self._now_ms = self._clock_ms = 0

    @property
    def group(self) -> Group | None:
        return existing(self._coordinator.group)

    def begin_step(self, number: int, now_ms: int, clock_ms: int) -> None:
        """Move the clock. What the group handles next is appended now."""
        self._number, self._now_ms, self._clock_ms = number, now_ms, clock_ms
        with suppress(Exception):
            self._coordinator.advance_to(clock_ms)

    def change_rules(self, change: RuleChange) -> None:
        self._coordinator.change_rules(change)

    def handle(self, value: bytes) -> None:
        record = Record(self._number, self._now_ms, self._group_id.encode(), value, self._now_ms)
        with suppress(Exception):
            self._coordinator.handle(to_event(self._group_id, Row(record, self._clock_ms)))
            self._coordinator.take_outputs()


def _change_rules(groups: Iterable[_HandledGroup], change: RuleChange) -> None:
    for group in groups:
        group.change_rules(change)


def has_both_protocols(seed: int) -> bool:
    """Return whether the members of a sequence use both protocols; those of the others use the classic one."""
    return RandomStreams(seed).of("protocols").random() < 0.5


def _config(seed: int, dice: Random) -> GroupConfig:
    config = GroupConfig(
        group_min_session_timeout_ms=1_000,
        group_max_session_timeout_ms=60_000,
        group_initial_rebalance_delay_ms=dice.choice((0, 500, 3_000)),
        group_max_size=dice.choice((1_000, 1_000, 3, 2)),
        offset_metadata_max_bytes=8,
        offsets_retention_minutes=dice.choice((1, 10_080)),
        offsets_retention_check_interval_ms=dice.choice((5_000, 20_000, 600_000)),
        offsets_retention_check_phase_ms=dice.choice((0, 1_234)),
        offset_commit_value_version=dice.choice((3, 4)),
        group_offsets_max_bytes=RandomStreams(seed)
        .of("bounds")
        .choice((1_000_000, 1_000_000, 1_000_000, 1_000_000, 350, 220)),
        kafka_rules=OF_OLD_LOGS,
    )
    if not has_both_protocols(seed):
        return config
    own = RandomStreams(seed).of("settings of consumer groups")
    return dataclasses.replace(
        config,
        group_consumer_session_timeout_ms=5_000,
        group_consumer_min_session_timeout_ms=3_000,
        group_consumer_heartbeat_interval_ms=1_500,
        group_consumer_min_heartbeat_interval_ms=500,
        group_consumer_assignment_interval_ms=own.choice((0, 0, 1_000, 4_000)),
        group_consumer_max_size=own.choice((1_000, 1_000, 1_000, 2)),
        group_consumer_assignors=own.choice(("uniform,range", "uniform,range", "range,uniform")),
        group_consumer_migration_policy=own.choice(("bidirectional",) * 3 + ("upgrade", "downgrade", "disabled")),
        group_consumer_regex_refresh_interval_ms=own.choice((10_000, 600_000)),
    )


def facts_told(
    cluster: RandomCluster, dice: Random, group: Group | None, now_ms: int
) -> tuple[TopicMetadata | RegexesResolved | GroupConfiguration, ...]:
    """Return what the group is told besides requests."""
    facts: list[TopicMetadata | RegexesResolved | GroupConfiguration] = []
    if dice.random() < 0.1:
        cluster.change()
    if dice.random() < 0.2:
        facts.append(cluster.told())
    consumer = consumer_of(group)
    regexes = set() if consumer is None else set(consumer.regex_counts)
    is_resolving = group is not None and group.body.regex_refresh_began_ms is not None
    if (is_resolving or consumer is not None) and dice.random() < (0.5 if is_resolving else 0.03):
        facts.append(cluster.resolved(regexes, now_ms))
    if dice.random() < 0.03:
        facts.append(cluster.settings())
    return tuple(facts)


def _wait(dice: Random, hurry: float) -> int:
    if dice.random() < hurry:
        return dice.choice((0, 0, 1, 100, dice.randint(1, 900)))
    longest = dice.choices((3_000, 12_000, 90_000, 3 * DAY_MS), (60, 30, 8, 2))[0]
    return dice.randint(900, longest)


def _stray(dice: Random, bound_ms: int) -> int:
    """Most of them are no valid ticks; none may end anybody's session before its time by more than the bound."""
    far_ms = dice.choice((8 * DAY_MS, CLOCK_MAX_MS - START_MS - 10_000_000_000, CLOCK_MAX_MS, 2**62))
    near_ms = dice.choice((bound_ms, bound_ms + 1, dice.randint(1, 3 * bound_ms)))
    return dice.choice((far_ms, near_ms, 0, -1, -START_MS, 1 - START_MS, -2 * START_MS))


def some_topics(dice: Random, cluster: RandomCluster | None) -> tuple[DeletedTopic, ...]:
    """Some topics, and perhaps the same twice, with ids that are stored, with none, or with one that nobody has
    heard of."""
    if cluster is not None:
        return tuple(
            DeletedTopic(name=name, topic_id=cluster.id_of(name)) for name in dice.sample(NAMES, dice.choice((1, 2)))
        )
    return tuple(
        DeletedTopic(name=dice.choice(TOPICS), topic_id=dice.choice(TOPIC_IDS))
        for _ in range(dice.choice((1, 1, 2, 3)))
    )


def _renewal(moves_time: bool) -> bytes:
    return RENEWAL_AT_PRESENT if moves_time else SESSION_RENEWAL


def _request_value(step: SequenceStep, number: int) -> bytes:
    if step.request is None:
        return b"{}"
    return encode_request_event(
        step.api,
        step.version,
        step.request,
        request_id=request_id_of(number),
        reply_partition=0,
        client_id=step.client_id,
        new_member_id=step.new_member_id,
        topic_metadata=UNSET if step.attached is None else step.attached,
    )


def request_id_of(number: int) -> str:
    return f"request-{number}"


def write_log(sequence: RequestSequence) -> Log:
    """Return the sequence as a log."""
    log = Log(sequence.config.shard_count)
    now_ms, ticked_ms = START_MS, 0
    log.append(0, now_ms, None, encode_tick(now_ms))
    for number, step in enumerate(sequence.steps):
        now_ms += step.wait_ms
        if step.ticks and now_ms > ticked_ms:
            log.append(0, now_ms, None, encode_tick(now_ms))
            ticked_ms = now_ms
        if step.rules is not None:
            log.append(0, now_ms, None, encode_rules(step.rules))
        if step.stray_ms is not None:
            log.append(0, now_ms, None, encode_tick(now_ms + step.stray_ms))
        key = step.group_id.encode()
        if step.renews:
            log.append(0, now_ms, key, _renewal(step.moves_time))
        if step.gone:
            log.append(0, now_ms, key, encode_json(TopicsDeleted(topics=step.gone)))
        for fact in step.facts:
            log.append(0, now_ms, key, encode_json(fact))
        log.append(0, now_ms, key, _request_value(step, number))
    log.append(0, now_ms + 400_000, None, encode_tick(now_ms + 400_000))
    return log


def run_driver(sequence: RequestSequence, log: Log) -> tuple[Driver, list[Written]]:
    """Let a driver handle the log, in random batches that fail now and then."""
    random_streams = RandomStreams(sequence.seed)
    written: list[Written] = []
    driver = Driver(0, sequence.config, log.partitions[0], written.append, lambda watermark_ms: None)
    largest = random_streams.of("largest").choice((1, 3, 10, 100))
    attempt = 0
    while not driver.is_done:
        attempt += 1
        dice = random_streams.of("batch", attempt)
        fail_at = dice.randint(0, 6) if dice.random() < 0.25 else None
        try:
            driver.run_batch(dice, largest, fail_at, is_last=True)
        except BatchFailed:
            continue
    return driver, written


def run_sequence(sequence: RequestSequence) -> Outcome:
    """Run a sequence and check it against the rules that hold of every group."""
    result = CheckResult()
    log = write_log(sequence)
    end_ms = log.partitions[0][-1].timestamp_ms
    check_log(log, sequence.config, RULES, result)
    if "NothingBreaks" not in result.violations:
        try:
            driver, written = run_driver(sequence, log)
        except Exception as error:
            result.report(broken(error, end_ms))
        else:
            for violation in check_drivers(written, [driver], result, end_ms):
                result.report(violation)
    return Outcome(list(result.violations.values()), log.requests, [], result)


def problems_of(seed: int) -> str:
    """Return what the sequence of a seed breaks; empty if nothing."""
    return "; ".join(map(str, run_sequence(sequence_of(seed)).violations))
