"""What members of recorded clusters said of what they own, in spans of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tests.watching.observed.recorded import Span, truth

Spans = dict[tuple[str, str, str], list[Span]]
"""Group, client id and partition -> when it was owned."""
_TOUCHED = ("kill", "freeze", "hang", "pause", "leave", "thaw")
"""After these nobody knows what a member takes to be its own, until it says so."""


def said_ownership(name: str, end_ms: int) -> tuple[Spans, dict[tuple[str, str], list[Span]]]:
    """Return what members said they owned, and when each could know it: from one word of it to the next, but not
    after the driver froze or killed it."""
    group_of = {act["client_id"]: act["group"] for act in truth(name) if act["action"] == "start"}
    said: Spans = defaultdict(list)
    known: defaultdict[tuple[str, str], list[Span]] = defaultdict(list)
    since: dict[str, tuple[int, frozenset[str]]] = {}
    for act in (*truth(name), *({"at_ms": end_ms, "action": "thaw", "client_id": client_id} for client_id in group_of)):
        client_id = act.get("member") or act.get("client_id", "")
        owned = _owned_after(act, since.get(client_id, (0, frozenset()))[1])
        is_touched = act["action"] in _TOUCHED
        if owned is None and not is_touched:
            continue
        if client_id in since:
            from_ms, owned_before = since.pop(client_id)
            known[group_of[client_id], client_id].append((from_ms, act["at_ms"]))
            for place in owned_before:
                said[group_of[client_id], client_id, place].append((from_ms, act["at_ms"]))
        if owned is not None:
            since[client_id] = act["at_ms"], owned
    return said, known


def _owned_after(act: dict[str, object], before: frozenset[str]) -> frozenset[str] | None:
    """Return what a member owns after what it said; None if it said nothing of it."""
    if act["action"] != "member" or act["event"] not in ("assigned", "revoked", "lost", "owned", "closed"):
        return None
    if act["event"] == "closed":
        return frozenset()
    owned, partitions = act.get("owned"), act.get("partitions", ())
    if isinstance(owned, list):
        return frozenset(owned)
    assert isinstance(partitions, list | tuple)
    return before | set(partitions) if act["event"] == "assigned" else before - set(partitions)


def overlap(first: Iterable[Span], second: Sequence[Span]) -> list[Span]:
    return [
        (max(begin, other_begin), min(end, other_end))
        for begin, end in first
        for other_begin, other_end in second
        if max(begin, other_begin) < min(end, other_end)
    ]


def length_ms(spans: Iterable[Span]) -> int:
    return sum(end - begin for begin, end in spans)
