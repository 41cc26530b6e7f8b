"""One set of client properties for Java's client and for librdkafka."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from group_coordinator.ground.settings.kafka_properties import (
    PROPERTIES,
    librdkafka_properties,
    properties_problems,
    spark_options,
)

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": 'org.x.ScramLoginModule required username="alice" password="a \\"b\\" = c";',
    "ssl.endpoint.identification.algorithm": "",
}
TLS = {
    "security.protocol": "SSL",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/ca.pem",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/client.pem",
    "ssl.key.password": "secret",
}


def test_spark_takes_them_as_they_are() -> None:
    assert spark_options("b:1", {"security.protocol": "SSL"}) == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SSL",
    }


def test_a_password_login_is_translated() -> None:
    assert properties_problems(SCRAM) == []
    translated = librdkafka_properties("b:1", SCRAM)
    assert translated == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'a "b" = c',
        "ssl.endpoint.identification.algorithm": "none",
    }
    Producer(translated)  # librdkafka knows them all


def test_certificates_are_translated() -> None:
    assert properties_problems(TLS) == []
    assert librdkafka_properties("b:1", TLS) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/client.pem",
        "ssl.key.location": "/client.pem",
        "ssl.key.password": "secret",
    }


def test_no_value_of_a_property_is_told() -> None:
    """Whatever its name is: somebody may have put a password there."""
    values = {name: f"hush-{number}" for number, name in enumerate(sorted(PROPERTIES))}
    problems = properties_problems(values)
    assert problems
    assert not [problem for problem in problems if "hush" in problem]


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"acks": "0"}, "acks is not a property"),
        ({"ssl.truststore.location": "/a.jks"}, "convert it to PEM"),
        ({"sasl.jaas.config": "org.x.Krb5LoginModule required;"}, "must have username"),
    ],
)
def test_what_only_one_client_understands_is_told(properties: dict[str, str], sentence: str) -> None:
    (problem,) = properties_problems(properties)
    assert sentence in problem
