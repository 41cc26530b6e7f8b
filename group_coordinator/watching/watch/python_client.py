"""Properties for kafka-python's clients, from those of librdkafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = {
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
_INLINE = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")
_CHECKS_HOST = "ssl.endpoint.identification.algorithm"


class PropertyError(ValueError):
    """A property that this client cannot have. The message is a sentence."""


def python_properties(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties for kafka-python. Properties of times and lookups keep its defaults. Raises PropertyError
    for a property that kafka-python cannot have."""
    inline = next((name for name in _INLINE if name in properties), None)
    if inline is not None:
        raise PropertyError(f"{inline}: this reader takes certificates and keys from files alone (ssl....location).")
    converted: dict[str, Any] = {_NAMES[name]: value for name, value in properties.items() if name in _NAMES}
    converted["bootstrap_servers"] = properties["bootstrap.servers"].split(",")
    if _CHECKS_HOST in properties:
        converted["ssl_check_hostname"] = properties[_CHECKS_HOST] != "none"
    return converted
