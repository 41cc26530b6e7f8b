"""The rule that refused a request gives the advice about it."""

from __future__ import annotations

from collections.abc import Mapping

ADVICE: Mapping[str, str] = {
    "unknown_member": (
        "The member is not in the group, or no longer (its life says: expired, left or dropped). The client rejoins by "
        "itself; if this repeats, raise session.timeout.ms, or find what keeps the process from sending heartbeats."
    ),
    "member_has_not_joined_yet": (
        "The client was given its id and used it for another request before joining with it: a defect of the client "
        "library."
    ),
    "unknown_instance": (
        "The static member was removed: its session timeout passed, or somebody removed the instance by hand. It "
        "rejoins by itself."
    ),
    "instance_belongs_to_another_member": (
        "Two processes use one group.instance.id, or the old process still ran when the new one started. Give each "
        "process an id of its own, and let the old one end first."
    ),
    "generation_differs": (
        "The client was still in an older generation: it missed a rebalance, mostly because it was slow between two "
        "polls. What it commits now may have been processed by the new owner too. Look at max.poll.interval.ms."
    ),
    "unknown_group": (
        "There is no such group: it never existed, was deleted, or has expired. Check the spelling of group.id."
    ),
    "no_common_protocol": (
        "The client offers no assignor that all the others offer, or another protocol type: two different applications "
        "on one group id, or a deploy that changes assignors in one step. Offer old and new during the deploy."
    ),
    "protocol_differs": (
        "The client believes in another assignor than the group chose: it missed a rebalance, and rejoins."
    ),
    "protocol_missing": "The request does not say which protocol it follows: a defect of the client library.",
    "session_timeout_out_of_bounds": (
        "session.timeout.ms lies outside what the coordinator allows (group.min.session.timeout.ms, "
        "group.max.session.timeout.ms). Change one of the two."
    ),
    "group_is_full": "The group has group.max.size members. Raise it, or start fewer.",
    "group_is_too_large": (
        "The members' metadata together are too large for a record. Shorten subscriptions, or split the group."
    ),
    "too_many_protocols": (
        "The client lists more assignors than one JoinGroup may (member_max_protocols): hardly a consumer."
    ),
    "member_id_is_taken": (
        "Somebody sent an id of its own choosing that is in use. Only this coordinator's own members do that."
    ),
    "commit_before_sync": (
        "The member committed between joining and receiving its assignment. The client tries again; offsets of "
        "partitions that it gave up may be lost and their records read twice."
    ),
    "commit_without_membership": (
        "A client committed as if it were no member, while the group has members: a tool that sets offsets, or a "
        "consumer with manual assignment on a group id that others subscribe with. Stop the group first, or use "
        "another group id."
    ),
    "metadata_too_long": (
        "The text committed with the offset is longer than the coordinator allows (offset.metadata.max.bytes)."
    ),
    "too_many_offsets": "The group has as many offsets as it may have. Delete those of topics that it no longer reads.",
    "commit_is_too_large": (
        "One commit would write more records than the offsets log takes at once. Commit in several requests."
    ),
    "answer_is_too_large": (
        "One request asked for more offsets than an answer holds. Ask for fewer partitions at a time, each once."
    ),
    "topic_is_subscribed": (
        "Offsets of a topic cannot be deleted while a member subscribes to it. Stop the members first."
    ),
    "group_is_not_empty": "A group can be deleted only when nobody is in it. Stop its members first.",
    "empty_group_id": "Set group.id.",
    "unsupported_version": "The client asks in a version that is not known here. Update one of the two.",
    "another_shard": (
        "The request reached a partition of the events topic that does not coordinate this group: a sender that counts "
        "partitions differently. It must use Kafka's hash of the group id."
    ),
    "pending_member_with_instance_id": (
        "A static member never waits to join; the request contradicts itself: a defect of the client library."
    ),
    "not_a_group": "Only coordinators of groups are to be found here, not those of transactions.",
    "no_topic_name": "The commit names its topics in a way that cannot be read here (topic ids).",
}


def advice(rule: str) -> str:
    """Return the advice; empty if the refusal already says all."""
    return ADVICE.get(rule, "")
