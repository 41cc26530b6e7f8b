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

OAUTHBEARER takes a token from an OIDC server, or from a file (`file:///run/secrets/token`); AWS_MSK_IAM signs one:

    sasl.mechanism = OAUTHBEARER
    sasl.oauthbearer.token.endpoint.url = https://login.example.com/oauth2/token
    sasl.jaas.config = ...oauthbearer.OAuthBearerLoginModule required clientId="c" clientSecret="s" scope="kafka";

GSSAPI (Kerberos) takes a keytab, or with `useTicketCache=true` alone the ticket that kinit has got:

    sasl.mechanism = GSSAPI
    sasl.kerberos.service.name = kafka
    sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="u@R";
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from functools import cache

from group_coordinator.ground import kerberos, tokens
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
    "sasl.oauthbearer.token.endpoint.url": (tokens.ENDPOINT,),
    "sasl.oauthbearer.scope": (tokens.SCOPE,),
    "sasl.oauthbearer.client.credentials.client.id": (tokens.CLIENT_ID,),
    "sasl.oauthbearer.client.credentials.client.secret": (tokens.CLIENT_SECRET,),
}
_SERVICE = "sasl.kerberos.service.name"
_OF_JAAS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": tokens.CLIENT_ID,
    "clientSecret": tokens.CLIENT_SECRET,
    "scope": tokens.SCOPE,
}
"""Option of a JAAS entry -> property. Options `extension_NAME` become the extensions of a token."""
_OF_KRB5 = {
    "keyTab": kerberos.KEYTAB,
    "principal": kerberos.PRINCIPAL,
    "ticketCache": kerberos.TICKET_CACHE,
    "serviceName": _SERVICE,
}
_KRB5_SWITCHES = frozenset({
    "debug", "doNotPrompt", "isInitiator", "refreshKrb5Config", "renewTGT", "storeKey", "useKeyTab", "useTicketCache",
})  # fmt: skip
"""What Java's Krb5LoginModule can be told besides. Where there is a keytab it is used."""
_KNOWN_TO_KRB5 = frozenset({*_OF_KRB5, *_KRB5_SWITCHES})
_OPTIONS = {**_OF_JAAS, **_OF_KRB5}
_EXTENSION = "extension_"
_LOGIN = frozenset({"username", "password"})
_HANDLERS = {
    "sasl.login.callback.handler.class": "OAuthBearerLoginCallbackHandler",
    "sasl.client.callback.handler.class": "IAMClientCallbackHandler",
}
"""Classes of Java's clients; ours do what these do, and no other."""
_STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
_SPARK_ALONE = (
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "ssl.enabled.protocols", "ssl.protocol",
)  # fmt: skip
PROPERTIES = frozenset({
    *_AS_THEY_ARE, *_RENAMED, *_STORE_TYPES, *_SPARK_ALONE, *_HANDLERS, "sasl.jaas.config",
    "ssl.endpoint.identification.algorithm",
})  # fmt: skip
"""The names that are known, in Java's spelling."""
_log = logging.getLogger(__name__)
_JAAS_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


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
            translated |= _of_jaas(_jaas_options(value))
        elif name == "ssl.endpoint.identification.algorithm":
            translated[name] = value or "none"
        elif name in _SPARK_ALONE:
            _tell_that_spark_alone_has(name)
        elif name not in _STORE_TYPES and name not in _HANDLERS:
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
    return [*problems, *_login_problems(properties)]


def _login_problems(properties: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence for each thing that a login misses, or that cannot be done."""
    for name, known in _HANDLERS.items():
        if not properties.get(name, known).endswith(known):
            yield f"kafka: {name} can be {known} alone: our clients that are not Java's have no other."
    mechanism, options = properties.get("sasl.mechanism"), _jaas_options(properties.get("sasl.jaas.config", ""))
    translated = {*_of_jaas(options), *(new for name in properties for new in _RENAMED.get(name, ()))}
    understood = _KNOWN_TO_KRB5 if mechanism == kerberos.MECHANISM else _OF_JAAS
    unknown = [name for name in options if name not in understood and not name.startswith(_EXTENSION)]
    if unknown:
        yield (
            f"kafka: sasl.jaas.config has {only_a_name(unknown[0])}, which our clients do not know."
            f"{did_you_mean(unknown[0], understood)}"
        )
    elif mechanism == kerberos.MECHANISM:
        yield from _kerberos_problems(properties, options)
    elif mechanism == "OAUTHBEARER":
        if tokens.ENDPOINT not in translated:
            yield "kafka: OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, an OIDC server or file:///PATH."
        elif not properties[tokens.ENDPOINT].startswith("file:") and not {
            tokens.CLIENT_ID, tokens.CLIENT_SECRET,
        } <= translated:  # fmt: skip
            yield 'kafka: sasl.jaas.config must have clientId="..." and clientSecret="...".'
    elif translated & tokens.TOKEN_PROPERTIES:
        yield "kafka: a token is shown where sasl.mechanism is OAUTHBEARER alone."
    elif mechanism != tokens.MSK_IAM and "sasl.jaas.config" in properties and not options.keys() >= _LOGIN:
        yield 'kafka: sasl.jaas.config must have username="..." and password="...".'


def _kerberos_problems(properties: Mapping[str, str], options: Mapping[str, str]) -> Iterator[str]:
    uses_keytab, uses_cache = (options.get(name) == "true" for name in ("useKeyTab", "useTicketCache"))
    if uses_keytab != ("keyTab" in options) or uses_keytab > ("principal" in options) or not uses_keytab | uses_cache:
        yield (
            'kafka: sasl.jaas.config must have useKeyTab=true keyTab="..." principal="...", or useTicketCache=true, '
            "after Krb5LoginModule required."
        )
    if _SERVICE not in properties and "serviceName" not in options:
        yield f"kafka: GSSAPI needs {_SERVICE}: the brokers' principal before its slash, mostly kafka."


def _of_jaas(options: Mapping[str, str]) -> dict[str, str]:
    extensions = ",".join(
        f"{name.removeprefix(_EXTENSION)}={text}" for name, text in options.items() if name.startswith(_EXTENSION)
    )
    known = {_OPTIONS[name]: text for name, text in options.items() if name in _OPTIONS}
    return known | ({tokens.EXTENSIONS: extensions} if extensions else {})


def _jaas_options(jaas: str) -> dict[str, str]:
    return {
        name: bare or re.sub(r"\\(.)", r"\1", double or single)
        for name, double, single, bare in _JAAS_OPTION.findall(jaas)
    }
