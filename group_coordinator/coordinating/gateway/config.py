"""The settings of a gateway and of a tap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from group_coordinator.coordinating.answer_sockets import AnswerSocketSettings
from group_coordinator.ground.errors import ExpectedError
from group_coordinator.ground.settings.kafka_properties import librdkafka_properties, properties_problems
from group_coordinator.ground.settings.loading import LoadedSettings
from group_coordinator.ground.settings.operations import OperationsSettings
from schemas.group_settings import OwnSettingsBounds
from schemas.settings import PORT_MAX, setting


class GatewayError(ExpectedError):
    """The gateway cannot start or go on: a sentence that says why and what to do."""


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much clients may ask for: each connection, but where all of them are named."""

    request_bytes_max: int = setting(104_857_600, "Longest request; Kafka's `socket.request.max.bytes`.", at_least=1)
    group_request_bytes_max: int = setting(1_048_576, "Longest group request: it must become one event.", at_least=1)
    id_bytes_max: int = setting(
        1_024, "Longest id of a group, member (37 more), client, instance or rack, and longest name of a protocol, in "
        "bytes; a longer group id gets INVALID_GROUP_ID and the others INVALID_REQUEST. Kafka takes 32767. Groups that "
        "have longer ones may still be described, left and deleted.", at_least=64, at_most=32_767)
    regex_bytes_max: int = setting(
        4_096, "Longest regular expression of topics, in bytes; a longer one gets INVALID_REGULAR_EXPRESSION. Kafka "
        "takes 32767.", at_least=64, at_most=32_767)
    topics_request_bytes_max: int = setting(
        4_194_304, "Longest request that names topics, but for Produce: it is looked through before it goes "
        "on.", at_least=1)
    pending_requests_max: int = setting(
        256, "Requests without an answer, after which no more are read; one over several groups counts once for "
        "each.", at_least=1)
    groups_per_request_max: int = setting(
        1_000, "Groups that one request may ask the coordinator about; the others are answered "
        "COORDINATOR_LOAD_IN_PROGRESS, upon which admin clients ask for them again.", at_least=1)
    connections_max_idle_ms: int = setting(
        600_000, "How long a connection may be silent while nothing is asked on it, after which it is closed; Kafka's "
        "`connections.max.idle.ms`.", at_least=1)
    login_timeout_ms: int = setting(
        30_000, "How long a client may take until the broker has authenticated it, where it must be.", at_least=1)
    held_bytes_max: int = setting(
        1_048_576, "Bytes of answers that wait behind a held one, after which no more of the broker's are "
        "read.", at_least=1)
    answer_bytes_max: int = setting(
        16_777_216, "Longest answer over several groups; those that find no room in it are answered "
        "COORDINATOR_LOAD_IN_PROGRESS.", at_least=1)
    queued_max_request_bytes: int = setting(
        67_108_864, "Of all connections: bytes of requests at the coordinator, of the answers that are expected to "
        "them, after which only small requests of connections that wait for nothing are sent on. One connection may "
        "have an eighth of it.", at_least=1)
    buffered_bytes_max: int = setting(
        67_108_864, "Of all connections: bytes of unfinished requests and of answers that are not read, after which "
        "those are closed that hold the most for the longest.", at_least=1)
    passing_bytes_max: int = setting(
        104_857_600, "Of all connections: bytes of requests that go through to brokers and have not come to their end, "
        "after which those are closed that claim the most for the longest. A broker takes memory for all of a request "
        "when it sees its first bytes.", at_least=1)
    listed_bytes_max: int = setting(
        67_108_864, "Of all groups: bytes of what is kept to list them, some two hundred thousand groups; those beyond "
        "it are not listed.", at_least=1)
    request_timeout_ms: int = setting(
        30_000, "How long a request may take to come from its first byte to its last, after which its connection is "
        "closed.", at_least=1)
    connections_max: int = setting(
        10_000, "Connections of clients. For a further one, one is closed that has been silent for 10 s and waits for "
        "nothing; if there is none, the further one is.", at_least=1)


@dataclass(frozen=True, kw_only=True)
class Answers(AnswerSocketSettings):
    """How group requests are answered."""

    answer_timeout_ms: int = setting(
        25_000, "How long an answer of the coordinator is waited for: less than clients wait (30 s), so that they hear "
        "of it.", at_least=1_000)
    consumer_heartbeat_timeout_ms: int = setting(
        4_000, "The same for a ConsumerGroupHeartbeat: less than group_consumer_heartbeat_interval_ms, as librdkafka "
        "waits no longer. It says everything again only where it hears that there is no answer.", at_least=100)
    answer_member_id_required: bool = setting(
        True, "Answer a new member's first JoinGroup with MEMBER_ID_REQUIRED in the gateway: it only asks for a "
        "member id.")
    transactions: bool = setting(
        False, "Offer offsets in transactions (AddOffsetsToTxn, TxnOffsetCommit). Relays must run: in `run` with this "
        "setting, or by the command `relay`.")
    transactions_open_bytes_max: int = setting(
        67_108_864, "Of a relay, for each shard: bytes of what is kept of open transactions. The fuller it is, the "
        "less may a client (a user at an address) have, and a group; who has more gets no answer to commits in new "
        "transactions. Who is alone gets a third.", at_least=1)


class Route(NamedTuple):
    """One port of the gateway, and the broker's listener behind it."""

    listen: Address
    broker: Address


@dataclass(frozen=True, kw_only=True)
class ProxySettings(LoadedSettings, OperationsSettings, Bounds):
    """What a gateway and a tap have in common."""

    listen: str = setting(
        "127.0.0.1:9192", "Where clients bootstrap, HOST:PORT. The broker with node id N is at the port that follows "
        "by N + 1. Port 0: any free ones.")
    advertised_host: str | None = setting(None, "The host that clients are told. Default: the one that is listened on.")
    kafka: dict[str, str] = setting(
        {}, "Properties of the gateway's own Kafka clients with Java's names, for TLS and SASL (`security.protocol`, "
        "`sasl.jaas.config` ...). Clients' connections go on to the brokers by the same `security.protocol`.")
    routes: dict[str, str] = setting(
        {}, "Where each broker has a listener of its own that advertises the gateway, one HOST:PORT=HOST:PORT a "
        "broker: the port to listen on, and that listener. Nothing is rewritten then. Default: a port for each broker, "
        "and addresses are rewritten.")
    tls_certificate: str | None = setting(
        None, "A certificate chain (PEM file) to show to clients. Default: clients speak plain text.")
    tls_key: str | None = setting(None, "The certificate's key (PEM file). Default: it is in the same file.")
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The least important that is logged. `info` has every connection that was closed for a reason.")

    @property
    def brokers(self) -> str:
        """Where the brokers are that stand behind it."""
        raise NotImplementedError

    @property
    def address(self) -> Address:
        """Where clients bootstrap."""
        return _parse_address(self.listen)

    @property
    def routes_to_brokers(self) -> tuple[Route, ...]:
        """The ports and the brokers' listeners behind them; empty where it has a port for each broker."""
        return tuple(Route(*map(_parse_address, pair)) for pair in self.routes.items())

    @property
    def speaks_sasl(self) -> bool:
        return self._security_protocol.startswith("SASL_")

    @property
    def brokers_speak_tls(self) -> bool:
        return self._security_protocol in ("SSL", "SASL_SSL")

    @property
    def _security_protocol(self) -> str:
        return self.kafka.get("security.protocol", "plaintext").upper()

    @property
    def broker_client_properties(self) -> dict[str, str]:
        """librdkafka's properties for the cluster behind the gateway, where the brokers themselves are met."""
        return librdkafka_properties(",".join(self.routes.values()) or self.brokers, self.kafka)

    def problems(self) -> list[str]:
        """Return a sentence for each mistake."""
        problems = properties_problems(self.kafka)
        for name, text in [
            ("listen", self.listen),
            *(("routes", address) for pair in self.routes.items() for address in pair),
        ]:
            try:
                _parse_address(text)
            except ValueError:
                problems.append(f"{name} is {text!r}, but must be HOST:PORT, as 127.0.0.1:9192.")
        problems += [*self.operations_problems(), *super().problems()]
        return problems or list(self._problems_together())

    def _problems_together(self) -> Iterator[str]:
        """Yield what is wrong with settings each of which might be right."""
        if self.tls_key is not None and self.tls_certificate is None:
            yield "There is a TLS key without a certificate."
        address = self.address
        if self.advertised_host is None and not self.routes and address.host in ("0.0.0.0", "::"):
            yield f"{address} is every address of this machine: say by which host clients are to reach it."
        mechanism = self.kafka.get("sasl.mechanism", "PLAIN")
        if self.speaks_sasl and mechanism.upper() in ("GSSAPI", "OAUTHBEARER"):
            yield f"SASL {mechanism} does not pass through a gateway that must know who the client is."


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(Answers, OwnSettingsBounds, ProxySettings):
    """Everything that can be set of a gateway."""

    bootstrap_servers: str = setting(
        "localhost:9092", "The Kafka cluster behind the gateway, `host:port`, separated by commas.")
    coordinator_bootstrap_servers: str | None = setting(
        None, "The cluster with the coordinator's topics. Default: the same.")
    coordinator_kafka: dict[str, str] = setting(
        {}, "Properties of the clients of that cluster, where it is another one.")
    topic_prefix: str = setting("coordinator", "What the names of the coordinator's topics begin with, as of `run`.")
    authorization_rules: str | None = setting(
        None, "A file with lines `PRINCIPAL GROUP allow|deny`; the first that fits decides. Default: clients on this "
        "machine may use every group, others none.")

    @property
    def brokers(self) -> str:
        return self.bootstrap_servers

    @property
    def coordinator_client_properties(self) -> dict[str, str]:
        """librdkafka's properties for the cluster with the coordinator's topics."""
        if self.coordinator_bootstrap_servers is None:
            return librdkafka_properties(self.bootstrap_servers, self.kafka)
        return librdkafka_properties(self.coordinator_bootstrap_servers, self.coordinator_kafka)

    def problems(self) -> list[str]:
        problems = properties_problems(self.coordinator_kafka)
        if self.coordinator_kafka and self.coordinator_bootstrap_servers is None:
            problems.append(
                "coordinator_kafka is set, but not coordinator_bootstrap_servers: say where that cluster is."
            )
        return [*problems, *super().problems()]


@dataclass(frozen=True, kw_only=True)
class TapSettings(ProxySettings):
    """Everything that can be set of a tap."""

    upstream: str = setting(
        "localhost:9092", "The Kafka cluster whose groups are recorded, `host:port`, separated by commas. It goes on "
        "coordinating them.")
    file_bytes_max: int = setting(
        268_435_456, "Longest file of the log; a full one becomes FILE.1, what was that FILE.2, and so "
        "on.", at_least=1)
    files_max: int = setting(16, "Files of the log, the oldest of which is deleted when one more is full.", at_least=1)

    @property
    def brokers(self) -> str:
        return self.upstream


def _parse_address(text: str) -> Address:
    """Raises ValueError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise ValueError(text)
    return Address(host, int(port))
