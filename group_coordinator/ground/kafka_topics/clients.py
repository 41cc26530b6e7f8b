"""Every client of librdkafka that is no user's: what all have in common, and what each is given besides."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.ground import kerberos, tokens

_OF_ALL = {"log_level": 0, "reconnect.backoff.max.ms": 1_000}
"""What fails is raised or told once, by whoever uses the client; librdkafka tells it at each attempt to connect."""
_LOGIN_TIMEOUT_S, _LOGIN_POLL_S = 5.0, 0.2
_REFUSALS = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED)
_WITHOUT_KERBEROS = (
    "This confluent-kafka was built without Kerberos, as all wheels of it are: install librdkafka with its development "
    "files, built with libsasl2, and then pip install --force-reinstall --no-binary confluent-kafka confluent-kafka."
)
_AFTER = re.compile(r"^[^ ]+/\S+: | \(after \d+ms.*$", re.DOTALL)
"""What librdkafka puts around the words."""


class NamedAdminClient(AdminClient):
    """One that can say whom it asks."""

    client_properties: Mapping[str, Any]

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses that it was given."""
        return str(self.client_properties["bootstrap.servers"])


def new_admin_client(client_properties: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> NamedAdminClient:
    """Return an admin client. `client_properties` are librdkafka's, and those of its `own` come before them. Whoever
    waits for an answer must hold it."""
    client = NamedAdminClient(_settings(client_properties, own or {}))
    client.client_properties = client_properties
    return client


def new_producer(client_properties: Mapping[str, Any], own: Mapping[str, Any]) -> Producer:
    """Return a producer. `client_properties` are librdkafka's, and those of its `own` come before them."""
    return Producer(_settings(client_properties, own))


def new_consumer(client_properties: Mapping[str, Any], own: Mapping[str, Any]) -> Consumer:
    """Return a consumer. `client_properties` are librdkafka's, and those of its `own` come before them."""
    return Consumer(_settings(client_properties, own))


def _settings(client_properties: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What a client of librdkafka is made of: a token, where one is shown, comes from `ground.tokens`."""
    settings = {**_OF_ALL, **client_properties, **own}
    new_token = tokens.token_source(client_properties)
    if client_properties.get("sasl.mechanism") == kerberos.MECHANISM:
        return _by_kerberos(settings)
    if new_token is None:
        return settings
    shown = _ShownToken(new_token, tokens.extensions_of(client_properties))
    without_login = {name: value for name, value in settings.items() if name not in tokens.TOKEN_PROPERTIES}
    return {**without_login, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": shown}


def _by_kerberos(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Log in, so that librdkafka need not run kinit. Raises KafkaException."""
    try:
        AdminClient({**_OF_ALL, "bootstrap.servers": "localhost", "builtin.features": "sasl_gssapi"})
    except KafkaException as problem:
        raise _refused(_WITHOUT_KERBEROS) from problem
    try:
        kerberos.log_in(settings)
    except kerberos.KerberosError as problem:
        raise _refused(str(problem)) from problem
    by_libraries = {name: value for name, value in settings.items() if name not in kerberos.OWN_PROPERTIES}
    return {**by_libraries, "sasl.kerberos.min.time.before.relogin": 0}


def _refused(sentence: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._AUTHENTICATION, sentence))


class _ShownToken:
    """Gives a client its token, and the next one before that expires. Without a first token there is no client: it
    raises KafkaException."""

    def __init__(self, new_token: Callable[[], tokens.Token], extensions: dict[str, str]) -> None:
        self._new_token, self._extensions = new_token, extensions
        try:
            self._first: tokens.Token | None = new_token()
        except tokens.TokenError as problem:
            raise _refused(str(problem)) from problem

    def __call__(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        token, self._first = self._first or self._new_token(), None
        return token.text, token.expires_at_s, "", self._extensions


def login_problem(client_properties: Mapping[str, Any]) -> str | None:
    """Connect once more, and return what a broker has against this client's login or certificate, or why there is no
    token; None where it has nothing.

    librdkafka tries again and again, and so does kafka-python: their errors say that the time is over, and not why.
    """
    if client_properties.get("security.protocol", "PLAINTEXT") == "PLAINTEXT":
        return None
    told: list[KafkaError] = []
    try:
        client = new_admin_client(client_properties, {"error_cb": told.append})
        give_up_s = time.monotonic() + _LOGIN_TIMEOUT_S
        while not _refusals(told) and time.monotonic() < give_up_s and not _lets_in(client):
            client.poll(_LOGIN_POLL_S)
    except KafkaException as problem:
        return str(problem.args[0].str())
    refusals = _refusals(told)
    if not refusals:
        return None
    where = f"Kafka at {client_properties['bootstrap.servers']}"
    if refusals[-1].code() == KafkaError._SSL:
        words = _AFTER.sub("", refusals[-1].str())
        return f"{where}: TLS fails ({words}). Check the ssl.truststore and ssl.keystore properties."
    if client_properties.get("sasl.mechanism") == kerberos.MECHANISM:
        words = _AFTER.sub("", refusals[-1].str())
        return f"{where} is not logged in to by Kerberos ({words}). Check sasl.kerberos.service.name and host names."
    user = client_properties.get("sasl.username") or client_properties.get(tokens.CLIENT_ID)
    who = f" of '{user}'" if user else ""
    return (
        f"{where} refuses the login{who} by {client_properties.get('sasl.mechanism')}: the name or the secret is "
        "wrong, or this mechanism is not enabled there."
    )


def _refusals(told: Iterable[KafkaError]) -> list[KafkaError]:
    return [error for error in told if error.code() in _REFUSALS]


def _lets_in(client: AdminClient) -> bool:
    try:
        client.list_topics(timeout=_LOGIN_POLL_S)
    except KafkaException:
        return False
    return True
