"""TLS on both sides: ended here for clients, begun anew towards brokers, by librdkafka's names for its settings."""

from __future__ import annotations

import ssl

from group_coordinator.coordinating.gateway.config import GatewayError, ProxySettings


def client_side(config: ProxySettings) -> ssl.SSLContext | None:
    """Return the TLS context for clients; None is plain text. Raises GatewayError."""
    if config.tls_certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(config.tls_certificate, config.tls_key)
    except (OSError, ssl.SSLError) as problem:
        raise GatewayError(f"The TLS certificate {config.tls_certificate} cannot be used: {problem}.") from problem
    return context


def broker_side(config: ProxySettings) -> ssl.SSLContext | None:
    """Return the TLS context for brokers; None is plain text. Raises GatewayError."""
    if not config.brokers_speak_tls:
        return None
    properties = config.broker_client_properties
    try:
        context = ssl.create_default_context(
            cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
        )
        if "ssl.certificate.location" in properties:
            context.load_cert_chain(
                properties["ssl.certificate.location"],
                properties.get("ssl.key.location"),
                properties.get("ssl.key.password"),
            )
    except (OSError, ssl.SSLError) as problem:
        raise GatewayError(f"The TLS settings for the brokers cannot be used: {problem}.") from problem
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
