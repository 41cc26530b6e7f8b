"""What a page is made from where it shows another coordinator's groups: which cluster, which sources, what is missing.
"""

from __future__ import annotations

from msgspec import Struct

from schemas.history_parts import EvidenceSource


class WatchedSource(Struct, frozen=True, kw_only=True):
    """One source. Times are milliseconds since 1970."""

    kind: EvidenceSource
    name: str
    """In a few words, as `log of broker 1`."""
    detail: str = ""
    """How much was read of it, and where it lies."""
    to_ms: int | None = None
    """Up to when it tells; None: it has told nothing yet."""
    last_ms: int | None = None
    """When its last record or line was written."""
    problem: str = ""
    """Why it does not tell what it should."""


class Watched(Struct, frozen=True, kw_only=True):
    """One cluster, and all that is known of it."""

    cluster: str
    """As it was named to us."""
    detail: str = ""
    """Its brokers and its id, as far as they are known."""
    sources: tuple[WatchedSource, ...]
    not_known: tuple[str, ...] = ()
    """What cannot be known, because a source is missing, in sentences."""

    @property
    def has_requests(self) -> bool:
        """Whether what clients asked is known."""
        return any(source.kind == "request_log" and not source.problem for source in self.sources)
