"""Properties for kafka-python's clients, from those of librdkafka's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from group_coordinator.ground import kerberos, tokens

_NAMES = {
    "client.dns.lookup": "client_dns_lookup",
    "client.id": "client_id",
    "client.rack": "client_rack",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_TIMES = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "socket.timeout.ms": "request_timeout_ms",
}
_INLINE = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")
_CHECKS_HOST = "ssl.endpoint.identification.algorithm"


class PropertyError(ValueError):
    """A property that this client cannot have. The message is a sentence."""


def python_properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties for kafka-python. Raises PropertyError for a property that kafka-python cannot have,
    and without a ticket."""
    converted: dict[str, Any] = {}
    new_token = tokens.token_source(properties)
    if new_token is not None:
        converted["sasl_oauth_token_provider"] = _TokenProvider(new_token, tokens.extensions_of(properties))
    if properties.get("sasl.mechanism") == kerberos.MECHANISM:
        try:
            kerberos.log_in(properties)
        except kerberos.KerberosError as problem:
            raise PropertyError(str(problem)) from problem
    for name, value in properties.items():
        if name == "sasl.mechanism" and new_token is not None:
            converted["sasl_mechanism"] = "OAUTHBEARER"
        elif name in tokens.TOKEN_PROPERTIES or name in kerberos.OWN_PROPERTIES:
            continue  # they are those of the login
        elif name in _NAMES:
            converted[_NAMES[name]] = value
        elif name in _TIMES:
            converted[_TIMES[name]] = _milliseconds(name, value)
        elif name == "bootstrap.servers":
            converted["bootstrap_servers"] = value.split(",")
        elif name == _CHECKS_HOST:
            converted["ssl_check_hostname"] = value != "none"
        elif name in _INLINE:
            raise PropertyError(f"{name}: this reader takes certificates and keys from files alone (ssl....location).")
        else:
            raise PropertyError(f"{name}: the reader of the offsets topic has no such property.")
    return converted


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, new_token: Callable[[], tokens.Token], extensions: Mapping[str, str]) -> None:
        self._new_token, self._extensions = new_token, extensions

    def token(self) -> str:
        return self._new_token().text

    def extensions(self) -> Mapping[str, str]:
        return self._extensions


def _milliseconds(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise PropertyError(f"{name} is no number of milliseconds.") from None
