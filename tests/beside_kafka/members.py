"""The members of a history, as their clients know them. Both protocols meet in the same groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]


@dataclass(kw_only=True, eq=False)
class ConsumerMember:
    """A member of the consumer protocol."""

    group_id: str
    member_id: str
    client_id: str
    instance_id: str | None = None
    epoch: int = 0
    is_joined: bool = False
    owned: dict[str, set[int]] = field(default_factory=dict)
    """Topic id -> partitions."""
    told: dict[str, set[int]] | None = None
    """The assignment that it was last told."""
    must_report: bool = False
    was_classic: bool = False
    """Its id is that of a classic member."""
    came: bool = False

    def forget(self) -> None:
        self.is_joined, self.owned = False, {}


@dataclass(kw_only=True, eq=False)
class ClassicMember:
    """A member of the classic protocol."""

    number: int
    group_id: str
    client_id: str
    join_version: int
    topics: list[str]
    protocols: list[str]
    subscription_version: int
    member_id: str = ""
    instance_id: str | None = None
    generation_id: int = -1
    state: Literal["out", "joining", "joined", "stable"] = "out"
    owned: list[tuple[str, int]] = field(default_factory=list)
    protocol: str | None = None
    led: list[str] = field(default_factory=list)
    """The ids of members that it was told as leader."""

    def forget(self) -> None:
        self.member_id, self.owned = "", []


@dataclass
class Members:
    """Everybody who has come so far."""

    consumers: list[ConsumerMember] = field(default_factory=list)
    classics: list[ClassicMember] = field(default_factory=list)
