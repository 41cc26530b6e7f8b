"""What led to a rebalance: the records of the turn in which it started, in words.

The core's chain of cause runs from record to record within one turn (one request, one timer). What happened in earlier
turns of a rebalance that was cut short is that rebalance's own story: `interrupts` names it.
"""

from __future__ import annotations

from schemas.history import (
    GroupCreated,
    History,
    MemberDropped,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    PendingMemberRemoved,
)

Link = tuple[int, str]
"""A record: its `seq`, and what it says."""

LINKS_SHOWN_MAX = 10
ARROW = " -> "


def extend_chain(chain: list[Link], record: History) -> list[Link]:
    """The chain with a record that may cause a rebalance at its end; a new one where it does not follow from the last."""
    fact = _fact(record)
    if fact is None:
        return chain
    link = (record.seq, fact)
    if chain and record.caused_by == chain[-1][0]:
        chain.append(link)
        return chain
    return [link]


def chain_before(chain: list[Link], caused_by: int | None) -> list[Link]:
    """The chain, if it is the one that ends with the record `caused_by`."""
    return chain if chain and chain[-1][0] == caused_by else []


def chain_text(chain: list[Link], end: str) -> str:
    """The chain in one line; of a very long one the beginning and how many more."""
    shown = [fact for _, fact in chain[:LINKS_SHOWN_MAX]]
    if len(chain) > LINKS_SHOWN_MAX:
        shown.append(f"... {len(chain) - LINKS_SHOWN_MAX} more")
    return ARROW.join([*shown, end])


def _fact(record: History) -> str | None:
    """What a record says, in a few words; None: it causes no rebalance."""
    match record:
        case GroupCreated():
            return "the group was created"
        case MemberJoined():
            return f"{record.member.member_id} joined{_said(record)}"
        case MemberRejoined():
            changed = f" with another {', '.join(record.changed)}" if record.changed else ""
            return f"{record.member.member_id} rejoined{changed}{_said(record)}"
        case MemberLeft():
            return f"{record.member.member_id} left{_said(record)}"
        case MemberExpired():
            return f"{record.member.member_id} was not heard for {record.session_timeout_ms} ms"
        case MemberDropped():
            return f"{record.member.member_id} was put out ({record.reason})"
        case MemberReplaced():
            return f"static member {record.member.group_instance_id} came back as {record.member.member_id}"
        case PendingMemberRemoved():
            return f"{record.member_id} never joined ({record.reason}){_said(record)}"
        case _:
            return None


def _said(record: History) -> str:
    return f" ({record.cause.reason})" if record.cause.reason else ""
