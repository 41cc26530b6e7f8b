"""Tests that compile drivers for Kafka's own classes are skipped where there is a Java without its compiler."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.jvm import JvmError


@contextmanager
def skipping_without_java_compiler() -> Iterator[None]:
    """Skip the test for this one reason. Whatever else is wrong with the drivers fails it."""
    try:
        yield
    except JvmError as problem:
        if "no Java compiler" in str(problem):
            pytest.skip(str(problem))
        raise
