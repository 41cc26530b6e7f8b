"""A recording held against its two truths, for each set of sources: a line each, and what is behind its numbers."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import asdict
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from tests.clusters.acts import judge
from tests.watching.observed.recorded import files
from tests.watching.observed.scores import ALL_SOURCES, DUMP, LOGS, REQUESTS, scores

_SHOWN = 12
_FRAMES_SHOWN = 3


def verdict(stem: Path) -> Iterator[str]:
    """Yield what there is to say of a recording, `DIRECTORY/NAME`."""
    name = str(stem.absolute())
    for sources in ALL_SOURCES:
        label = "+".join(source for source in (REQUESTS, DUMP, LOGS) if source in sources)
        try:
            measured, acts = scores(name, sources), judge(name, sources)
        except Exception as problem:  # whatever it is: that is a finding, and the others are to be seen too
            yield f"{stem.name} {label}: {_end_of(problem)}"
            continue
        numbers = asdict(measured) | {f"acts_{key}": value for key, value in asdict(acts).items()}
        shown = (f"{key}={value}" for key, value in numbers.items() if value and key != "acts_lines")
        yield f"{stem.name} {label}: {' '.join(shown)}"
        yield from (f"    {line}" for line in acts.lines[:_SHOWN])
    yield from _verified(stem, name)


def _verified(stem: Path, name: str) -> Iterator[str]:
    arguments = ["verify", "recording", *map(str, files(name, "request.log.gz")), "--show", str(_SHOWN)]
    arguments += ["--offsets", f"{name}.offsets.jsonl.gz"]
    arguments += [word for path in files(name, "server.log.gz") for word in ("--broker-log", str(path))]
    done = CliRunner().invoke(app, arguments)
    yield f"{stem.name} verify recording: exit code {done.exit_code}"
    yield from (f"    {line}" for line in done.output.splitlines()[-_SHOWN:])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        yield f"    {_end_of(done.exception)}"


def _end_of(problem: BaseException) -> str:
    return "TRACEBACK\n" + "".join(traceback.format_exception(problem)[-_FRAMES_SHOWN:]).rstrip()
