"""A rebalance's row has its cause in words, in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schemas.consumer_group_history import ConsumerMemberJoined, ConsumerMemberUpdated, GroupConverted
from schemas.history import (
    GroupCreated,
    HistoryRecord,
    MemberDropped,
    MemberExpired,
    MemberIdentity,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    PendingMemberRemoved,
)
from schemas.observed_history import CoordinatorStalled

LINKS_SHOWN_MAX = 10
ARROW = " -> "
_UUID = re.compile(r"[\w+/-]{22}")
"""As clients of both libraries write it."""


def chain_text(chain: Sequence[tuple[int, str]], end: str) -> str:
    """Return the chain in one line; of a very long one the beginning and how many more."""
    texts = [fact for _, fact in chain[:LINKS_SHOWN_MAX]]
    if len(chain) > LINKS_SHOWN_MAX:
        texts.append(f"... {len(chain) - LINKS_SHOWN_MAX} more")
    return ARROW.join([*texts, end])


def cause_text(record: HistoryRecord) -> str:
    """Return the cause that a record gives, in a few words."""
    kind = type(record)
    text = _TEXTS[kind](record) if kind in _TEXTS else str(kind.__struct_config__.tag).replace("_", " ")
    return text + (f" ({record.cause.reason})" if kind in _ASKED_FOR and record.cause.reason else "")


_TEXTS: Mapping[type[HistoryRecord], Callable[[Any], str]] = {
    GroupCreated: lambda _: "the group was created",
    MemberJoined: lambda record: f"{_who(record.member)} joined",
    ConsumerMemberJoined: lambda record: f"{_who(record.joined.member)} joined",
    ConsumerMemberUpdated: lambda record: f"{_who(record.updated.member)} asks for another {_listed(record.changed)}",
    MemberRejoined: lambda record: (
        f"{_who(record.member)} rejoined" + (f" with another {_listed(record.changed)}" if record.changed else "")
    ),
    MemberLeft: lambda record: f"{_who(record.member)} left",
    MemberExpired: lambda record: f"{_who(record.member)} was not heard for {silence(record)}",
    MemberDropped: lambda record: f"{_who(record.member)} was put out ({record.reason})",
    MemberReplaced: lambda record: (
        f"static member {record.member.group_instance_id} came back as {record.member.member_id}"
    ),
    PendingMemberRemoved: lambda record: f"{record.member_id} never joined ({record.reason})",
    GroupConverted: lambda record: f"the group went over to the {record.to_protocol} protocol",
    CoordinatorStalled: lambda record: (
        f"broker {record.broker_id} seems to have stood still for {record.until_ms - record.since_ms} ms"
    ),
}
_ASKED_FOR = (
    MemberJoined, ConsumerMemberJoined, ConsumerMemberUpdated, MemberRejoined, MemberLeft, PendingMemberRemoved,
)  # fmt: skip
"""What a client asked for may have its reason."""


def silence(record: MemberExpired) -> str:
    """Return for how long nothing was heard of a member."""
    return "its session timeout" if record.session_timeout_ms is None else f"{record.session_timeout_ms} ms"


def _who(member: MemberIdentity) -> str:
    """Return a member's id, with the client's where the id is a number alone, as in consumer groups."""
    is_number = _UUID.fullmatch(member.member_id) is not None
    return f"{member.client_id} ({member.member_id})" if is_number and member.client_id else member.member_id


def _listed(fields: tuple[str, ...]) -> str:
    return ", ".join(fields)
