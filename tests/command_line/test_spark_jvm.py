"""What Spark's JVM says when it does not start, or fails."""

from __future__ import annotations

import os

import pytest
from pyspark.errors import PySparkRuntimeError

from group_coordinator.command_line.errors import CommandError
from group_coordinator.coordinating.commands.spark_jvm import java_cause, quiet_start

SETTINGS = {"spark.master.rest.enabled": "hush", "spark.app.secret": "hush-hush", "spark.ui.port": "1"}


def test_what_the_jvm_said_is_shown_without_the_values_of_settings() -> None:
    def start() -> None:
        with quiet_start(SETTINGS):
            os.write(2, b"should be boolean, but was hush\n1 of hush-hush\n")
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    with pytest.raises(CommandError) as caught:
        start()
    assert str(caught.value) == (
        "Spark did not start. It said:\n"
        "should be boolean, but was (the value of spark.master.rest.enabled)\n"
        "1 of (the value of spark.app.secret)"
    )


def test_a_cause_is_shown_without_the_values_of_settings() -> None:
    assert java_cause(ValueError("hush is no number"), SETTINGS) == (
        "(the value of spark.master.rest.enabled) is no number"
    )
