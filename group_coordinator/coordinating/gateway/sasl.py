"""The gateway reads along while client and broker speak SASL, and learns the client's principal.

Passwords go by and are not kept. Source: KIP-43, KIP-152, KIP-368, RFC 4616 (PLAIN), RFC 5802 (SCRAM).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from group_coordinator.coordinating.gateway.codec import body_start, response_body_start
from group_coordinator.coordinating.gateway.frames import RequestHead
from group_coordinator.coordinating.gateway.versions import OtherApi
from schemas.kafka.codec import decode
from schemas.wire import DecodeError

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's name for a client that did not authenticate."""

_ROUNDS = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""How many SaslAuthenticate requests the broker answers without an error before the client is authenticated."""
_NAME_CHARACTERS_MAX = 1_000
"""It is kept for as long as the connection lives."""


class SaslSession:
    """One connection's authentication. A client may go through it again to prolong its session (KIP-368).

    An answer is that to the request before it: nothing else must be read from the client while `awaits_answer`.
    """

    __slots__ = (
        "_claimed_user",
        "_ends_s",
        "_mechanism",
        "_now_s",
        "_rounds_left",
        "awaits_answer",
        "has_begun",
        "principal",
    )

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.principal: str | None = None
        """Whom the broker has authenticated; None: nobody, for now."""
        self.awaits_answer = False
        self.has_begun = False
        """Whether the client has ever been authenticated."""
        self._now_s = now_s
        self._mechanism: str | None = None
        """What the client asks for, or has been granted."""
        self._rounds_left = 0
        """Of a handshake that the broker has agreed to."""
        self._claimed_user: str | None = None
        self._ends_s: float | None = None
        """When the session ends by the broker's word; None: it has no end."""

    @property
    def objection(self) -> str | None:
        """The reason why the client is not served now; None if it is."""
        if self.principal is None:
            return "the client has not authenticated"
        if self._ends_s is not None and self._now_s() >= self._ends_s:
            return "the client's session has ended"
        return None

    def asked(self, head: RequestHead, payload: bytes) -> None:
        """Take a SASL request of the client. Raises DecodeError."""
        self.awaits_answer = True
        if head.api_key == OtherApi.SASL_HANDSHAKE:
            self._forget()
            self._mechanism = _decoded("SaslHandshakeRequest", head, payload)["mechanism"]
        elif self._rounds_left and self._claimed_user is None:
            self._claimed_user = _user(
                self._mechanism, _decoded("SaslAuthenticateRequest", head, payload)["auth_bytes"]
            )

    def answered(self, head: RequestHead, payload: bytes) -> None:
        """Take the broker's answer to a SASL request. Raises DecodeError."""
        self.awaits_answer = False
        is_handshake = head.api_key == OtherApi.SASL_HANDSHAKE
        message = "SaslHandshakeResponse" if is_handshake else "SaslAuthenticateResponse"
        start = response_body_start(message, head.api_version)
        answer = decode(message, head.api_version, payload, start)
        if answer["error_code"]:
            self._forget()
        elif is_handshake:
            # An unknown mechanism is never believed to have ended well.
            self._rounds_left = _ROUNDS.get(self._mechanism or "", 0)
        else:
            self._agreed(answer.get("session_lifetime_ms", 0))

    def broker_lost(self) -> None:
        """Forget an authentication that was begun: it cannot end with another connection to a broker."""
        if self.principal is None:
            self._forget()

    def _agreed(self, lifetime_ms: int) -> None:
        """The broker has no objection to a token."""
        if self._claimed_user is None or not self._rounds_left:
            self._forget()
            return
        self._rounds_left -= 1
        if not self._rounds_left:
            self.principal = f"User:{self._claimed_user}"
            self.has_begun = True
            self._ends_s = self._now_s() + lifetime_ms / 1_000 if lifetime_ms > 0 else None

    def _forget(self) -> None:
        self.principal = self._mechanism = self._claimed_user = self._ends_s = None
        self._rounds_left = 0


def _decoded(message: str, head: RequestHead, payload: bytes) -> dict[str, Any]:
    return decode(message, head.api_version, payload, body_start(message, head, payload))


def _user(mechanism: str | None, token: bytes) -> str | None:
    """The name in a client's first token; None where it cannot be read, or is longer than a name is."""
    name = _name_in(mechanism, token)
    return None if name is None or len(name) > _NAME_CHARACTERS_MAX else name


def _name_in(mechanism: str | None, token: bytes) -> str | None:
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
    name = next((attribute[2:] for attribute in attributes if attribute.startswith("n=")), None)
    return None if not name else name.replace("=2C", ",").replace("=3D", "=")
