"""The log of transactions between producers and groups: brokers that decide, a gateway that appends, relays."""

from __future__ import annotations

from msgspec import Struct, field

from group_coordinator.coordinating.transactions.fold import TransactionFold
from schemas.error_codes import ErrorCode
from schemas.kafka.record_batches import RawRecord
from simulation.world import World

_MARKER_MS = 5, 3_000
"""So long after the decision the end is written."""
_LOOK_MS, _POLL_MS, _SAVE_MS = 1_000, 300, 2_000
_TRANSACTION_MS = 12_000
_OPEN_BYTES_MAX = 1 << 20
_OUT_OF_ORDER = 45


class _Transactional(Struct):
    """What the brokers know of a transactional id."""

    producer_id: int
    epoch: int = 0
    begun_ms: int | None = None
    is_ending: bool = False
    sequences: dict[int, int] = field(default_factory=dict)
    """Shard -> the last sequence number of this epoch."""


class Brokers:
    """They keep the log of transactions, and decide. A transaction has an epoch of its own (KIP-890)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.logs: list[list[RawRecord]] = [[] for _ in world.drivers]
        self.decided: dict[str, int] = {}
        """Transactional id -> the offset that its last committed transaction has committed."""
        self._known: dict[str, _Transactional] = {}

    def begin_anew(self, name: str) -> int | None:
        """Give a new epoch, with which older ones are fenced; None: a transaction ends first."""
        known = self._known.setdefault(name, _Transactional(len(self._known)))
        if known.begun_ms is not None and not known.is_ending:
            self._decide(name, known, committed=False)
        if known.is_ending:
            return None
        known.epoch += 1
        known.sequences.clear()
        return known.epoch

    def append(self, name: str, epoch: int, shard: int, sequence: int, key: bytes, value: bytes) -> int:
        """Append a commit; the first one begins the transaction. Return an error code."""
        known = self._known[name]
        if self.is_fenced(known.epoch, epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if known.is_ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        last = known.sequences.get(shard, -1)
        if sequence == last:
            return ErrorCode.NONE  # for a repeat of the last one, which it may not be
        if sequence != last + 1:
            return _OUT_OF_ORDER
        known.sequences[shard] = sequence
        known.begun_ms = self._world.now_ms if known.begun_ms is None else known.begun_ms
        self._write(shard, RawRecord(0, self._now_ms, 0, key, value, known.producer_id, epoch, True))
        return ErrorCode.NONE

    @staticmethod
    def is_fenced(known_epoch: int, epoch: int) -> bool:
        return epoch != known_epoch

    def last_sequence(self, name: str, shard: int) -> int:
        return self._known[name].sequences.get(shard, -1)

    def producer_id(self, name: str) -> int:
        return self._known[name].producer_id

    def end(self, name: str, epoch: int, offset: int, *, committed: bool) -> int:
        """End a transaction in which this offset was the last one, as its producer has been told."""
        known = self._known[name]
        if epoch != known.epoch or known.is_ending:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if known.begun_ms is None:
            return ErrorCode.INVALID_TXN_STATE if committed else ErrorCode.NONE
        if committed:
            self.decided[name] = offset
        self._decide(name, known, committed=committed)
        return ErrorCode.NONE

    def look(self) -> None:
        """Abort what has been open for too long."""
        for name, known in self._known.items():
            is_open = known.begun_ms is not None and not known.is_ending
            if is_open and self._world.now_ms - (known.begun_ms or 0) > _TRANSACTION_MS:
                self._decide(name, known, committed=False)
        self._world.at(self._world.now_ms + _LOOK_MS, self.look)

    @property
    def has_open(self) -> bool:
        return any(known.begun_ms is not None for known in self._known.values())

    @property
    def _now_ms(self) -> int:
        return self._world.now_ms + self._world.broker_ahead_ms

    def _decide(self, name: str, known: _Transactional, *, committed: bool) -> None:
        known.is_ending = True
        dice = self._world.random_streams.of("marker", name, known.epoch)
        self._world.at(self._world.now_ms + dice.randint(*_MARKER_MS), lambda: self._mark(known, committed))

    def _mark(self, known: _Transactional, committed: bool) -> None:
        control = "COMMIT" if committed else "ABORT"
        for shard in known.sequences:
            marker = RawRecord(0, self._now_ms, 0, None, None, known.producer_id, known.epoch + 1, True, control)
            self._write(shard, marker)
        known.epoch += 1
        known.begun_ms = None
        known.is_ending = False
        known.sequences.clear()

    def _write(self, shard: int, record: RawRecord) -> None:
        log = self.logs[shard]
        log.append(record._replace(offset=len(log)))


class Gateway:
    """It owns the sequence numbers; what it remembers of them, a restart forgets. That a commit was appended tells
    nobody anything: only the group answers."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._last: dict[tuple[str, int], tuple[int, int]] = {}

    def commit(self, name: str, epoch: int, shard: int, key: bytes, value: bytes) -> int | None:
        """Append a commit. Return what it is refused with; None: the group will answer."""
        known_epoch, last = self._last.get((name, shard), (-1, -1))
        sequence = self.next_sequence(last) if known_epoch == epoch else None
        for _ in range(2):
            if sequence is None:
                sequence = self._brokers.last_sequence(name, shard) + 1
            code = self._brokers.append(name, epoch, shard, sequence, key, value)
            if code == ErrorCode.NONE:
                self._last[name, shard] = epoch, sequence
                return None
            self._last.pop((name, shard), None)
            sequence = None
            if code != _OUT_OF_ORDER:
                break
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if code == _OUT_OF_ORDER else code

    @staticmethod
    def next_sequence(last: int) -> int:
        return last + 1

    def not_answered(self, name: str) -> None:
        for key in [key for key in self._last if key[0] == name]:
            del self._last[key]

    def restart(self) -> None:
        self._last.clear()


class Relay:
    """Makes events of one shard's log of transactions. When it comes back it begins at its saved position."""

    def __init__(self, world: World, brokers: Brokers, shard: int) -> None:
        self._world, self._log, self._shard = world, brokers.logs[shard], shard
        self._saved = 0, 0
        self.away_until_ms = 0
        self._start()

    def _start(self) -> None:
        self._next, written_to = self._saved
        self._fold = TransactionFold(
            self._shard, len(self._world.drivers), written_to=written_to, open_bytes_max=_OPEN_BYTES_MAX
        )
        self._saved_ms = self._world.now_ms

    def go_away(self, for_ms: int) -> None:
        self.away_until_ms = max(self.away_until_ms, self._world.now_ms + for_ms)
        self._start()

    def poll(self) -> None:
        now_ms = self._world.now_ms
        if now_ms >= max(self.away_until_ms, self._world.broker_back_ms):
            for record in self._log[self._next :]:
                for event in self._fold.take(record):
                    self._world.append(self._shard, event.group_id.encode(), event.value)
            self._next = len(self._log)
            if now_ms - self._saved_ms >= _SAVE_MS:
                self._saved, self._saved_ms = (self._fold.resume_offset(self._next), self._next), now_ms
        self._world.at(now_ms + _POLL_MS, self.poll)

    @property
    def is_done(self) -> bool:
        return self._next == len(self._log)
