"""Tokens for SASL/OAUTHBEARER: from an OIDC server (KIP-768), from a file, or signed for Amazon MSK.

Both libraries that speak to Kafka from Python ask here, so a login that fails is told in the same words.
"""

from __future__ import annotations

import binascii
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from group_coordinator.ground.errors import ExpectedError

ENDPOINT, SCOPE = "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope"
CLIENT_ID, CLIENT_SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
EXTENSIONS = "sasl.oauthbearer.extensions"
TOKEN_PROPERTIES = frozenset({ENDPOINT, SCOPE, CLIENT_ID, CLIENT_SECRET, EXTENSIONS})
"""What is used here, and no library gets. They have librdkafka's names."""
MSK_IAM = "AWS_MSK_IAM"
_FILE = "file:"
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_TIMEOUT_S = 10.0
_LIFETIME_S = 300.0
"""Of a token that does not say how long it lives."""


class TokenError(ExpectedError):
    """There is no token. The message is a sentence without a secret."""


class Token(NamedTuple):
    """What is shown to a broker."""

    text: str
    expires_at_s: float
    """Seconds since 1970."""


class _Answer(msgspec.Struct):
    """What a token endpoint answers (RFC 6749, 5.1 and 5.2)."""

    access_token: str = ""
    expires_in: float = _LIFETIME_S
    error: str = ""


def token_source(properties: Mapping[str, str]) -> Callable[[], Token] | None:
    """Return what gets a new token, and raises TokenError; None where clients log in otherwise. `properties` are those
    of `librdkafka_properties`."""
    mechanism, endpoint = properties.get("sasl.mechanism"), properties.get(ENDPOINT, "")
    if mechanism == MSK_IAM:
        return lambda: _signed_for_msk(properties["bootstrap.servers"])
    if mechanism != "OAUTHBEARER":
        return None
    if endpoint.startswith(_FILE):
        return lambda: _from_file(Path(urllib.parse.unquote(urllib.parse.urlsplit(endpoint).path)))
    return lambda: _from_endpoint(endpoint, properties)


def extensions_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the SASL extensions that go with each token (KIP-342)."""
    return dict(pair.split("=", 1) for pair in properties.get(EXTENSIONS, "").split(",") if pair)


def _from_endpoint(endpoint: str, properties: Mapping[str, str]) -> Token:
    client_id, secret = properties.get(CLIENT_ID, ""), properties.get(CLIENT_SECRET, "")
    form = {"grant_type": "client_credentials"} | ({"scope": properties[SCOPE]} if SCOPE in properties else {})
    login = b64encode(f"{urllib.parse.quote(client_id)}:{urllib.parse.quote(secret)}".encode()).decode()
    request = urllib.request.Request(
        endpoint,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    where = f"The token endpoint {endpoint}"
    try:
        trusted = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=trusted) as response:
            answer = msgspec.json.decode(response.read(), type=_Answer)
    except urllib.error.HTTPError as refusal:
        said = f"{refusal.code} {_error_in(refusal.read())}".rstrip()
        raise TokenError(
            f"{where} refuses the client '{client_id}' ({said}): check its id and its secret in sasl.jaas.config."
        ) from None
    except (OSError, msgspec.DecodeError) as problem:
        raise TokenError(f"{where} gives no token: {problem}.") from None
    if not answer.access_token:
        raise TokenError(f"{where} gives no token: its answer has no access_token.")
    return Token(answer.access_token, time.time() + answer.expires_in)


def _error_in(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Answer).error
    except msgspec.DecodeError:
        return ""


def _from_file(path: Path) -> Token:
    """Read it anew each time: whoever writes the file replaces it before it expires."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise TokenError(f"The file of the token cannot be read: {problem}.") from None
    if not text:
        raise TokenError(f"The file of the token, {path}, is empty.")
    return Token(text, _expiry_in(text) or time.time() + _LIFETIME_S)


class _Claims(msgspec.Struct):
    exp: float | None = None


def _expiry_in(token: str) -> float | None:
    """Return when a JSON Web Token expires; None where it does not say, or is another kind of token."""
    try:
        payload = token.split(".")[1]
        return msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims).exp
    except (IndexError, binascii.Error, msgspec.DecodeError):
        return None


def _signed_for_msk(bootstrap_servers: str) -> Token:
    """Sign with the credentials that AWS's own tools would take, for the region of the brokers."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError:
        raise TokenError(
            f"{MSK_IAM} needs AWS's signer: install it, pip install aws-msk-iam-sasl-signer-python."
        ) from None
    named = _REGION.search(bootstrap_servers)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or (named[1] if named else "")
    if not region:
        raise TokenError("The region of the MSK cluster is not known: set AWS_REGION.")
    try:
        text, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except Exception as problem:  # what boto raises where there are no credentials has no class in common
        raise TokenError(f"AWS gives no credentials to sign with: {str(problem).rstrip('.')}.") from None
    return Token(text, expires_at_ms / 1_000)
