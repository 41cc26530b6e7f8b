"""Makes the fixtures of a state version: state blobs of groups in the midst of recorded histories, and what is in them.

    python -m tests.crash.state_fixtures

writes `tests/fixtures/state/v<version>-<history>.bin` (both blobs, as Spark keeps them), `.json` (the group in words)
and a checkpoint of Spark's, `v<version>-checkpoint.tar.gz`, of the present version. Run it once for each version, when
the version is new, and never again: the files stand for what checkpoints out there hold.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from coordinator_state import ClassicGroup, Group, decode_group, encode_group
from coordinator_state.consumer.group import ConsumerGroup, consumer_group
from coordinator_state.state import STATE_VERSION
from schemas.group_metadata_events import GroupConfiguration
from tests.coordinator_state.consumer.harness import ConsumerHarness, topics
from tests.coordinator_state.harness import GroupHarness
from tests.verify_history.histories import HistoryReport, _Replay

FIXTURES = Path(__file__).parent.parent / "fixtures"
STATE = FIXTURES / "state"
FAMILIES = ("soup", "states", "static_restart", "offsets", "initial_delay", "long_rebalance")
BLOBS_MAX = 8


class _Snapshots(_Replay):
    """A replay that keeps the group as it is after each step."""

    def snapshots(self) -> Iterator[tuple[str, Group]]:
        self.found_snapshots: list[tuple[str, Group]] = []
        self.run()
        yield from self.found_snapshots

    def _compare(self, step: Any, subject: str, recorded: Any, actual: Any) -> None:
        if subject == "groups":
            for number, group in enumerate(self.coordinator.groups.values()):
                self.found_snapshots.append(
                    (f"{self.name}-step-{step['id']}-{number}", decode_group(*encode_group(group)))
                )


def in_words(group: Group) -> dict[str, Any]:
    """All that a state holds, by the names of the fields."""
    fields = {name: getattr(group, name) for name in Group.__struct_fields__ if name not in ("offsets", "body")}
    fields |= _classic_in_words(group.body) if isinstance(group.body, ClassicGroup) else _consumer_in_words(group)
    fields["retention"] = {topic: msgspec.structs.asdict(item) for topic, item in group.retention.items()}
    if group.topics is not None:
        fields["topics"] = msgspec.structs.asdict(group.topics)
        fields["topics"]["topics"] = {name: msgspec.structs.asdict(each) for name, each in group.topics.topics.items()}
    fields["timers"] = {name: msgspec.structs.asdict(timer) for name, timer in group.timers.items()}
    fields["offsets"] = [
        {"topic": topic, "partition": partition, **msgspec.structs.asdict(item)}
        for topic, partition, item in group.offsets
    ]
    fields["pending"] = {
        f"{topic}-{partition}": {str(producer_id): msgspec.structs.asdict(item) for producer_id, item in each.items()}
        for topic, partitions in group.offsets.pending.items()
        for partition, each in partitions.items()
    }
    plain: dict[str, Any] = json.loads(msgspec.json.encode(fields))
    return plain


def _classic_in_words(body: ClassicGroup) -> dict[str, Any]:
    fields = msgspec.structs.asdict(body)
    fields["members"] = {item: msgspec.structs.asdict(member) for item, member in body.members.items()}
    for member in fields["members"].values():
        for name in ("awaiting_join", "awaiting_sync"):
            member[name] = member[name] and msgspec.structs.asdict(member[name])
    fields["pending_join"] = {item: msgspec.structs.asdict(identity) for item, identity in body.pending_join.items()}
    fields["rebalance"] = body.rebalance and msgspec.structs.asdict(body.rebalance)
    return fields


def _consumer_in_words(group: Group) -> dict[str, Any]:
    body = consumer_group(group)
    fields = {name: getattr(body, name) for name in ConsumerGroup.__struct_fields__}
    fields["members"] = {item: msgspec.structs.asdict(member) for item, member in body.members.items()}
    fields["resolved_regexes"] = {item: msgspec.structs.asdict(each) for item, each in body.resolved_regexes.items()}
    return fields


def features(words: Any, path: str = "") -> set[str]:
    """Which fields have something in them."""
    paths: set[str] = set()
    if isinstance(words, dict):
        by_name = path.split(".")[-1] in ("members", "pending_join", "pending_sync", "static_members", "timers", "retention",
                                          "protocol_counts", "waited")  # fmt: skip
        for name, value in words.items():
            key = (name.split(":")[0] if path.endswith("timers") else "*") if by_name else name
            paths |= {f"{path}.{key}"} if value not in (None, [], {}, "", 0, False, -1) or by_name else set()
            paths |= features(value, f"{path}.{key}")
    elif isinstance(words, list):
        for value in words:
            paths |= features(value, f"{path}[]")
    elif path == ".state":
        paths.add(f"{path}={words}")
    return paths


def keep(group: Group, name: str) -> None:
    """Write the blobs of a group, and the group in words."""
    stem = STATE / f"v{STATE_VERSION}-{name}"
    stem.with_suffix(".bin").write_bytes(msgspec.msgpack.encode(encode_group(group)))
    stem.with_suffix(".json").write_text(json.dumps(in_words(group), indent=1) + "\n")


def with_transactions() -> Group:
    """A group with committed and pending offsets, and a place in a log of transactions."""
    group = GroupHarness()
    group.stable("a")
    group.commit("a", 1, {("t", 0): 3, ("u", 1): 4}, metadata="note")
    group.commit_in_transaction(7, {("t", 0): 5, ("t", 1): 6}, "a", 1, log_offset=3)
    group.commit_in_transaction(8, {("t", 0): 7}, log_offset=4, metadata="other")
    assert group.group is not None
    return group.group


def with_consumer_members() -> Group:
    """A group of the consumer protocol with settings of its own: a static member, one with an expression, and
    partitions that are still to be given up."""
    group = ConsumerHarness()
    group.tell(GroupConfiguration(consumer_session_timeout_ms=50_000))
    group.joins("a", "foo", instance_id="first", rack_id="rack")
    group.sleep(2_000)
    group.joins("b", "foo", subscribed_topic_regex="b.*", server_assignor="uniform")
    group.sleep(2_000)
    group.told("a", 2)
    assert group.group is not None
    return group.group


def with_news_of_topics() -> Group:
    """A group that was told of topics that exist and of one that does not, at several versions."""
    group = ConsumerHarness()
    group.joins("a", "foo", "none")
    group.tell(replace(topics(5), absent=("none",)))
    group.tell(topics(7, foo=6))
    assert group.group is not None
    return group.group


def with_consumer_rebalance() -> Group:
    """A group of the consumer protocol whose second rebalance waits for a member to give up partitions."""
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("a", "foo")
    group.joins("b", "foo")
    group.told("a", 2)
    assert group.group is not None
    return group.group


def main() -> None:
    candidates: list[tuple[set[str], str, Group]] = []
    for family in FAMILIES:
        with gzip.open(FIXTURES / "histories" / f"{family}.jsonl.gz", "rt") as file:
            for line in file:
                replay = _Snapshots(json.loads(line), HistoryReport())
                candidates += ((features(in_words(group)), name, group) for name, group in replay.snapshots())
    covered: set[str] = set()
    for _ in range(BLOBS_MAX):
        gained, name, group = max(candidates, key=lambda candidate: (len(candidate[0] - covered), candidate[1]))
        if not gained - covered:
            break
        covered |= gained
        keep(group, name)
    keep(with_transactions(), "offsets-in-transactions")
    keep(with_consumer_members(), "consumer-members")
    keep(with_news_of_topics(), "consumer-topics")
    keep(with_consumer_rebalance(), "consumer-rebalance")
    print(len(candidates), "states;", "\n".join(sorted(covered)))
    from tests.crash import checkpoint_fixture  # a broker and a Spark session: a minute

    checkpoint_fixture.make(STATE / f"v{STATE_VERSION}-checkpoint.tar.gz")


if __name__ == "__main__":
    main()
