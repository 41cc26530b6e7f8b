"""One set of Kafka client properties for both kinds of client: Spark's are Java's, ours are librdkafka's.

They are given with Java's names, as in a `client.properties` file, with PEM files for TLS, which both read:

    security.protocol = SASL_SSL
    sasl.mechanism = SCRAM-SHA-512
    sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";
    ssl.truststore.type = PEM
    ssl.truststore.location = /etc/kafka/ca.pem
    ssl.keystore.type = PEM
    ssl.keystore.location = /etc/kafka/client.pem       # certificate chain and key in one file
    ssl.key.password = secret
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cache

from group_coordinator.ground.settings.loading import did_you_mean, only_a_name

_AS_THEY_ARE = (
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "security.protocol",
    "ssl.key.password",
)
"""Properties that both clients call the same."""
_RENAMED = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
    "request.timeout.ms": ("socket.timeout.ms",),
}
_STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
_SPARK_ALONE = ("ssl.protocol", "ssl.enabled.protocols")
PROPERTIES = frozenset({
    *_AS_THEY_ARE, *_RENAMED, *_STORE_TYPES, *_SPARK_ALONE, "sasl.jaas.config", "ssl.endpoint.identification.algorithm",
})  # fmt: skip
"""The names that are known, in Java's spelling."""
_log = logging.getLogger(__name__)
_JAAS_OPTION = re.compile(r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""")


def spark_options(bootstrap_servers: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink."""
    return {
        **{f"kafka.{name}": value for name, value in properties.items()},
        "kafka.bootstrap.servers": bootstrap_servers,
    }


def librdkafka_properties(bootstrap_servers: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of confluent_kafka's clients. `properties_problems` must have returned none. A property
    that they cannot have is told in the log, once."""
    translated: dict[str, str] = {}
    for name, value in properties.items():
        if name == "sasl.jaas.config":
            translated |= {f"sasl.{option}": text for option, text in _jaas_options(value).items()}
        elif name == "ssl.endpoint.identification.algorithm":
            translated[name] = value or "none"
        elif name in _SPARK_ALONE:
            _tell_that_spark_alone_has(name)
        elif name not in _STORE_TYPES:
            translated |= dict.fromkeys(_RENAMED.get(name, (name,)), value)
    return {**translated, "bootstrap.servers": bootstrap_servers}


@cache
def _tell_that_spark_alone_has(name: str) -> None:
    _log.warning("kafka: %s counts for Spark's clients alone: librdkafka has no such property.", name)


def properties_problems(properties: Mapping[str, str]) -> list[str]:
    """Return one sentence for each mistake in the properties."""
    problems = [
        f"kafka: {only_a_name(name)} is not a property that both of our Kafka clients understand."
        + (did_you_mean(name, PROPERTIES) or f" Known are {', '.join(sorted(PROPERTIES))}.")
        for name in properties
        if name not in PROPERTIES
    ]
    for store in ("truststore", "keystore"):
        is_pem = properties.get(f"ssl.{store}.type", "JKS").upper() == "PEM"
        if f"ssl.{store}.location" in properties and not is_pem:
            problems.append(
                f"kafka: ssl.{store}.location is no PEM file by its ssl.{store}.type (JKS where none is set), and "
                f"librdkafka reads no other: convert it to PEM and set ssl.{store}.type = PEM."
            )
    jaas = properties.get("sasl.jaas.config")
    if jaas is not None and _jaas_options(jaas).keys() != {"username", "password"}:
        problems.append('kafka: sasl.jaas.config must have username="..." and password="...".')
    return problems


def _jaas_options(jaas: str) -> dict[str, str]:
    return {
        name: re.sub(r"\\(.)", r"\1", double or single) for name, double, single in _JAAS_OPTION.findall(jaas)
    }
