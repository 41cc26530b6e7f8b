"""A random history as it grows: what was asked so far, and what Kafka's coordinator did."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.beside_kafka.kafka import KafkaCoordinator

Json = dict[str, Any]
OnAnswer = Callable[[Json], None]

START_MS = 1_000_000
GROUP_SIZE_MAX = 2_147_483_647


class History:
    """Its steps, in the form of the recorded ones, and the dice that choose them."""

    def __init__(self, kafka: KafkaCoordinator, seed: int) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.now_ms = START_MS
        self.steps: list[Json] = []
        self.is_over = False
        """Whether no step may follow."""
        self.may_look = True
        """Whether groups may be described and listed."""
        self._kafka = kafka
        self.has_4_4 = kafka.release >= (4, 4)
        """Whether there are the versions of requests that Kafka 4.4 has brought."""
        self._waiting: dict[int, OnAnswer] = {}
        self.config = random_config(self.dice)
        kafka.begin(self.config, seed)

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def group_id(self) -> str:
        return "g" if self.chance(0.95) else "h"

    def request(
        self, api: str, version: int, client_id: str, body: Json, on_answer: OnAnswer = lambda answer: None
    ) -> None:
        """Ask. The answer may come in a later step."""
        self._waiting[len(self.steps)] = on_answer
        self.step(api=api, version=version, client_id=client_id, request=body)

    def step(self, **told: Any) -> None:
        step: Json = {"id": len(self.steps), "at_ms": self.now_ms, **told}
        self.steps.append(step)
        step.update(self._kafka.play(step))
        for answer in step["answers"]:
            self._note_new_member(self.steps[answer["id"]], answer["response"])
            self._waiting.pop(answer["id"])(answer["response"])

    def whole(self) -> Json:
        return {
            "name": f"seed-{self.seed}",
            "family": "beside_kafka",
            # Kafka's hash maps of members go by the ids that it made itself. So does the core with this setting.
            "config": self.config | {"group.consumer.hash.order": True},
            "steps": self.steps,
            "still_parked": [],
            "never_answered": sorted(self._waiting),
        }

    @staticmethod
    def _note_new_member(step: Json, response: Json) -> None:
        if not step["request"].get("memberId") and response.get("memberId"):
            step["new_member_id"] = response["memberId"]


def random_config(dice: Random) -> Json:
    """Times are short, so that they pass in a history."""
    return {
        "start_ms": START_MS,
        "background_ms": dice.choice((0, 0, 5, 2_000, 20_000)),
        "group.consumer.min.session.timeout.ms": 1_000,
        "group.consumer.max.session.timeout.ms": 60_000,
        "group.consumer.session.timeout.ms": dice.choice((10_000, 45_000)),
        "group.consumer.min.heartbeat.interval.ms": 500,
        "group.consumer.heartbeat.interval.ms": 3_000,
        "group.consumer.max.heartbeat.interval.ms": 15_000,
        "group.consumer.max.assignment.interval.ms": 60_000,
        "group.consumer.assignment.interval.ms": dice.choice((0, 0, 1_000, 1_000, 5_000)),
        "group.consumer.regex.refresh.interval.ms": dice.choice((600_000, 15_000)),
        "group.consumer.assignors": dice.choice(("uniform,range", "range,uniform")),
        "group.consumer.max.size": dice.choice((GROUP_SIZE_MAX, GROUP_SIZE_MAX, 3, 4)),
        "group.consumer.migration.policy": dice.choice(
            ("bidirectional",) * 5 + ("upgrade", "downgrade", "disabled")
        ),
        "group.initial.rebalance.delay.ms": dice.choice((0, 0, 3_000)),
        "group.min.session.timeout.ms": 1_000,
        "group.max.size": dice.choice((GROUP_SIZE_MAX, GROUP_SIZE_MAX, 2)),
        "offsets.retention.minutes": dice.choice((1, 10_080)),
        "offsets.retention.check.interval.ms": dice.choice((30_000, 600_000)),
    }
