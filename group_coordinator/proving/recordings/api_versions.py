"""The version of a broker, by its answers to ApiVersions."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

API_VERSIONS_KEY = 18
_FETCH, _METADATA, _LIST_OFFSETS, _DESCRIBE_LOG_DIRS, _TXN_OFFSET_COMMIT = 1, 3, 2, 35, 28
_JOIN_GROUP = 11
"""Only brokers serve it. The listener of a controller tells fewer APIs, and so nothing of this table."""
_SINCE = (
    ("4.4", _TXN_OFFSET_COMMIT, 6), ("4.3", _DESCRIBE_LOG_DIRS, 5), ("4.2", _LIST_OFFSETS, 11), ("4.1", _FETCH, 18),
    ("4.0", _METADATA, 13), ("3.9", _FETCH, 12),
)  # fmt: skip
"""The first API of each version that a broker answers to ApiVersions, and its highest version from then on."""


class _Api(Struct):
    apiKey: int
    maxVersion: int


class _ApiVersions(Struct):
    apiKeys: list[_Api] = []


_decode = msgspec.json.Decoder(_ApiVersions).decode


def version_of_apis(answer: Raw | bytes) -> str | None:
    """Return the version of a broker that gives this answer to ApiVersions; None if it does not say, or no broker
    gives it."""
    try:
        highest = {api.apiKey: api.maxVersion for api in _decode(answer).apiKeys}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if _JOIN_GROUP not in highest:
        return None
    return next((version for version, key, least in _SINCE if highest.get(key, -1) >= least), None)
