"""The cache knows which topics the brokers have, as far as commits need it: asked in batches, kept briefly. It is pure.

A topic that is there is believed for `FRESH_S`, then asked for again. One that is not there, or has another id than
before, is asked for once more before that is believed; that it is not there, for no longer than `ABSENT_S`. At any time
one request is on its way, of bounded size; topics that were there before go first, so that names that nobody knows keep
nobody else waiting for long. Where no broker answers nothing is known, and nobody waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

FRESH_S = 2.0
ABSENT_S = 1.0
BLIND_S = 5.0
"""So long nobody is asked after no broker has answered."""
PRESENT_S = 0.15
"""So long an answer is believed by those who must know what is there now; longer where much is asked for, never longer
than `FRESH_S`. It is asked for again before, so that who asks often does not wait."""
PACE_S = 0.02
"""From an answer to the next question."""
PARTITIONS_PER_S = 2_000
"""A partition that is told of costs 35 us of CPU. For what must be known at present brokers tell of so many a second in
the long run, as long as `FRESH_S` is not reached."""
PARTITIONS_AT_ONCE = 20_000
"""When so many were told of, those who can do without do not ask."""
NAMES_PER_QUESTION = 500
NEW_NAMES_MAX = 5_000
"""Names that wait to be asked for and were never found, after which no more are taken."""
_TOPICS_MAX = 10_000
_ABSENT_MAX = 1_000
_ANY_PARTITIONS = 2**31
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Topic(Struct, frozen=True):
    """A topic that is there."""

    topic_id: str | None
    """None: brokers before 2.8 have no ids."""
    partitions: int

    @property
    def is_doubtful(self) -> bool:
        """Whether no broker answers for it, and this is what was known last."""
        return self.partitions == _ANY_PARTITIONS


class Absent:
    """There is no such topic."""


class Unknown:
    """No broker has answered for the topic, or the gateway may not see it."""


ABSENT: Final = Absent()
UNKNOWN: Final = Unknown()
Verdict = Topic | Absent | Unknown
Answers = Mapping[str, Verdict]
"""Of the names that were asked for; one that is missing was not answered for."""


class _Waiting(Struct):
    """A caller that waits for the verdicts about some topics."""

    missing: set[str]
    verdicts: dict[str, Verdict]
    on_known: Callable[[Answers], None]


class TopicCache:
    """All methods run in one thread."""

    def __init__(
        self,
        ask: Callable[[list[str], Callable[[Answers], None]], None],
        call_later: Callable[[float, Callable[[], None]], object],
        now_s: Callable[[], float],
    ) -> None:
        """`ask`: ask the brokers; the answers come once, later.

        `call_later`: after so many seconds, in the same thread.
        """
        self._ask = ask
        self._call_later = call_later
        self._now_s = now_s
        self._topics: dict[str, tuple[Topic, float]] = {}
        """With the time of the answer; the oldest first."""
        self._absent: dict[str, float] = {}
        self._unseen: dict[str, float] = {}
        """What brokers do not answer for: the gateway may not see it."""
        self._to_refresh: dict[str, int] = {}
        """The topics to ask for again: name -> the largest partition that is wanted."""
        self._to_find: dict[str, int] = {}
        """The same for topics of which nothing is known."""
        self._in_flight: dict[str, int] = {}
        """Those of the question that is on its way."""
        self._doubted: dict[str, None] = {}
        """Names that were once answered to be absent, or too small."""
        self._waiting: dict[str, list[_Waiting]] = {}
        self._is_paused = False
        self._blind_until_s = 0.0
        self._recent = (0.0, now_s())
        """Partitions that were told of, less those that may be asked for since; and when."""

    @property
    def is_busy(self) -> bool:
        """Whether so much has been asked for lately that those who can do without shall not ask."""
        return self._recent_partitions() > PARTITIONS_AT_ONCE or len(self._to_find) > NAMES_PER_QUESTION

    def known(self, largest_partitions: Mapping[str, int], *, at_present: bool = False) -> Answers | None:
        """Return for each topic whether it exists; None if `look_up` must ask. `largest_partitions`: by topic, the
        largest partition that is asked for. `at_present`: an answer of two seconds ago would not do."""
        verdicts, missing = self._verdicts(largest_partitions, at_present)
        return None if missing else verdicts

    def look_up(
        self, largest_partitions: Mapping[str, int], on_known: Callable[[Answers], None], *, at_present: bool = False
    ) -> bool:
        """Let the brokers be asked; `on_known` is called once, later. Returns False if too many names wait already."""
        verdicts, missing = self._verdicts(largest_partitions, at_present)
        assert missing, "what is known need not be asked for"
        if len(self._to_find) + sum(name not in self._topics for name in missing) > NEW_NAMES_MAX:
            return False
        waiting = _Waiting(missing, verdicts, on_known)
        for name in largest_partitions:
            if name in missing:
                self._waiting.setdefault(name, []).append(waiting)
                self._enter(name, largest_partitions[name])
        self._next()
        return True

    def _verdicts(self, largest_partitions: Mapping[str, int], at_present: bool) -> tuple[dict[str, Verdict], set[str]]:
        """Return what is known of topics, and those that must be asked for."""
        verdicts: dict[str, Verdict] = {}
        missing: set[str] = set()
        for name, partition in largest_partitions.items():
            verdict = self._verdict(name, partition, at_present)
            if verdict is None:
                missing.add(name)
            else:
                verdicts[name] = verdict
        return verdicts, missing

    def _verdict(self, name: str, partition: int, at_present: bool) -> Verdict | None:
        """Return what is known of a topic; None if it must be asked for."""
        now_s = self._now_s()
        if not TOPIC_NAME.fullmatch(name):
            return ABSENT  # there can be none
        known_topic = self._topics.get(name)
        if now_s < self._blind_until_s:
            return self._in_doubt(name)
        fresh_s = min(FRESH_S, PRESENT_S + self._recent_partitions() / PARTITIONS_PER_S) if at_present else FRESH_S
        if known_topic is not None:
            topic, known_s = known_topic
            if now_s - known_s <= fresh_s and partition < topic.partitions:
                if at_present and now_s - known_s > fresh_s / 2:
                    self._enter(name, partition)
                    self._next()
                return topic
        absent_s = self._absent.get(name)
        if absent_s is not None and now_s - absent_s <= min(ABSENT_S, fresh_s):
            return ABSENT
        unseen_s = self._unseen.get(name)
        if unseen_s is not None and now_s - unseen_s <= BLIND_S:
            return self._in_doubt(name)
        return None

    def _in_doubt(self, name: str) -> Verdict:
        """No broker answers for the topic: its last known state is used, but it refuses nobody."""
        known_topic = self._topics.get(name)
        return UNKNOWN if known_topic is None else Topic(known_topic[0].topic_id, _ANY_PARTITIONS)

    def _enter(self, name: str, partition: int) -> None:
        if name in self._in_flight and partition <= self._in_flight[name]:
            return
        queue = self._to_refresh if name in self._topics else self._to_find
        queue[name] = max(partition, queue.get(name, -1))

    def _next(self) -> None:
        """Ask the next question, where none is on its way."""
        if self._in_flight or self._is_paused:
            return
        for queue in (self._to_refresh, self._to_find):
            for name in list(queue)[: NAMES_PER_QUESTION - len(self._in_flight)]:
                self._in_flight[name] = max(queue.pop(name), self._in_flight.get(name, -1))
        if self._in_flight:
            self._ask(list(self._in_flight), self._answered)

    def _answered(self, answers: Answers) -> None:
        in_flight, self._in_flight = self._in_flight, {}
        self._is_paused = True
        now_s = self._now_s()
        if not answers:
            self._blind_until_s = now_s + BLIND_S
        self._recent = (self._recent_partitions() + _partitions(answers), now_s)
        for name, partition in in_flight.items():
            answer = answers.get(name, UNKNOWN)
            is_bad = answer is ABSENT or (
                isinstance(answer, Topic) and (partition >= answer.partitions or self._is_another(name, answer))
            )
            if is_bad and name not in self._doubted:
                self._doubted[name] = None
                self._enter(name, partition)
                continue
            self._doubted.pop(name, None)
            if answers:
                self._keep(name, answer, now_s)
            self._settle(name, answer)
        if not answers:
            self._settle_all()
        self._call_later(PACE_S, self._go_on)

    def _is_another(self, name: str, topic: Topic) -> bool:
        """Return whether the topic has another id than before: it was made again, or a broker is behind."""
        before = self._topics.get(name)
        return before is not None and before[0].topic_id != topic.topic_id

    def _recent_partitions(self) -> float:
        partitions, at_s = self._recent
        return max(0.0, partitions - PARTITIONS_PER_S * (self._now_s() - at_s))

    def _go_on(self) -> None:
        self._is_paused = False
        self._next()

    def _keep(self, name: str, answer: Verdict, now_s: float) -> None:
        if isinstance(answer, Topic):
            self._absent.pop(name, None)
            self._topics.pop(name, None)
            self._topics[name] = answer, now_s
            _shorten(self._topics, _TOPICS_MAX)
        elif answer is ABSENT:
            self._topics.pop(name, None)
            self._absent.pop(name, None)
            self._absent[name] = now_s
            _shorten(self._absent, _ABSENT_MAX)
        else:
            self._unseen.pop(name, None)
            self._unseen[name] = now_s
            _shorten(self._unseen, _TOPICS_MAX)

    def _settle(self, name: str, verdict: Verdict) -> None:
        """Tell those who wait for a topic, and for nothing else any more."""
        if name in self._to_refresh or name in self._to_find:
            return  # asked for once more meanwhile, for a larger partition
        if verdict is UNKNOWN:
            verdict = self._in_doubt(name)
        for waiting in self._waiting.pop(name, ()):
            waiting.missing.discard(name)
            waiting.verdicts[name] = verdict
            if not waiting.missing:
                waiting.on_known(waiting.verdicts)

    def _settle_all(self) -> None:
        """No broker answers: waiting commits need not wait longer."""
        self._to_refresh.clear()
        self._to_find.clear()
        self._doubted.clear()
        for name in list(self._waiting):
            self._settle(name, UNKNOWN)


def _partitions(answers: Answers) -> int:
    return sum([verdict.partitions for verdict in answers.values() if isinstance(verdict, Topic)])


def _shorten(entries: dict[str, Any], entries_max: int) -> None:
    while len(entries) > entries_max:
        del entries[next(iter(entries))]


