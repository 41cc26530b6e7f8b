"""Members that are taken out of a consumer group, because they leave or are silent or slow.

Source: `consumerGroupFenceMembers`, `removeMemberAndCancelTimers` (Kafka 4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from coordinator_state.consumer import timers
from coordinator_state.consumer.changes import NO_TIME_MS, Changes
from coordinator_state.consumer.downgrade import downgrade, may_downgrade
from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.consumer.subscription import hash_of
from coordinator_state.step import Step
from schemas.consumer_group_history import EpochReason
from schemas.java_hash import java_string_order


def fence_members(changes: Changes, members: list[ConsumerMember], reason: EpochReason) -> None:
    """Remove members, with what only they subscribed to, and raise the group epoch.

    No target is computed: the next heartbeat of another member does that. Where nobody is left, there may be none to
    compute (`KafkaVersion.emptied_group_ends_assignment`).
    """
    if not members:
        return
    group = changes.group
    gone = [member.member_id for member in members]
    if may_downgrade(changes.step, group, gone):
        downgrade(changes.step, group, gone)
        return
    for member in members:
        changes.remove_member(member.member_id)
    name_counts = Counter(group.name_counts)
    regex_counts, regex_topic_counts = Counter(group.regex_counts), Counter(group.regex_topic_counts)
    for member in members:
        name_counts.subtract(member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            regex_counts[member.subscribed_topic_regex] -= 1
    for regex in sorted(set(group.regex_counts), key=java_string_order):
        if regex_counts[regex] <= 0:
            changes.put_regex(regex, None)
            resolved = group.resolved_regexes.get(regex)
            if resolved is not None:
                regex_topic_counts.subtract(resolved.topics)
    names = (+name_counts).keys() | (+regex_topic_counts).keys()
    changes.narrator.gone(members)
    epoch = group.group_epoch + 1
    changes.put_epoch(epoch, hash_of(names, changes.image), [reason])
    if len(members) == len(group.members) and changes.step.config.kafka_version.emptied_group_ends_assignment:
        changes.put_target_epoch(epoch, NO_TIME_MS)
    changes.commit()
    cancel_timers(changes.step, members)


def cancel_timers(step: Step, members: Iterable[ConsumerMember]) -> None:
    """Cancel all timers of members that are gone."""
    for member in members:
        for name in timers.all_of(member.member_id):
            step.cancel(name)
