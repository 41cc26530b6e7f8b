"""What a member subscribes to, and what follows from it for the group: expressions, the metadata hash, the group epoch.

Source: `hasMemberSubscriptionChanged`, `maybeUpdateRegularExpressions`, `maybeUpdateMetadata` (Kafka 4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum, auto

from msgspec import Struct

from coordinator_state.consumer.assignors.contract import SubscriptionType
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.group import ConsumerGroup, subscription_type
from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.consumer.metadata_hash import group_metadata_hash
from coordinator_state.consumer.preferred_assignor import preferred_assignor
from coordinator_state.consumer_settings import METADATA_REFRESH_INTERVAL_MS
from coordinator_state.errors import Refusal
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_group_history import EpochReason
from schemas.error_codes import ErrorCode
from schemas.topic_regexes import InvalidTopicRegex, check_topic_regex


class RegexChange(Enum):
    """What became of a member's expression."""

    NO_CHANGE = auto()
    UPDATED = auto()
    """It has another one, which is not yet resolved."""
    UPDATED_AND_RESOLVED = auto()
    """It has another one whose topics are known, or none any more."""


class SubscriptionUpdate(Struct, frozen=True, gc=False):
    """What came of one member's subscription."""

    changed: bool
    """The member subscribes to something else than before."""
    epoch: int
    """The group epoch from here on."""
    subscription_type: SubscriptionType
    regex_counts: dict[str, int]
    """Expression -> number of members, with this member's change."""
    wants_refresh: bool
    """The member has a new expression."""
    gave_up_regex: str | None
    """An expression that nobody has any more."""


def update_subscription(
    changes: Changes, member: ConsumerMember, updated: ConsumerMember, *, any_regex_change_bumps: bool = False
) -> SubscriptionUpdate:
    """Write what the member asks for, and raise the group epoch if the assignment depends on it. Raises `Refusal`."""
    group, step = changes.group, changes.step
    if updated != member:
        changes.put_member(updated)
    names_changed = updated.subscribed_topic_names != member.subscribed_topic_names
    regex_change, gave_up_regex, is_new_regex = _update_regex(changes, member, updated)
    bumps = names_changed or (
        regex_change is not RegexChange.NO_CHANGE
        if any_regex_change_bumps
        else regex_change is RegexChange.UPDATED_AND_RESOLVED
    )
    epoch, kind = group.group_epoch, group.subscription_type
    bumps = bumps or epoch == step.config.kafka_version.first_epoch == 0
    bumps = bumps or _changes_preferred_assignor(changes, updated)
    regex_counts = _regex_counts(group, member, updated)
    deadline_ms, deadline_epoch = group.metadata_deadline
    if bumps or step.now_ms >= deadline_ms or epoch < deadline_epoch:
        reasons = _reasons(group, member, updated) if bumps else []
        epoch, kind = _update_metadata(changes, member, updated, regex_counts, gave_up_regex, reasons)
    elif updated != member and step.config.group_consumer_bug_fixes_enable:
        _, kind = _counted(group, member, updated, regex_counts, gave_up_regex)
    return SubscriptionUpdate(
        changed=names_changed or regex_change is not RegexChange.NO_CHANGE,
        epoch=epoch,
        subscription_type=kind,
        regex_counts=dict(regex_counts),
        wants_refresh=is_new_regex,
        gave_up_regex=gave_up_regex,
    )


def _update_regex(
    changes: Changes, member: ConsumerMember, updated: ConsumerMember
) -> tuple[RegexChange, str | None, bool]:
    """Return what became of the expression, one that nobody has any more, and whether a new one must be resolved."""
    group, old, new = changes.group, member.subscribed_topic_regex, updated.subscribed_topic_regex
    if old == new:
        return RegexChange.NO_CHANGE, None, False
    gave_up = old if old and group.regex_counts[old] == 1 else None
    if gave_up is not None:
        changes.put_regex(gave_up, None)
    if not new:
        raises = changes.step.config.kafka_version.lost_regex_raises_epoch
        return RegexChange.UPDATED_AND_RESOLVED if raises else RegexChange.UPDATED, gave_up, False
    if not group.regex_counts[new]:
        require_valid_regex(new)
        return RegexChange.UPDATED, gave_up, True
    is_resolved = new in group.resolved_regexes
    return RegexChange.UPDATED_AND_RESOLVED if is_resolved else RegexChange.UPDATED, gave_up, False


def _regex_counts(group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> Counter[str]:
    old, new = member.subscribed_topic_regex, updated.subscribed_topic_regex
    if old == new:
        return group.regex_counts
    counts = Counter(group.regex_counts)
    if old:
        counts[old] -= 1
        if counts[old] <= 0:
            del counts[old]
    if new:
        counts[new] += 1
    return counts


def _changes_preferred_assignor(changes: Changes, updated: ConsumerMember) -> bool:
    """Return whether the group goes by another assignor now, where that raises the epoch. Members of the classic
    protocol do not vote. Of a tie a member that asks for the same as before can be the one who changes it."""
    config = changes.step.config
    if not config.kafka_version.assignor_vote_raises_epoch or updated.classic is not None:
        return False
    names = config.consumer_assignors
    return preferred_assignor(changes.group, None, names) != preferred_assignor(changes.group, updated, names)


def _reasons(group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> list[EpochReason]:
    is_known = updated.member_id in group.members or member.instance_id is not None
    return ["subscription_changed" if is_known else "member_joined"]


def _update_metadata(
    changes: Changes,
    member: ConsumerMember,
    updated: ConsumerMember,
    regex_counts: Counter[str],
    gave_up_regex: str | None,
    reasons: list[EpochReason],
) -> tuple[int, SubscriptionType]:
    """Look at the topics anew, raise the epoch if they or the subscriptions differ. Returns epoch and kind of
    subscriptions."""
    group, step = changes.group, changes.step
    names, kind = _counted(group, member, updated, regex_counts, gave_up_regex)
    metadata_hash = hash_of(names, changes.image)
    if metadata_hash != group.metadata_hash and not reasons:
        reasons = ["topics_changed"]
    epoch = group.group_epoch
    if reasons:
        epoch += 1
        changes.put_epoch(epoch, metadata_hash, reasons)
    # Of the copy of a group that is new this is lost, as in Kafka: the next heartbeat looks again.
    group.metadata_deadline = (step.now_ms + METADATA_REFRESH_INTERVAL_MS, epoch)
    return epoch, kind


def _counted(
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    regex_counts: Counter[str],
    gave_up_regex: str | None,
) -> tuple[set[str], SubscriptionType]:
    """Return the topics that members subscribe to, and the kind of subscriptions, with this member's change."""
    name_counts, regex_topic_counts = group.name_counts, group.regex_topic_counts
    if updated.subscribed_topic_names != member.subscribed_topic_names:
        name_counts = Counter(name_counts)
        name_counts.subtract(member.subscribed_topic_names)
        name_counts.update(updated.subscribed_topic_names)
        name_counts = +name_counts
    if gave_up_regex is not None and gave_up_regex in group.resolved_regexes:
        regex_topic_counts = Counter(regex_topic_counts)
        regex_topic_counts.subtract(group.resolved_regexes[gave_up_regex].topics)
        regex_topic_counts = +regex_topic_counts
    is_known = updated.member_id in group.members or updated.instance_id in group.static_members
    kind = subscription_type(
        name_counts, regex_topic_counts, regex_counts, len(group.members) + (0 if is_known else 1)
    )
    return name_counts.keys() | regex_topic_counts.keys(), kind


def hash_of(names: Iterable[str], image: TopicsImage) -> int:
    """Return the metadata hash of the topics of these names that exist."""
    return group_metadata_hash([image.topics[name] for name in names if name in image.topics])


def require_valid_regex(regex: str) -> None:
    """Raise `Refusal` for an expression that is none. Source: `throwIfRegularExpressionIsInvalid` (Kafka 4.3)."""
    try:
        check_topic_regex(regex)
    except InvalidTopicRegex as problem:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION, "invalid_regular_expression",
            f"{regex!r:.300} is not a valid regular expression: {problem!s:.300}",
        ) from None  # fmt: skip
