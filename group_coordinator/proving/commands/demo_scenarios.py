"""The demo plays one scenario for each of its eight groups. A scenario is a generator that yields what to wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from group_coordinator.coordinating.members.host import MemberHost
from group_coordinator.proving.commands.demo_members import (
    DemoClient,
    DemoMember,
    JavaClient,
    KafkaPythonClient,
    LibrdkafkaClient,
)
from schemas.group_states import GroupState
from schemas.history import GroupSnapshot

PARTITIONS = {"payments": 6, "orders": 4, "clicks": 8, "invoices": 3}
"""The topics that the groups consume."""
RECORDS_PER_SECOND = 24

SESSION_TIMEOUT_MS = 6_000
_QUICK = {"session_timeout_ms": SESSION_TIMEOUT_MS, "heartbeat_interval_ms": 1_000, "auto_commit_interval_ms": 2_000}
_NEW_PROTOCOL = {"group_protocol": "consumer", "auto_commit_interval_ms": 2_000}
_CLIENTS_MS = {"session.timeout": SESSION_TIMEOUT_MS, "heartbeat.interval": 1_000, "auto.commit.interval": 2_000}
_EAGER, _COOPERATIVE = ("range",), ("cooperative-sticky",)

Condition = Callable[[], bool]
Scenario = Iterator[float | Condition]
"""A scenario yields seconds to wait, or a condition to wait for."""


class DemoScenarios:
    """Plays the scenarios by the clock. Each action is passed to `announce` before the coordinator knows of it."""

    def __init__(self, host: MemberHost, gateway: str, announce: Callable[[str], None]) -> None:
        """`gateway`: where Kafka clients bootstrap."""
        self.clients: list[DemoClient] = []
        self._host = host
        self._gateway = gateway
        self._announce = announce
        self._now_s = 0.0
        self._snapshots: Mapping[str, GroupSnapshot] = {}
        own_members = (
            self._payments, self._orders, self._clicks, self._ledger, self._reports, self._audit, self._billing
        )  # fmt: skip
        self._waiting: list[tuple[Condition, Scenario]] = [
            (lambda: True, scenario()) for scenario in (*own_members, self._invoices)
        ]

    def play(self, now_s: float, snapshots: Mapping[str, GroupSnapshot]) -> None:
        """Do what is due `now_s` seconds after the beginning, with the groups as they are."""
        self._now_s, self._snapshots = now_s, snapshots
        self._waiting = [
            (self._condition(next(scenario)), scenario) if condition() else (condition, scenario)
            for condition, scenario in self._waiting
        ]

    def end(self) -> None:
        """End all clients without a last request: the coordinator that would answer it may be gone."""
        for client in self.clients:
            client.end("crash")
        for client in self.clients:
            client.join()

    # -------------------------------------------------------------------------------------------------- the scenarios

    def _payments(self) -> Scenario:
        """A member crashes, is missed after its session timeout, and comes back."""
        a, b, c = self._team("payments", "abc", "payments", _EAGER)
        while True:
            yield self._stable(a, b, c)
            yield 5
            self._announce("payments-b is killed; its session timeout is 6 s")
            b.end("crash")
            yield self._stable(a, c)
            yield 5
            self._announce("payments-b is started again")
            b.start()
            yield 20

    def _orders(self) -> Scenario:
        """A rolling deploy: one after the other leaves and comes back as a new version."""
        team = self._team("orders", "abc", "orders", _COOPERATIVE)
        while True:
            yield self._stable(*team)
            yield 8
            self._announce("orders is deployed: a, b and c are restarted, one after the other")
            for client in team:
                client.end("leave")
                yield 2
                client.start()
                yield self._stable(*team)
            yield 30

    def _clicks(self) -> Scenario:
        """One member flaps: it comes and goes, and each time the other one has to rejoin too."""
        steady, flapper = self._team("clicks", ("steady", "flapping"), "clicks", _EAGER)
        while True:
            yield self._stable(steady, flapper)
            yield 10
            self._announce("clicks-flapping begins to flap")
            for _ in range(3):
                flapper.end("leave")
                yield self._stable(steady)
                flapper.start()
                yield self._stable(steady, flapper)
            yield 25

    def _ledger(self) -> Scenario:
        """A static member bounces: back within its session timeout, it keeps its partitions, and nobody rebalances."""
        a, b = self._team("ledger", "ab", "payments", _EAGER, are_static=True, session_timeout_ms=15_000)
        while True:
            yield self._stable(a, b)
            yield 14
            self._announce("ledger-b, a static member, is bounced: no rebalance should follow")
            b.end("bounce")
            yield 3
            b.start()
            yield 30

    def _reports(self) -> Scenario:
        """A member takes too long between two polls, leaves by itself, and rejoins when it polls again."""
        slow, quick = self._team("reports", ("slow", "quick"), "orders", _EAGER, max_poll_interval_ms=8_000)
        while True:
            yield self._stable(slow, quick)
            yield 6
            self._announce("reports-slow works on a record for 13 s; its max.poll.interval.ms is 8 s")
            slow.stall(13)
            yield 40

    def _audit(self) -> Scenario:
        """One member that commits by hand, and never has any trouble."""
        self._team("audit", "a", "clicks", _EAGER, commits_itself=True)
        while True:
            yield 3_600

    def _billing(self) -> Scenario:
        """Member by member a group moves to the consumer protocol, and nobody stops; later a member crashes."""
        team = self._team("billing", "abc", "payments", _COOPERATIVE)
        yield self._stable(*team)
        yield 4
        self._announce("billing moves to the consumer protocol (KIP-848): a, b and c are replaced, one after the other")
        for client in team:
            client.end("leave")
            yield 2
            client.configure(**_NEW_PROTOCOL)
            client.start()
            yield self._stable(*team)
            yield 2
        a, b, c = team
        while True:
            yield 6
            self._announce("billing-b is killed; the session timeout of consumer groups is the coordinator's, here 6 s")
            b.end("crash")
            yield self._stable(a, c)
            yield 5
            self._announce("billing-b is started again: a and c give up some partitions and go on with the rest")
            b.start()
            yield self._stable(*team)
            yield 20

    def _invoices(self) -> Scenario:
        """Unmodified clients of three libraries in one group; one is killed, one leaves."""
        kinds = {"librdkafka": LibrdkafkaClient, "kafka-python": KafkaPythonClient, "java": JavaClient}
        team = [
            kind(self._gateway, "invoices", f"invoices-{library}", "invoices", _CLIENTS_MS)
            for library, kind in kinds.items()
        ]
        rdkafka, python, java = team
        yield 6
        self._announce(
            "invoices: real Kafka clients join by the gateway: librdkafka, kafka-python, Apache Kafka's own for Java"
        )
        self._start(*team)
        while True:
            yield self._stable(*team)
            yield 8
            self._announce("invoices-java is killed, a process with Apache Kafka's console consumer")
            java.end("crash")
            yield self._stable(rdkafka, python)
            yield 4
            java.start()
            yield self._stable(*team)
            yield 10
            self._announce("invoices-kafka-python is closed and started again")
            python.end("leave")
            yield self._stable(rdkafka, java)
            python.start()
            yield 20

    # ---------------------------------------------------------------------------------------------------------- inside

    def _condition(self, wait: float | Condition) -> Condition:
        if callable(wait):
            return wait
        due_s = self._now_s + wait
        return lambda: self._now_s >= due_s

    def _stable(self, *clients: DemoClient) -> Condition:
        """Return the condition that the group is stable with these members and no others."""
        group_id, names = clients[0].group_id, sorted(client.name for client in clients)

        def is_so() -> bool:
            group = self._snapshots.get(group_id)
            return (
                group is not None
                and group.state == GroupState.STABLE
                and sorted(member.client_id for member in group.members) == names
            )

        return is_so

    def _team(
        self,
        group_id: str,
        names: Iterable[str],
        topic: str,
        assignors: tuple[str, ...],
        *,
        commits_itself: bool = False,
        are_static: bool = False,
        **settings: object,
    ) -> list[DemoMember]:
        """Start members with these names, each of which has its own as its instance id where they are static."""
        settings = {**_QUICK, "partition_assignment_strategy": assignors, **settings}
        members = []
        for client_id in (f"{group_id}-{name}" for name in names):
            own = {"group_instance_id": client_id} if are_static else {}
            members.append(
                DemoMember(self._host, group_id, client_id, [topic], commits_itself=commits_itself, **settings, **own)
            )
        self._start(*members)
        return members

    def _start(self, *clients: DemoClient) -> None:
        self.clients += clients
        for client in clients:
            client.start()
