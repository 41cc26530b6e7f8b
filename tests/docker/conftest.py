"""Tests that need a Docker engine. Where none answers they are skipped, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker import engine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
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
    engine.docker("build", "--tag", engine.IMAGE, ".", timeout_s=engine.BUILD_TIMEOUT_S)
    yield engine.IMAGE
    engine.remove(["image", "rm"], engine.IMAGE)
