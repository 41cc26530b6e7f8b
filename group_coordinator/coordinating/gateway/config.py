"""The gateway's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from group_coordinator.coordinating.answer_sockets import AnswerSocketSettings
from group_coordinator.ground.errors import ExpectedError
from schemas.group_settings import OwnSettingsBounds
from schemas.settings import bounds_problems, setting


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
        "of it.")
    consumer_heartbeat_timeout_ms: int = setting(
        4_000, "The same for a ConsumerGroupHeartbeat: less than group_consumer_heartbeat_interval_ms, as librdkafka "
        "waits no longer. It says everything again only where it hears that there is no answer.", at_least=100)
    answer_member_id_required: bool = setting(
        True, "Answer a new member's first JoinGroup with MEMBER_ID_REQUIRED in the gateway: it only asks for a "
        "member id.")


class Route(Struct, frozen=True):
    """One port of the gateway, and the broker's listener behind it."""

    listen: Address
    broker: Address


@dataclass(frozen=True, kw_only=True)
class GatewayConfig(Answers, OwnSettingsBounds):
    """How a gateway is run. `problems()` says what is wrong with it, one sentence each."""

    listen: Address = Address("127.0.0.1", 9192)
    """Where clients bootstrap. The broker with node id N is at the port that follows by N + 1; port 0: any free
    ports."""
    advertised_host: str | None = None
    """The host that clients are told; None: the one that is listened on."""
    bootstrap_servers: str
    """The Kafka cluster behind the gateway."""
    client_properties: Mapping[str, str] = field(default_factory=dict)
    """librdkafka's properties for the gateway's own clients of that cluster (`security.protocol`, `sasl.username` ...).
    Clients speak to the brokers by the same `security.protocol`."""
    coordinator_bootstrap_servers: str | None = None
    """The cluster with the coordinator's topics; None: the same."""
    coordinator_properties: Mapping[str, str] | None = None
    """librdkafka's properties for it; None: the same."""
    topic_prefix: str = "coordinator"
    routes: tuple[Route, ...] = ()
    """Where the brokers have a listener of their own for the gateway, which advertises the gateway's addresses:
    nothing is rewritten then. Empty: the gateway has a port for each broker and rewrites addresses."""
    tls_certificate: Path | None = None
    """A certificate chain (PEM) for clients; None: clients speak plain text."""
    tls_key: Path | None = None
    """Its key; None: it is in the same file."""
    authorization_rules: Path | None = None
    """See `group_coordinator.coordinating.gateway.authorization`; None: clients on this machine may use every group and
    others none."""
    bounds: Bounds = Bounds()

    @property
    def speaks_sasl(self) -> bool:
        return self._security_protocol.startswith("SASL_")

    @property
    def brokers_speak_tls(self) -> bool:
        return self._security_protocol in ("SSL", "SASL_SSL")

    @property
    def _security_protocol(self) -> str:
        return self.client_properties.get("security.protocol", "plaintext").upper()

    @property
    def broker_client_properties(self) -> dict[str, str]:
        """librdkafka's properties for the cluster behind the gateway, where the brokers themselves are met."""
        servers = ",".join(str(route.broker) for route in self.routes) if self.routes else self.bootstrap_servers
        return {**self.client_properties, "bootstrap.servers": servers}

    @property
    def coordinator_client_properties(self) -> dict[str, str]:
        """librdkafka's properties for the cluster with the coordinator's topics."""
        properties = self.client_properties if self.coordinator_properties is None else self.coordinator_properties
        return {**properties, "bootstrap.servers": self.coordinator_bootstrap_servers or self.bootstrap_servers}

    def problems(self) -> list[str]:
        """Return a sentence for each mistake; none if the settings are valid."""
        problems = bounds_problems(self) + bounds_problems(self.bounds)
        if self.tls_key is not None and self.tls_certificate is None:
            problems.append("There is a TLS key without a certificate.")
        if self.advertised_host is None and not self.routes and self.listen.host in ("", "0.0.0.0", "::"):
            problems.append(
                f"{self.listen} is every address of this machine: say by which host clients are to reach it."
            )
        if self.answer_timeout_ms < 1_000:
            problems.append(
                f"answer_timeout_ms is {self.answer_timeout_ms}, but a coordinator needs 1000 at the very least."
            )
        mechanism = self.client_properties.get("sasl.mechanism", self.client_properties.get("sasl.mechanisms", "PLAIN"))
        if self.speaks_sasl and mechanism.upper() in ("GSSAPI", "OAUTHBEARER"):
            problems.append(f"SASL {mechanism} does not pass through a gateway that must know who the client is.")
        return problems
