"""Regular expressions of a group: when they are resolved, and what follows from the result.

The topics that match are looked up by whoever knows all topics, who answers with an event. Source:
`maybeUpdateRegularExpressions`, `handleRegularExpressionsResult` (Kafka 4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from coordinator_state.classic.group import ClassicGroup
from coordinator_state.config import GroupConfig
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator_state.consumer.sizes import resolved_bytes
from coordinator_state.consumer.subscription import SubscriptionUpdate, hash_of
from coordinator_state.consumer_settings import METADATA_REFRESH_INTERVAL_MS, REGEX_REFRESH_MIN_INTERVAL_MS
from coordinator_state.errors import Refusal
from coordinator_state.refused import record_kept_out
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_group_history import EpochReason
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import RegexesResolved
from schemas.java_hash import java_string_order

REFRESH_LAPSES_MS = 300_000
"""A result that has not come by then is not waited for. (In Kafka it is lost when the coordinator moves.)"""


def refresh_is_due(
    group: ConsumerGroup,
    image: TopicsImage,
    now_ms: int,
    config: GroupConfig,
    regex_counts: Mapping[str, int],
    wants_refresh: bool,
) -> bool:
    """Return whether the group's expressions are to be resolved now.

    `regex_counts` has the members of each expression, those of the present change included; `wants_refresh`: one of
    them is new.
    """
    if not regex_counts:
        return False
    began_ms = group.regex_refresh_began_ms
    if began_ms is not None and now_ms < began_ms + REFRESH_LAPSES_MS:
        return False
    last = next(iter(group.resolved_regexes.values()), None)
    if last is not None and now_ms <= last.timestamp_ms + REGEX_REFRESH_MIN_INTERVAL_MS:
        return False
    return (
        wants_refresh
        or last is None
        or len(regex_counts) != len(group.resolved_regexes)
        or last.version < image.new_topics_version
        or (
            config.kafka_version.refreshes_regexes
            and now_ms > last.timestamp_ms + config.group_consumer_regex_refresh_interval_ms
        )
    )


def begins_refresh(changes: Changes, update: SubscriptionUpdate) -> bool:
    """Return whether the expressions are to be resolved now, after this change of a subscription."""
    step = changes.step
    return refresh_is_due(
        changes.group, changes.image, step.now_ms, step.config, update.regex_counts, update.wants_refresh
    )


def begin_refresh(step: Step, group: ConsumerGroup) -> None:
    """Have the expressions resolved: whoever knows all topics sees in the published group that it waits for them."""
    group.regex_refresh_began_ms = step.now_ms
    step.assignment_changed = True


def regexes_resolved(step: Step, result: RegexesResolved) -> None:
    """Take in the topics of the group's expressions. No target is computed: the next heartbeat does that.

    What would make the group larger than `group_max_bytes` is kept out: the expression stands for what it stood for.
    """
    body = None if step.group is None else step.group.body
    if isinstance(body, ConsumerGroup | ClassicGroup) and body.regex_refresh_began_ms is not None:
        body.regex_refresh_began_ms = None
        if type(body) is ConsumerGroup:
            step.assignment_changed = True
    if type(body) is not ConsumerGroup or body.is_removed:
        return
    changes = Changes(step, body)
    reasons: list[EpochReason] = []
    counts, growth = Counter(body.regex_topic_counts), 0
    for regex in sorted(result.resolved, key=java_string_order):
        if not body.regex_counts[regex]:
            continue
        before = body.resolved_regexes.get(regex)
        topics = tuple(sorted(set(result.resolved[regex]), key=java_string_order))
        topics_before = () if before is None else before.topics
        grows_by = resolved_bytes(topics) - resolved_bytes(topics_before)
        if grows_by > 0 and body.members_bytes + growth + grows_by > step.config.group_max_bytes:
            _keep_out(step, regex, topics)
            topics, grows_by = topics_before, 0
        growth += grows_by
        if topics != topics_before:
            reasons.append("regexes_resolved")
            counts.subtract(topics_before)
            counts.update(topics)
        changes.put_regex(regex, ResolvedRegex(topics, result.version, result.began_ms))
    metadata_hash = hash_of(body.name_counts.keys() | (+counts).keys(), changes.image)
    if metadata_hash != body.metadata_hash:
        reasons.append("topics_changed")
    if reasons:
        epoch = body.group_epoch + 1
        changes.put_epoch(epoch, metadata_hash, reasons)
        body.metadata_deadline = (step.now_ms + METADATA_REFRESH_INTERVAL_MS, epoch)
    changes.commit()


def _keep_out(step: Step, regex: str, topics: tuple[str, ...]) -> None:
    detail = (
        f"with the {len(topics)} topics that match {regex!r} the group would exceed group_max_bytes "
        f"({step.config.group_max_bytes})"
    )
    record_kept_out(
        step,
        "regexes_resolved", Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, "group_is_too_large", detail)
    )
