"""What the group coordinators of other Kafkas do otherwise than that of 4.3.

This is the one table of versions. A log of our own says by which its groups are coordinated (`kafka_rules`), and a
recorded broker's log is followed as it shows. Classic groups are the same in all versions, but for rarities; so the
table tells of consumer groups, of commits and of records.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple


class KafkaVersion(NamedTuple):
    """The habits of one version. Each field says what Kafka 4.3 does where it is the default."""

    name: str
    first_epoch: int = 1
    """The epoch of a group that nobody has joined yet. If it is 0, the first member raises it whatever it asks for."""
    has_assignment_interval: bool = True
    """Targets are computed no more often than the interval allows; else with each new group epoch."""
    has_assignment_epochs: bool = True
    """A commit of an older epoch is good for partitions that the member has had since then (KIP-1251); else for none.
    The records of members have these epochs, and those of targets their time."""
    names_topic_ids: bool = True
    """A commit that names its topics is stored with their ids; else only one that has them itself."""
    describes_pending_revocation: bool = True
    """What a member is to give up is described as its own until it has."""
    drops_unsubscribed: bool = True
    """A member gives up what it does not subscribe to any more before there is a new target, and what is in a target
    and it does not subscribe to is not given to it. What it is to give up itself is free for it."""
    lost_regex_raises_epoch: bool = True
    """A member that gives up its expression for none raises the group epoch."""
    classic_join_ends_regex: bool = True
    """A member that joins by the classic protocol has no expression any more."""
    has_metadata_hash: bool = True
    """The record of the epoch has a hash of the topics, with racks; else they lie in a record of their own."""
    refreshes_regexes: bool = True
    """Expressions are resolved again after some time, though no topic was created."""
    saves_extras: bool = True
    """`uniform` leaves the partitions that some get more to members that have them; else the first ones get them."""
    offset_commit_value_version: int = 4
    extends_when_empty: bool = True
    """The join phase of a group that was empty is extended while members arrive; else only that of a new group."""
    emptied_group_ends_assignment: bool = False
    """When the last members go, the target's epoch is raised with the group's, and has no time: who joins next is
    assigned at once (KAFKA-20442)."""
    transactional_commits_have_topic_ids: bool = False
    """A commit in a transaction is stored with its topic's id (KIP-1319)."""
    assignor_vote_raises_epoch: bool = False
    """A member that changes which server-side assignor is preferred raises the group epoch; else the vote counts from
    the next epoch on (KAFKA-20434)."""
    full_group_takes_known_instances: bool = False
    """A static member that the group knows may come back though the group is full (KAFKA-20601)."""
    malformed_subscription_is_inconsistent: bool = False
    """A JoinGroup to a consumer group whose subscription cannot be read gets INCONSISTENT_GROUP_PROTOCOL; else
    UNKNOWN_SERVER_ERROR (KAFKA-20662)."""
    instance_keeps_target: bool = False
    """A target that is computed while a static member takes another's place is written of it only if it differs from
    that of its predecessor; else in any case (`UpdatedMembersAndTargetAssignmentView`)."""
    is_old_coordinator: bool = False
    """The coordinator in Scala, which tells and writes some things otherwise (`recordings.old_brokers`)."""


_V4_3 = KafkaVersion("4.3")
_V4_2 = _V4_3._replace(
    name="4.2",
    first_epoch=0,
    has_assignment_interval=False,
    has_assignment_epochs=False,
    names_topic_ids=False,
    describes_pending_revocation=False,
)
_V4_1 = _V4_2._replace(
    name="4.1", drops_unsubscribed=False, lost_regex_raises_epoch=False, classic_join_ends_regex=False
)
_V4_0 = _V4_1._replace(
    name="4.0", has_metadata_hash=False, refreshes_regexes=False, saves_extras=False, offset_commit_value_version=3
)
_BEFORE_4 = _V4_0._replace(name="3.9", extends_when_empty=False, is_old_coordinator=True)

_V4_4 = _V4_3._replace(
    name="4.4",
    emptied_group_ends_assignment=True,
    transactional_commits_have_topic_ids=True,
    assignor_vote_raises_epoch=True,
    full_group_takes_known_instances=True,
    malformed_subscription_is_inconsistent=True,
    instance_keeps_target=True,
)

KAFKA_VERSIONS = {version.name: version for version in (_BEFORE_4, _V4_0, _V4_1, _V4_2, _V4_3, _V4_4)}
"""Name -> habits, ascending. `3.9` stands for all versions before 4."""
OF_OLD_LOGS = _V4_3.name
"""The rules of a log that names none: it is older than the choice."""
OF_NEW_LOGS = _V4_4.name
"""The rules that a new log begins with where nothing else is said."""
RULES = tuple(rule for rule in KafkaVersion._fields[1:] if getattr(_V4_3, rule) != getattr(_V4_4, rule))
"""The decisions that releases of 4.3 may have taken over from 4.4, each by itself."""
_NAME = re.compile(r"(\d+\.\d+)((?:[+-]\w+)*)")


def version_named(text: str) -> KafkaVersion:
    """Return the entry of the table for a version like `4.1` or `3.7`: that of the newest for a later one. Raises
    ValueError."""
    major, _, minor = text.partition(".")
    number = int(major), int(minor or 0)
    if number < (4, 0):
        return _BEFORE_4
    return KAFKA_VERSIONS.get(f"{number[0]}.{number[1]}", _V4_4)


@cache
def rules_named(text: str) -> KafkaVersion:
    """Return what a name of rules stands for: that of a version, with single rules more or less, as
    `4.3+full_group_takes_known_instances`. Raises ValueError with a sentence."""
    match = _NAME.fullmatch(text)
    if match is None or match[1] not in KAFKA_VERSIONS:
        raise ValueError(f"kafka_rules is {text!r}, but must be one of {', '.join(KAFKA_VERSIONS)}.")
    changes = {term[1:]: term[0] == "+" for term in re.findall(r"[+-]\w+", match[2])}
    if unknown := [rule for rule in changes if rule not in RULES]:
        raise ValueError(f"kafka_rules names {unknown[0]!r}, but the rules with names are {', '.join(RULES)}.")
    return KAFKA_VERSIONS[match[1]]._replace(name=text, **changes)


def name_with(version: KafkaVersion, rules: dict[str, bool]) -> str:
    """Return the name of a version's rules where single ones are as said."""
    other = {rule: holds for rule, holds in rules.items() if getattr(version, rule) != holds}
    return version.name + "".join(f"{'+' if other[rule] else '-'}{rule}" for rule in RULES if rule in other)
