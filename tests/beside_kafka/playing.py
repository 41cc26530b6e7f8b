"""A history is played with Kafka's coordinator as it is made, and then with ours."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

from tests.beside_kafka.classic_members import ClassicMembers
from tests.beside_kafka.cluster import Cluster
from tests.beside_kafka.consumer_members import ConsumerMembers
from tests.beside_kafka.history import History, Json
from tests.beside_kafka.kafka import KafkaCoordinator
from tests.beside_kafka.members import Members
from tests.beside_kafka.offsets import OffsetRequests
from tests.verify_history.histories import Difference, verify_histories

STEPS = 90
WEIGHTS = (
    (10, 6, 3, 1, 1, 0.4),
    (12, 0, 3, 1, 1.5, 0.4),
    (3, 8, 2, 1, 0.6, 0.2),
    (5, 5, 8, 1, 1, 0.1),
    (8, 3, 0, 0.5, 2, 0.5),
)
"""How often a history has each kind of step: members of the consumer protocol and of the classic one, offsets, those
who look, changes of topics, and of settings of groups."""

_PLAYED = ("answers", "records")


def random_history(kafka: KafkaCoordinator, seed: int) -> Json:
    history = History(kafka, seed)
    dice, cluster, members = history.dice, Cluster(history), Members()
    consumer_members = ConsumerMembers(history, cluster, members)
    classic_members = ClassicMembers(history, cluster, members, consumer_members)
    offsets = OffsetRequests(history, cluster, members)
    kinds = (
        consumer_members.act, classic_members.act, offsets.act, offsets.look, cluster.change, offsets.configure,
    )  # fmt: skip
    for _ in range(STEPS):
        history.now_ms += dice.choice((0, 0, 1, 50, 300, 999, 1_000, 2_000, 3_000))
        if history.chance(0.04):
            history.now_ms += dice.choice((5_000, 10_001, 20_000, 31_000, 46_000))
        (kind,) = dice.choices(kinds, WEIGHTS[seed % len(WEIGHTS)])
        kind()
        if history.is_over:
            return history.whole()
    # Now every JoinGroup is answered, and tells the id that its member got.
    history.now_ms += dice.choice((60_000, 100_000))
    history.step()
    return history.whole()


def first_difference(history: Json, path: Path, rules: str) -> Difference | None:
    """Return where our core, by the rules of a Kafka version, first does something else than the history tells. The
    file is where it is written for that; `python -m tests.verify_history` takes it."""
    path.write_text(json.dumps(history) + "\n")
    try:
        differences = verify_histories([path], kafka_version=rules).differences
    except Exception:  # the core has failed: what is looked for, too
        return Difference(
            history=history["name"], step=-1, what="failure", recorded=None, actual=traceback.format_exc()
        )
    return differences[0] if differences else None


def first_change(kafka: KafkaCoordinator, history: Json) -> Difference | None:
    """Return where Kafka's coordinator first does something else with the requests of a random history than it tells.
    """
    kafka.begin(history["config"], int(history["name"].removeprefix("seed-")))
    for step in history["steps"]:
        told = {name: value for name, value in step.items() if name not in _PLAYED}
        played = kafka.play(told)
        for what in _PLAYED:
            if played[what] != step[what]:
                return Difference(
                    history=history["name"], step=step["id"], what=what, recorded=step[what], actual=played[what]
                )
    return None
