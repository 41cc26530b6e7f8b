"""What if: the clients of a recorded group live their lives again, under other settings.

A log cannot simply be replayed under other settings: what a client sends is its answer to what it was told. So each
client of the log is played by a member that does what Kafka's consumer does (`group_coordinator.members.member`). It
comes, falls silent, stalls and leaves when the recorded one did; when it rejoins, syncs and beats follows from what it
is told now.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from uuid import NAMESPACE_OID, uuid5

from msgspec import Raw
from msgspec.structs import replace

from coordinator_state import Answer, GroupConfig, GroupCoordinator, RequestEvent
from group_coordinator.assignors import Assignor
from group_coordinator.members.agenda import Agenda
from group_coordinator.members.config import MemberConfig
from group_coordinator.members.effects import Assigned, LogBoundsNeeded, PartitionCountsNeeded, Send
from group_coordinator.members.member import GroupMember
from group_coordinator.members.membership import MemberState
from group_coordinator.members.requests import request_ids
from group_coordinator.what_if.lives import GroupLog, Life, LifeError, Lives, Span, read_lives
from schemas.events import RequestEnvelope, ResponseEnvelope, encode_json
from schemas.history import HistoryRecord
from schemas.messages import OffsetCommitRequest

REQUESTS_MAX = 400_000
"""Of a log that is played again: beyond that nobody would wait for it."""
_LATENCY_MS = 2
_POLL_MS = (20, 2_000)


def play(
    log: GroupLog,
    config: GroupConfig,
    assignors: Mapping[str, Assignor],
    *,
    initial_delay_ms: int | None = None,
    session_timeout_ms: int | None = None,
    static_members: bool = False,
    assignor: str | None = None,
) -> list[bytes]:
    """The history, as it would lie on the topic. None: as it was. Raises LifeError for what cannot be played.

    `config` is what the log was coordinated with.
    """
    if len(log.events) > REQUESTS_MAX:
        raise LifeError(
            f"The group has {len(log.events):,} requests in this log; up to {REQUESTS_MAX:,} can be played again."
        )
    _require(config, assignors, session_timeout_ms, assignor)
    found = read_lives(log, config)
    instance_ids = _instance_ids(found.lives) if static_members else [life.instance_id for life in found.lives]
    cast = [
        _member_config(log.group_id, life, instance_id, session_timeout_ms, _offered(life, assignors, assignor))
        for life, instance_id in zip(found.lives, instance_ids, strict=True)
    ]
    delay_ms = config.group_initial_rebalance_delay_ms if initial_delay_ms is None else initial_delay_ms
    own = dataclasses.replace(config, group_initial_rebalance_delay_ms=delay_ms)
    stage = _Stage(log, own, found)
    stage.run(
        [
            _Player(stage, life, each, number, assignors)
            for number, (life, each) in enumerate(zip(found.lives, cast, strict=True))
        ]
    )
    return stage.history


def _require(
    config: GroupConfig, assignors: Mapping[str, Assignor], session_timeout_ms: int | None, assignor: str | None
) -> None:
    least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if session_timeout_ms is not None and not least <= session_timeout_ms <= most:
        raise LifeError(
            f"A session timeout must lie between {least / 1000:g} s and {most / 1000:g} s: the coordinator would "
            "refuse it."
        )
    if assignor is not None and assignor not in assignors:
        raise LifeError(f"There is no assignor {assignor!r} here; there are {', '.join(assignors)}.")


def _offered(life: Life, assignors: Mapping[str, Assignor], wanted: str | None) -> tuple[str, ...]:
    names = (wanted,) if wanted is not None else tuple(name for name in life.assignors if name in assignors)
    if not names:
        raise LifeError(f"The members offer {', '.join(life.assignors)}, which is not known here. Choose an assignor.")
    return names


def _member_config(
    group_id: str, life: Life, instance_id: str | None, session_timeout_ms: int | None, names: tuple[str, ...]
) -> MemberConfig:
    session_ms = session_timeout_ms or life.session_timeout_ms
    return MemberConfig(
        group_id=group_id,
        client_id=life.client_id,
        group_instance_id=instance_id,
        client_rack=life.rack_id,
        partition_assignment_strategy=names,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(min(life.heartbeat_interval_ms, session_ms // 3), 1),
        max_poll_interval_ms=max(life.rebalance_timeout_ms, 1),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


def _instance_ids(lives: tuple[Life, ...]) -> list[str | None]:
    """Its own for each client; a client that was started anew has the id that it had before."""
    taken: dict[str, list[int]] = {}
    found: list[str | None] = []
    for life in lives:
        name = life.instance_id or life.client_id or life.client_host
        until = taken.setdefault(name, [])
        ends_ms = life.last_sign_ms if life.ends_ms is None else life.ends_ms
        number = next((number for number, busy_ms in enumerate(until) if busy_ms <= life.begins_ms), len(until))
        until[number : number + 1] = [ends_ms]
        found.append(name if number == 0 else f"{name}-{number + 1}")
    return found


class _Stage:
    """The coordinator, the clock, and what is to happen when."""

    def __init__(self, log: GroupLog, config: GroupConfig, lives: Lives) -> None:
        self.now_ms = 0
        self.history: list[bytes] = []
        self.partition_counts = lives.partition_counts
        self.ends_ms = log.ends_ms
        self._log = log
        self._lives = lives
        self._agenda = Agenda()
        self._coordinator = GroupCoordinator(log.group_id, config, partition=log.partition)
        self._offset = log.events[0].offset
        self._senders: dict[str, _Player] = {}

    def run(self, players: list[_Player]) -> None:
        of_life = {id(player.life): player for player in players}
        for player in players:
            self.at(player.life.begins_ms, player.begin)
        for life, event in self._lives.commits:
            self.at(event.timestamp_ms, partial(of_life[id(life)].commit, event))
        for event in self._lives.strangers:
            self.at(event.timestamp_ms, partial(self.send, event.envelope, event.request, None))
        while (next_ms := self._next_ms()) is not None and next_ms <= self.ends_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self._coordinator.advance_to(self._log.clock.at(self.now_ms))
            self._deliver()
            self._agenda.do_due(self.now_ms)

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        self._agenda.enter(max(time_ms, self.now_ms), action)

    def send(self, envelope: RequestEnvelope, request: object, sender: _Player | None) -> None:
        """A request reaches the log, and is handled."""
        if sender is not None:
            self._senders[envelope.request_id] = sender
        self._offset += 1
        clock_ms = self._log.clock.at(self.now_ms)
        event = RequestEvent(self._offset, clock_ms, self.now_ms, envelope, request)  # type: ignore[arg-type]
        self._coordinator.handle(event)
        self._deliver()

    def _next_ms(self) -> int | None:
        due_ms = self._coordinator.next_deadline_ms()
        moments = (self._agenda.next_ms(), None if due_ms is None else self._moment_of(due_ms))
        return min((each for each in moments if each is not None), default=None)

    def _moment_of(self, clock_ms: int) -> int:
        time_ms = max(self._log.clock.when(clock_ms), self.now_ms)
        return time_ms if self._log.clock.at(time_ms) >= clock_ms else time_ms + 1

    def _deliver(self) -> None:
        for output in self._coordinator.take_outputs():
            if isinstance(output, HistoryRecord):
                self.history.append(encode_json(output))
            elif isinstance(output, Answer) and (player := self._senders.pop(output.request_id, None)) is not None:
                self.at(self.now_ms + _LATENCY_MS, partial(player.receive, output))


class _Player:
    """One client: a member, and the life that it leads."""

    def __init__(
        self, stage: _Stage, life: Life, config: MemberConfig, number: int, assignors: Mapping[str, Assignor]
    ) -> None:
        self.life = life
        self._stage = stage
        self._config = config
        self._member = GroupMember(config, request_ids(uuid5(NAMESPACE_OID, f"what-if-{number}")), assignors=assignors)
        self._lives = False
        self._new_ids = iter(life.member_ids)
        self._has_joined = False
        self._told_generation: int | None = None
        self._wake_ms: int | None = None
        self._poll_ms: int | None = None

    def begin(self) -> None:
        life, stage = self.life, self._stage
        self._lives = True
        self._member.start(stage.now_ms, life.topics)
        self._member.partitions_changed(stage.partition_counts)
        for time_ms, topics in life.subscriptions:
            stage.at(time_ms, partial(self._awake, partial(self._member.subscribe, topics)))
        for _, until_ms in (*life.silences, *life.stalls):
            stage.at(until_ms, self._poll)
        for from_ms, _ in life.stalls:
            stage.at(from_ms - 1, self._poll)  # the last one for long
        if life.ends_ms is not None:
            stage.at(life.ends_ms, self._end)
        self._poll()

    def receive(self, answer: Answer) -> None:
        until_ms = self._covering(self.life.silences)
        if until_ms is not None:
            self._stage.at(until_ms, partial(self.receive, answer))
        elif self._lives:
            envelope = ResponseEnvelope(
                request_id=answer.request_id, group_id=answer.group_id, epoch=answer.epoch, seq=answer.seq,
                api=answer.api,
                api_version=answer.api_version, answers_offset=answer.answers_offset, time_ms=answer.time_ms,
                body=Raw(b"{}"),
            )  # fmt: skip
            self._member.receive(envelope, answer.response, self._stage.now_ms)
            self._act()

    def commit(self, event: RequestEvent) -> None:
        """Commit what the recorded client committed, as the member that this one is."""
        member, request = self._member, event.request
        assert isinstance(request, OffsetCommitRequest)
        if self._lives and member.state is MemberState.STABLE:
            own = replace(
                request,
                member_id=member.member_id,
                generation_id_or_member_epoch=member.generation_id,
                group_instance_id=self._config.group_instance_id,
            )
            self._stage.send(event.envelope, own, None)

    # ---------------------------------------------------------------------------------------------------------- inside

    def _covering(self, spans: list[Span]) -> int | None:
        """The end of the span that is now."""
        now_ms = self._stage.now_ms
        return next((until_ms for from_ms, until_ms in spans if from_ms <= now_ms < until_ms), None)

    def _awake(self, action: Callable[[], None]) -> None:
        if self._lives:
            action()
            self._act()
            self._poll()

    def _poll(self) -> None:
        if not self._lives:
            return
        self._poll_ms = None
        if self._covering(self.life.silences) is None and self._covering(self.life.stalls) is None:
            self._member.poll(self._stage.now_ms)
            self._act()
            self._plan_poll()

    def _plan_poll(self) -> None:
        """The next poll: soon where it moves something on, else only to say that the application lives."""
        member = self._member
        waits = (
            member.is_rejoining
            or member.state is not MemberState.STABLE
            or member.generation_id != self._told_generation
        )
        least_ms, most_ms = _POLL_MS
        pause_ms = (
            min(max(2 * self.life.reaction_ms, least_ms), most_ms)
            if waits
            else max(self._config.max_poll_interval_ms // 3, least_ms)
        )
        at_ms = self._stage.now_ms + pause_ms
        if self._lives and (self._poll_ms is None or at_ms < self._poll_ms):
            self._poll_ms = at_ms
            self._stage.at(at_ms, partial(self._poll_planned, at_ms))

    def _poll_planned(self, at_ms: int) -> None:
        if self._poll_ms == at_ms:
            self._poll()

    def _end(self) -> None:
        if not self._lives:
            return
        if self.life.says_goodbye and self._member.failure is None:
            # A static member stays when it closes, unless the recorded one was static and left nevertheless.
            self._member.close(self._stage.now_ms, leave_group=True if self.life.instance_id is not None else None)
            self._act()
            self._poll()
        else:
            self._lives = False

    def _act(self) -> None:
        while outputs := self._member.take_outputs():
            for output in outputs:
                match output:
                    case Send():
                        self._send(output)
                    case Assigned(generation_id=generation_id):
                        self._told_generation = generation_id
                    case PartitionCountsNeeded(topics=topics):
                        counts = self._stage.partition_counts
                        self._member.partitions_changed({topic: counts.get(topic, 0) for topic in topics})
                    case LogBoundsNeeded(partitions=partitions):
                        self._member.log_bounds(dict.fromkeys(partitions, (0, 0)))
        if self._member.failure is not None or self._member.is_closed:
            self._lives = False
            return
        self._plan_poll()
        self._set_alarm()

    def _send(self, send: Send) -> None:
        new_id = next(self._new_ids, None) if send.api == "JoinGroup" and not self._has_joined else None
        self._has_joined = self._has_joined or send.api == "JoinGroup"
        envelope = RequestEnvelope(
            request_id=send.request_id, reply_partition=0, api=send.api, api_version=send.api_version,
            client_id=self.life.client_id, client_host=self.life.client_host, new_member_id=new_id, body=Raw(b"{}"),
        )  # fmt: skip
        self._stage.send(envelope, send.request, self)

    def _set_alarm(self) -> None:
        due_ms = self._member.next_deadline_ms()
        if due_ms is not None and (
            self._wake_ms is None or due_ms < self._wake_ms or self._wake_ms < self._stage.now_ms
        ):
            self._wake_ms = due_ms
            self._stage.at(due_ms, self._wake)

    def _wake(self) -> None:
        if not self._lives or self._wake_ms is None or self._stage.now_ms < self._wake_ms:
            return
        until_ms = self._covering(self.life.silences)
        if until_ms is not None:
            self._stage.at(until_ms, self._wake)
            return
        self._wake_ms = None
        self._member.advance_to(self._stage.now_ms)
        self._act()
