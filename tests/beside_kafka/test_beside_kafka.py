"""Kafka's own coordinator classes and our core, side by side through random histories."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.beside_kafka.kafka import KafkaCoordinator, kafka_coordinator
from tests.beside_kafka.playing import first_change, first_difference, random_history
from tests.beside_kafka.report import lines_of
from tests.java_compiler import skipping_without_java_compiler

SEEDS = range(100, 140)
pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCoordinator]:
    with skipping_without_java_compiler(), kafka_coordinator() as coordinator:
        yield coordinator


def test_nothing_differs(kafka: KafkaCoordinator, tmp_path: Path) -> None:
    told: list[str] = []
    for seed in SEEDS:
        history = random_history(kafka, seed)
        difference = first_difference(history, tmp_path / f"{seed}.jsonl", kafka.rules)
        if difference is not None:
            told += lines_of(history, difference)
    assert told == []


def test_a_seed_makes_the_same_history_again_and_a_difference_is_told(kafka: KafkaCoordinator, tmp_path: Path) -> None:
    first, history = random_history(kafka, 2), random_history(kafka, 2)
    assert history == first
    step = next(step for step in history["steps"] if step.get("api") == "JoinGroup" and step["answers"])
    step["answers"][0]["response"]["errorCode"] = 99
    assert first_change(kafka, first) is None, "the classes decide as before"
    difference = first_difference(history, tmp_path / "changed.jsonl", kafka.rules)
    assert difference is not None
    lines = list(lines_of(history, difference))
    assert lines[0] == f"seed-2 step {step['id']}: answers"
    assert sum(line.startswith("  Kafka: ") and '"errorCode": 99' in line for line in lines) == 1
