"""HotSpot's optimizing compiler takes up code of Spark's JVM later where that is asked for."""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import cache

import pytest

from group_coordinator.coordinating.commands.responder import short_lived
from group_coordinator.coordinating.jars.java import find_java
from streaming.config import StreamingConfig
from streaming.session import java_options

pytestmark = pytest.mark.spark


@cache
def flags_of(options: str) -> dict[str, str]:
    """All flags, as Java itself says them when it starts with these options."""
    command = [str(find_java()), *shlex.split(options), "-XX:+PrintFlagsFinal", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return dict(re.findall(r"(\w+)\s+= (\S+)", said))


def thresholds(options: str) -> dict[str, int]:
    """Tier 4's."""
    return {name: int(count) for name, count in flags_of(options).items() if re.fullmatch(r"Tier4\w+Threshold", name)}


def options_of(factor: int, user_options: str = "") -> str:
    return java_options(
        StreamingConfig(spark_tier4_factor=factor, spark={"spark.driver.extraJavaOptions": user_options})
    )


def test_by_default_the_thresholds_are_those_of_java() -> None:
    assert thresholds(options_of(1)) == thresholds("")


@pytest.mark.parametrize("factor", [10, 1_000])
def test_all_thresholds_grow_by_the_factor(factor: int) -> None:
    of_java = thresholds("")
    assert len(of_java) == 4
    assert thresholds(options_of(factor)) == {name: factor * count for name, count in of_java.items()}


def test_an_option_that_was_set_stays() -> None:
    assert thresholds(options_of(10, "-XX:Tier4CompileThreshold=77"))["Tier4CompileThreshold"] == 77


@pytest.mark.parametrize("user_options", ["", "-XX:+UseParallelGC"])
def test_a_jvm_that_only_reads_a_state_is_not_to_be_optimized(user_options: str) -> None:
    """And Java takes the options together with those that were set: two collectors would be one too many."""
    spark = {"spark.driver.extraJavaOptions": user_options} if user_options else {}
    said = flags_of(java_options(short_lived(StreamingConfig(spark=spark))))
    assert (said["UseSerialGC"], said["UseParallelGC"]) == (("false", "true") if user_options else ("true", "false"))
    assert (said["TieredStopAtLevel"] == "1") == (not user_options)
