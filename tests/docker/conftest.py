"""Tests that need a Docker engine. Where none answers they are skipped, with the reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import BuildError
from testcontainers.core.config import testcontainers_config
from testcontainers.core.image import DockerImage

from tests.docker import engine

testcontainers_config.ryuk_disabled = True  # it would be one more image to pull


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(folder):  # of all tests there are: `parents` would take half a second
            item.add_marker("docker")


@pytest.fixture(scope="session")
def docker_engine() -> None:
    """Skips where there is none."""
    reason = engine.why_not()
    if reason is not None:
        pytest.skip(f"Docker: {reason}")


@pytest.fixture(scope="session")
def image(docker_engine: None) -> Iterator[str]:
    """Our image, built as its users build it."""
    try:
        with DockerImage(engine.ROOT, engine.PATIENT, tag="group-coordinator-tests", clean_up=False) as built:
            yield str(built)
            # Its tag alone, which testcontainers would not: compose's image is built upon this one.
            built.get_docker_client().client.images.remove(str(built))
    except BuildError as error:
        error.add_note("".join(line.get("stream", "") for line in error.build_log)[-4_000:])
        raise
