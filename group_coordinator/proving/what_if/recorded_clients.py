"""The clients of a recorded group: when each came, what it asked for, when it was silent or slow, and how it ended."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from statistics import median_low

from msgspec import Struct, field

from coordinator_state import GroupEvent, RequestEvent
from group_coordinator.proving.what_if.group_log import Span
from group_coordinator.proving.what_if.recorded_topics import RecordedTopics
from group_coordinator.watching.dashboard.change import GroupProtocol

_SHORT_MS = 3_000
"""A member that sends nothing for a shorter time does not count as silent: no session timeout is as short."""
_SLOW_MS = 2_000
"""An application that takes as long as this to react, and several times as long as usual, was busy."""
_SLOW_TIMES = 4
_USUAL_REACTION_MS = 100
_INTERVAL_MIN_MS = 50
_IN_STEP = 5
"""A heartbeat that is due within this part of the interval after a recorded one is not put off."""


class Wanted(Struct, frozen=True):
    """What a client subscribes to."""

    topics: tuple[str, ...] = ()
    regex: str | None = None
    """The coordinator resolves it (consumer protocol)."""


class RecordedClient(Struct, kw_only=True, eq=False):
    """One client process."""

    protocol: GroupProtocol
    client_id: str
    client_host: str
    instance_id: str | None
    wanted: Wanted
    """At first."""
    assignors: tuple[str, ...] = ()
    """The assignors that it offers (classic protocol)."""
    server_assignor: str | None = None
    """The assignor that it asks the coordinator for (consumer protocol)."""
    rack_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    begins_ms: int
    last_sign_ms: int
    ends_ms: int | None = None
    """None: it lives on when the log ends."""
    leaves: bool = False
    """It ends by leaving the group; else by falling silent."""
    returns: bool = False
    """It is static, and leaves so that it may come back: members of the consumer protocol say that, others nothing."""
    member_ids: list[str] = field(default_factory=list)
    subscriptions: list[tuple[int, Wanted]] = field(default_factory=list)
    """When it subscribed to something else."""
    silences: list[Span] = field(default_factory=list)
    """It sent nothing, though it should have, and came back."""
    stalls: list[Span] = field(default_factory=list)
    """Its application did not poll: it left because of that, or it was long in giving up partitions or in rejoining."""
    heartbeat_interval_ms: int = 0
    reactions: list[Span] = field(default_factory=list)
    """From learning of a rebalance to rejoining, or of an assignment to having taken it in."""

    # While it is read:
    is_lost: bool = False
    stalled_since_ms: int | None = None
    notified_ms: int | None = None
    polled_ms: int
    """When its application was last seen to poll."""
    waiting: int = 0
    heartbeats: list[int] = field(default_factory=list)
    pauses: list[Span] = field(default_factory=list)

    @property
    def latest(self) -> Wanted:
        """What it subscribed to last."""
        return self.subscriptions[-1][1] if self.subscriptions else self.wanted

    def sign(self, time_ms: int) -> None:
        """Note that it was heard."""
        if not self.waiting and not self.is_lost and time_ms - self.last_sign_ms > _SHORT_MS:
            self.pauses.append((self.last_sign_ms + 1, time_ms))
        self.last_sign_ms = max(self.last_sign_ms, time_ms)

    def subscribe(self, time_ms: int, wanted: Wanted) -> None:
        """Note what it subscribes to from now on."""
        if wanted != self.latest:
            self.subscriptions.append((time_ms, wanted))

    def react(self, time_ms: int) -> None:
        """Note that it has done what it was told."""
        self.polled_ms = time_ms
        if self.notified_ms is not None:
            self.reactions.append((self.notified_ms, time_ms))
            self.notified_ms = None

    def conclude(self, log_ends_ms: int) -> None:
        """Tell silences, stalls and habits from what was noted, now that the log is over."""
        between = [later - earlier for earlier, later in zip(self.heartbeats, self.heartbeats[1:], strict=False)]
        usual_ms = median_low(between) if between else self.session_timeout_ms // 3
        self.heartbeat_interval_ms = max(min(usual_ms, self.session_timeout_ms // 2), _INTERVAL_MIN_MS)
        self._conclude_reactions()
        long_ms = max(2 * self.heartbeat_interval_ms + 500, _SHORT_MS)
        self.silences = [pause for pause in self.pauses if pause[1] - pause[0] > long_ms]
        if self.stalled_since_ms is not None:
            self.stalls.append((self.stalled_since_ms, log_ends_ms + 1))
        elif (
            self.ends_ms is None
            and not self.waiting
            and log_ends_ms - self.last_sign_ms > max(long_ms, self.session_timeout_ms // 2)
        ):
            self.ends_ms = self.last_sign_ms + 1
        if self.protocol == "classic" and self.instance_id is not None and self.ends_ms is not None and not self.leaves:
            self.leaves = self.returns = True  # static ones say nothing when they are closed

    def reaction_at(self, time_ms: int) -> int:
        """Return how long its application takes to do what it is told at this time: as long as it took nearest to it.
        """
        nearest = min(self.reactions, key=lambda span: abs(span[0] - time_ms), default=(0, _USUAL_REACTION_MS))
        return nearest[1] - nearest[0]

    def heartbeat_at(self, due_ms: int, interval_ms: int) -> int:
        """Return when it sends a heartbeat that is due. Some clients' timers know nothing of rebalances, so one that
        hears of the next rebalance at once was as far from its last heartbeat as in the log.
        """
        later = bisect_left(self.heartbeats, due_ms)
        if later > 0 and due_ms - self.heartbeats[later - 1] < interval_ms // _IN_STEP:
            return due_ms
        if later < len(self.heartbeats) and self.heartbeats[later] - due_ms < interval_ms:
            return self.heartbeats[later]
        return due_ms

    def _conclude_reactions(self) -> None:
        took = [to_ms - from_ms for from_ms, to_ms in self.reactions]
        slow_ms = max(_SLOW_TIMES * (median_low(took) if took else 0), _SLOW_MS)
        self.stalls += [span for span in self.reactions if span[1] - span[0] > slow_ms]
        self.reactions = [span for span in self.reactions if span[1] - span[0] <= slow_ms]


class RecordedClients(Struct, frozen=True, kw_only=True):
    """All clients of a group, and their requests."""

    clients: tuple[RecordedClient, ...]
    commits: tuple[tuple[RecordedClient, RequestEvent], ...]
    """What members committed."""
    others: tuple[GroupEvent, ...]
    """Requests of those who are no members (tools, admin clients), and events that are no requests."""
    topics: RecordedTopics


class Roster:
    """The clients that have been seen so far, and the member ids that each had."""

    def __init__(self) -> None:
        self.clients: list[RecordedClient] = []
        self._by_member: dict[str, RecordedClient] = {}

    def of(self, member_id: str) -> RecordedClient | None:
        """Return the client that has, or had, this member id."""
        return self._by_member.get(member_id)

    def add(self, client: RecordedClient, member_id: str) -> None:
        """Take a client that is new. `member_id` is empty where it has none yet."""
        self.clients.append(client)
        if member_id:
            self._by_member[member_id] = client

    def name(self, client: RecordedClient, member_id: str) -> None:
        """Note a member id that the client was given."""
        client.is_lost = False
        self._by_member[member_id] = client
        if member_id not in client.member_ids:
            client.member_ids.append(member_id)

    def newest_first(self) -> Iterator[RecordedClient]:
        """Return the clients, those that came last in front."""
        return reversed(self.clients)

    def of_instance(self, instance_id: str | None) -> RecordedClient | None:
        """Return the client that last had this static id."""
        if not instance_id:
            return None
        return next((client for client in self.newest_first() if client.instance_id == instance_id), None)
