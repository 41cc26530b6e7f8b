"""A broker that speaks TLS and SASL, with an authority of its own,
and the settings of a client for each of its listeners."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port

USER, PASSWORD = "coordinator", 'hush "hush" \\ 100% = secret'
KINDS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
_JAAS_PASSWORD = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
_LOGIN = "org.apache.kafka.common.security"


class Listener(NamedTuple):
    """How a client comes in."""

    bootstrap_servers: str
    kafka: dict[str, str]
    """The usual settings, with Java's names."""


@contextmanager
def secure_broker(directory: Path) -> Iterator[dict[str, Listener]]:
    """A running broker: its listeners by `security.protocol`."""
    make_certificates(directory)
    ports = {kind: free_port() for kind in KINDS}
    listeners = ",".join(f"{kind}://127.0.0.1:{port}" for kind, port in ports.items())
    properties = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(f"{kind}:{kind}" for kind in KINDS),
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{_JAAS_PASSWORD}";'
        ),
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "authority.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    with EmbeddedKafka(properties=properties) as kafka:
        let_in_by_scram(kafka.bootstrap_servers)
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(directory / "authority.pem")}
        settings = {
            "SASL_PLAINTEXT": {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.Plain")},
            "SASL_SSL": {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas("scram.Scram"), **trust},
            "SSL": {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(directory / "client.pem"), **trust},
        }
        yield {
            kind: Listener(f"127.0.0.1:{ports[kind]}", {"security.protocol": kind, **listener_properties})
            for kind, listener_properties in settings.items()
        }


def make_certificates(directory: Path) -> None:
    """`authority.pem`, and `broker.pem` and `client.pem` (certificate and key) that it signed."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req", "-x509", *key, "-keyout", "authority.key", "-out", "authority.pem", "-days", "2", "-subj",
        "/CN=authority",
    )  # fmt: skip
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("broker", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial",
            "-days", "2", "-extfile", "names", "-out", f"{name}.crt",
        )  # fmt: skip
        together = (directory / f"{name}.crt").read_text() + (directory / f"{name}.key").read_text()
        (directory / f"{name}.pem").write_text(together)


def jaas(module: str) -> str:
    """Return the JAAS entry of the user."""
    return f'{_LOGIN}.{module}LoginModule required username="{USER}" password="{_JAAS_PASSWORD}";'


def let_in_by_scram(bootstrap_servers: str) -> None:
    """Make the user known."""
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
    upsertion = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result()
