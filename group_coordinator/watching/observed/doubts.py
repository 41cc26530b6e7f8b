"""Why what is told of a watched cluster may not be what happened, or not all of it, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import tzinfo
from itertools import islice

from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.clock_skew import Skew
from group_coordinator.watching.observed.group import BEYOND
from group_coordinator.watching.observed.transactions import OpenTransaction
from schemas.history import History, RecordingGap
from schemas.kafka.json_form import uuid_to_json

IDS_SHOWN = 3

_TRANSACTIONS_MAX = _LOST_MAX = 20
"""So many are told one by one, of transactions the oldest."""


def doubts(
    skews: Mapping[int | None, Skew], transactions: Iterable[OpenTransaction], lines_left_out: int, zone: tzinfo
) -> Iterator[str]:
    """Yield the doubts in sentences. Times in them are of `zone`."""
    for broker, skew in sorted(skews.items(), key=lambda item: (item[0] is None, item[0] or 0)):
        if skew.skew_ms:
            way = "ahead of" if skew.skew_ms > 0 else "behind"
            yield (
                f"The log of {'a broker' if broker is None else f'broker {broker}'} is "
                f"{words.duration(abs(skew.skew_ms))} {way} its records: its times are corrected by that "
                f"({words.count(skew.pairs, 'pair')} of line and record)."
            )
    shown = iter(transactions)
    for transaction in islice(shown, _TRANSACTIONS_MAX):
        yield (
            f"Producer {transaction.producer_id} has had a transaction open since "
            f"{words.clock(transaction.since_ms, zone)}, with {words.count(transaction.offsets, 'offset')} of "
            f"{words.listed(transaction.group_ids)}: they are not committed."
        )
    more = sum(1 for _ in shown)
    if more:
        yield f"{words.count(more, 'transaction')} more are open: their offsets are not committed."
    if lines_left_out:
        lines = words.count(lines_left_out, "line")
        yield (
            f"{lines} of brokers' logs have no time that can be read, or can be read in several ways: they are left "
            "out."
        )


def lost_groups(history: Iterable[History], dump_until_ms: int, zone: tzinfo) -> Iterator[str]:
    """Yield a sentence on each group that went on when the dump had ended."""
    lost = [record for record in history if isinstance(record, RecordingGap) and record.reason == BEYOND]
    for record in lost[:_LOST_MAX]:
        yield (
            f"group {record.group_id}: from {words.clock(record.timestamp_ms, zone)} on nothing is known of it: the "
            f"dump of the offsets topic ends at {words.clock(dump_until_ms, zone)}, and brokers' logs go on."
        )
    if lost[_LOST_MAX:]:
        yield f"The same is so of {words.count(len(lost) - _LOST_MAX, 'group')} more."


def unnamed_topics(topic_ids: Collection[str]) -> Iterator[str]:
    """Yield a sentence on topics that are shown by their ids, and on where their names can be got."""
    if topic_ids:
        shown = [uuid_to_json(bytes.fromhex(topic_id)) for topic_id in sorted(topic_ids)[:IDS_SHOWN]]
        more = f" and {len(topic_ids) - IDS_SHOWN:,} more" if len(topic_ids) > IDS_SHOWN else ""
        yield (
            f"{words.count(len(topic_ids), 'topic')} {'is' if len(topic_ids) == 1 else 'are'} shown by id, for no "
            f"record has the name: {', '.join(shown)}{more}. --topic-names takes names; a broker's log from its start "
            "on has them, too (--broker-log), and so has its request log."
        )
