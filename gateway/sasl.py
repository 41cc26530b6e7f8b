"""Whether a broker has authenticated a client, and as whom: read along as both speak SASL through the gateway.

Passwords go by and are not kept. Source: KIP-43, KIP-152, RFC 4616 (PLAIN), RFC 5802 (SCRAM).
"""

from __future__ import annotations

from gateway import codec
from gateway.frames import RequestHead
from schemas.wire import DecodeError

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's name for a client that did not authenticate."""

_ROUNDS = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""How many SaslAuthenticate requests the broker answers without an error before the client is authenticated."""


class SaslSession:
    """One connection's authentication. A client may go through it again to prolong its session (KIP-368)."""

    __slots__ = ("_claimed", "_mechanism", "_rounds_left", "principal")

    def __init__(self) -> None:
        self.principal: str | None = None
        """Whom the broker has authenticated; None: nobody, for now."""
        self._mechanism: str | None = None
        self._rounds_left = 0
        self._claimed: str | None = None

    def handshake(self, head: RequestHead, payload: bytes) -> None:
        """The client chooses a mechanism. Raises DecodeError."""
        message = "SaslHandshakeRequest"
        self.principal = None
        self._mechanism = codec.decode(message, head.api_version, payload, codec.body_start(message, head, payload))["mechanism"]
        self._claimed = None
        # An unknown mechanism is never believed to have ended well.
        self._rounds_left = _ROUNDS.get(self._mechanism or "", -1)

    def token(self, head: RequestHead, payload: bytes) -> None:
        """The client says who it is. Raises DecodeError."""
        message = "SaslAuthenticateRequest"
        token = codec.decode(message, head.api_version, payload, codec.body_start(message, head, payload))["auth_bytes"]
        if self._claimed is None:
            self._claimed = _user(self._mechanism, token)

    def verdict(self, version: int, payload: bytes) -> None:
        """The broker's answer to a token. Raises DecodeError."""
        message = "SaslAuthenticateResponse"
        answer = codec.decode(message, version, payload, codec.response_body_start(message, version))
        if answer["error_code"] or self._claimed is None:
            self._rounds_left = -1
            return
        self._rounds_left -= 1
        if self._rounds_left == 0:
            self.principal = f"User:{self._claimed}"


def _user(mechanism: str | None, token: bytes) -> str | None:
    """The name in a client's first token; None where it cannot be read."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        raise DecodeError("a SASL token that is no UTF-8", 0) from None
    if mechanism == "PLAIN":
        parts = text.split("\x00")
        return parts[1] if len(parts) == 3 and parts[1] else None
    # SCRAM: gs2 header, then the attributes; `tokenauth` is a delegation token, whose owner is not told.
    attributes = text.split(",")
    if "tokenauth=true" in attributes:
        return None
    name = next((each[2:] for each in attributes if each.startswith("n=")), None)
    return None if not name else name.replace("=2C", ",").replace("=3D", "=")
