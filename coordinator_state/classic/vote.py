"""The vote for a protocol. Source: `ClassicGroup.selectProtocol` (Kafka 4.3)."""

from __future__ import annotations

from coordinator_state.classic.group import ClassicGroup
from schemas.java_hash import java_map_order


def vote(group: ClassicGroup) -> dict[str, tuple[str, ...]]:
    """Return the members that vote for each protocol. A member votes for the first of its own protocols that all
    members list."""
    votes: dict[str, list[str]] = {}
    counts, size = group.protocol_counts, len(group.members)
    for member in group.members.values():
        for name, _ in member.protocols:
            if counts[name] == size:
                votes.setdefault(name, []).append(member.member_id)
                break
    return {name: tuple(voters) for name, voters in votes.items()}


def winner(votes: dict[str, tuple[str, ...]]) -> tuple[str, bool]:
    """Return the protocol with most votes, and whether there was a tie. Ties are settled in Kafka's order, that of a
    Java hash map."""
    most = max(map(len, votes.values()))
    best = [name for name, voters in votes.items() if len(voters) == most]
    if len(best) == 1:
        return best[0], False
    return next(name for name in java_map_order(votes) if name in best), True


def selected_protocol(group: ClassicGroup) -> str:
    """Return the protocol that the members would choose now."""
    return winner(vote(group))[0]
