"""The Docker engine by its command line: what the tests of the image ask of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
KAFKA_IMAGE = "apache/kafka:4.3.1"
BASE_IMAGE = "python:3.11-slim-bookworm"
IMAGE = "group-coordinator-tests"
BUILD_TIMEOUT_S, COMMAND_TIMEOUT_S, HEALTH_TIMEOUT_S = 1_500, 180, 240


class EngineError(RuntimeError):
    """A command of Docker failed; the message has what it printed."""


def command(*arguments: str, timeout_s: float = COMMAND_TIMEOUT_S, environment: Mapping[str, str] | None = None) -> str:
    """What a command prints. Raises EngineError."""
    done = subprocess.run(
        arguments, cwd=ROOT, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    if done.returncode:
        raise EngineError(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout[-4_000:]}")
    return done.stdout


def docker(*arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    return command("docker", *arguments, timeout_s=timeout_s)


def compose_command() -> tuple[str, ...] | None:
    """Compose as a plugin of Docker, or as the older command; None: there is neither."""
    if (
        shutil.which("docker")
        and subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0
    ):
        return ("docker", "compose")
    return ("docker-compose",) if shutil.which("docker-compose") else None


def why_not() -> str | None:
    """Why nothing can be tested with Docker here; None: it can."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    if subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60).returncode:
        return "no Docker engine answers"
    for image in (KAFKA_IMAGE, BASE_IMAGE):
        if not _has(image):
            return f"the image {image} is not here and cannot be pulled"
    return None


def _has(image: str) -> bool:
    if subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False).returncode == 0:
        return True
    return (
        subprocess.run(
            ["docker", "pull", "--quiet", image], capture_output=True, check=False, timeout=BUILD_TIMEOUT_S
        ).returncode
        == 0
    )


def inspect(container: str) -> Any:
    """The state of a container, as the engine tells it."""
    return json.loads(docker("inspect", container))[0]["State"]


def wait_until_healthy(container: str) -> None:
    """Returns when the image's own health check says so. A failure shows the end of the log."""

    def is_healthy() -> bool:
        state = inspect(container)
        assert state["Running"], otherwise()
        return bool(state["Health"]["Status"] == "healthy")

    def otherwise() -> str:
        state = inspect(container)
        log = docker("logs", "--tail", "50", container)
        return f"{container} is {state['Status']}, {state['Health']['Status']}\n{log}"

    wait_until(is_healthy, HEALTH_TIMEOUT_S, otherwise, interval_s=0.5)


def remove(kind: Sequence[str], *names: str) -> None:
    """What may be there or not."""
    for name in names:
        subprocess.run(["docker", *kind, name], capture_output=True, check=False, timeout=COMMAND_TIMEOUT_S)
