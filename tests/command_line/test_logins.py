"""Commands log in at a real broker by each mechanism that can run here; a wrong secret gets one sentence without it.

TLS with certificates on both sides: `tests/coordinating/operations/test_security.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner, Result

from group_coordinator.command_line.main import app
from group_coordinator.ground.kafka_topics.clients import login_problem
from group_coordinator.ground.settings.kafka_properties import librdkafka_properties
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from group_coordinator.watching.watch.offsets_topic import OffsetsTopicError, OffsetsTopicReader
from tests.coordinating.operations.secure_broker import (
    PASSWORD,
    USER,
    jaas,
    let_in_by_scram,
    make_certificates,
    secure_broker,
)
from tests.ground.oidc_server import CLIENT_ID, SECRET, oidc_server, token_of
from tests.waiting import wait_until
from tests.watching.watch.live import consumer, with_topic

pytestmark = pytest.mark.kafka

_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
GROUP = "payments"


class Logins:
    """A broker with a group, and what a client gives to come in."""

    def __init__(self, addresses: dict[str, str], token_endpoint: str, directory: Path) -> None:
        self._addresses = addresses
        self._token_endpoint = token_endpoint
        self._token_file = directory / "token"

    def kafka(self, kind: str) -> dict[str, str]:
        """Properties with Java's names. A token in a file, a token of an OIDC server, or a password."""
        if kind == "scram":
            return {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas("scram.Scram")}
        self._token_file.write_text(token_of("somebody"))
        is_file = kind == "token-file"
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self._token_file.as_uri() if is_file else self._token_endpoint,
            "sasl.jaas.config": f'{_OAUTH} clientId="{CLIENT_ID}" clientSecret="{SECRET}";',
        }

    def call(self, kind: str, *arguments: str, wrong: bool = False) -> Result:
        kafka = {**self.kafka(kind), "security.protocol": "SASL_PLAINTEXT"}
        if wrong:
            kafka["sasl.jaas.config"] = kafka["sasl.jaas.config"].replace("hush", "hash")
        flags = [f"--kafka={name}={value}" for name, value in kafka.items()]
        address = self._addresses["scram" if kind == "scram" else "oauth"]
        return CliRunner().invoke(app, [*arguments, "--bootstrap-servers", address, *flags], env={"TZ": "UTC"})


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory, kafka_jars: Path) -> Iterator[Logins]:
    addresses = {kind: f"127.0.0.1:{free_port()}" for kind in ("scram", "oauth")}
    listeners = ",".join(f"{kind.upper()}://{address}" for kind, address in addresses.items())
    properties = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "SCRAM:SASL_PLAINTEXT,OAUTH:SASL_PLAINTEXT",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": f'{_OAUTH} unsecuredLoginStringClaim_sub="broker";',
    }
    with oidc_server() as server, EmbeddedKafka(properties=properties) as kafka:
        let_in_by_scram(kafka.bootstrap_servers)
        with_topic(kafka, AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), GROUP)
        member = consumer(kafka, GROUP)
        member.subscribe([GROUP])
        wait_until(lambda: (member.poll(0.1), len(member.assignment()) == 2)[1])
        yield Logins(addresses, server.token_endpoint, tmp_path_factory.mktemp("token"))
        member.close()


@pytest.mark.parametrize("kind", ["scram", "oidc", "token-file"])
def test_both_libraries_come_in(kind: str, logins: Logins, tmp_path: Path) -> None:
    """`explain` asks both: kafka-python for records, librdkafka for names of topics."""
    explained = logins.call(kind, "explain", "--group", GROUP)
    assert explained.exit_code == 0, explained.output
    assert f"Group {GROUP}, rebalance to generation 1" in explained.stdout
    dump = tmp_path / "dump.offsets.jsonl"
    exported = logins.call(kind, "export", "offsets-topic", "--out", str(dump))
    assert exported.exit_code == 0, exported.output
    assert dump.stat().st_size > 0


_REFUSED = {
    "scram": f"refuses the login of '{USER}' by SCRAM-SHA-512: the name or the secret is wrong",
    "oidc": f"refuses the client '{CLIENT_ID}' (401 invalid_client): check its id and its secret",
}


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("scram", ("explain", "--group", GROUP)),
        ("scram", ("watch", "--port", "0")),
        ("scram", ("groups",)),
        ("scram", ("gateway", "--listen", "127.0.0.1:0")),
        ("oidc", ("explain", "--group", GROUP)),
        ("oidc", ("watch", "--port", "0")),
        ("oidc", ("groups",)),
    ],
    ids=str,
)
def test_a_wrong_secret(kind: str, command: tuple[str, ...], logins: Logins) -> None:
    result = logins.call(kind, *command, wrong=True)
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.strip().splitlines()
    assert _REFUSED[kind] in line
    assert "hash" not in result.output
    assert PASSWORD not in result.output


def test_a_certificate_that_is_not_trusted(tmp_path: Path, kafka_jars: Path) -> None:
    ours, others = tmp_path / "ours", tmp_path / "others"
    for directory in (ours, others):
        directory.mkdir()
    make_certificates(others)
    with secure_broker(ours) as listeners:
        listener = listeners["SSL"]
        kafka = {**listener.kafka, "ssl.truststore.location": str(others / "authority.pem")}
        properties = librdkafka_properties(listener.bootstrap_servers, kafka)
        told = login_problem(properties)
        assert told is not None
        assert "TLS fails (" in told
        with pytest.raises(OffsetsTopicError, match="TLS fails"):
            OffsetsTopicReader(properties)
        assert login_problem(librdkafka_properties(listener.bootstrap_servers, listener.kafka)) is None
