"""Worlds and soups by the hundred: nothing that must hold is ever broken. `make simulate SEEDS=5000` lives through more."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256

import pytest

from simulation.command import main, try_seed
from simulation.driver import encode_output
from simulation.run import case_of, live
from simulation.scenario import Scenario
from simulation.soup import Soup

SEEDS = 1_500
"""A thousand worlds, and half as many soups."""
CHUNK = 20


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_is_broken(first: int) -> None:
    findings = [finding for seed in range(first, first + CHUNK) if (finding := try_seed(seed)[0]) is not None]
    assert ["\n".join(finding.lines()) for finding in findings] == []


def test_both_kinds_of_cases_are_lived_through() -> None:
    kinds = [type(case_of(seed)) for seed in range(30)]
    assert kinds.count(Scenario) == 20
    assert kinds.count(Soup) == 10


def digest(seeds: range) -> str:
    hashed = sha256()
    for seed in seeds:
        outcome = live(case_of(seed))
        for key, outputs in outcome.judgement.outputs.items():
            hashed.update(repr(key).encode())
            for output in outputs:
                hashed.update(encode_output(output))
        hashed.update(repr(outcome.told).encode())
    return hashed.hexdigest()


def test_a_seed_is_the_same_world_in_every_process() -> None:
    program = "from tests.simulation.test_worlds import digest; print(digest(range(9)))"
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == digest(range(9))


def test_everything_that_can_go_wrong_does() -> None:
    told: list[str] = []
    for seed in range(0, 150, 3):
        told += [each.text for each in live(case_of(seed)).told]
    for words in (
        "crashes",
        "closes",
        "stands still",
        "does not poll",
        "has a bad network",
        "is lost on its way",
        "subscribes to",
        "takes and gives nothing",
        "the driver dies at step",
        "the query dies at step",
        "has its wall clock set",
        "gets a tick from a stranger",
        "partitions",
        "sends ",
        "ends: FENCED_INSTANCE_ID",
    ):
        assert any(words in text for text in told), words


def test_the_command_counts_and_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "6", "--from", "100", "--jobs", "1"]) == 0
    assert "4 worlds and 2 soups with" in capsys.readouterr().out
