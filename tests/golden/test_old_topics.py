"""Topics that an earlier version wrote: today's readers open them, and say of them what that version's readers said.

`fixtures/topics` has the output topics of two logs (a recorded one, which was followed, and a random one with events
that cannot be read), and what each reader said. `REWRITE=1` commits what the readers say now;
the topics are never written anew.
"""

import gzip
import os
from pathlib import Path

import pytest

from tests.golden.readers import READERS

FOLDER = Path(__file__).parents[1] / "fixtures" / "topics"
LOGS = ("random_log", "recording")
TOPICS = ("assignments", "dead-letters", "history", "offsets", "responses")


@pytest.fixture
def topics(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The directory of a log's topics, unpacked."""
    directory = tmp_path / "topics"
    directory.mkdir()
    for packed in (FOLDER / request.param).glob("*.jsonl.gz"):
        (directory / packed.name.removesuffix(".gz")).write_bytes(gzip.decompress(packed.read_bytes()))
    assert sorted(path.stem for path in directory.iterdir()) == sorted(TOPICS)
    return directory


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("topics", LOGS, indirect=True)
def test_reader_says_what_it_said(topics: Path, reader: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    log = request.node.callspec.params["topics"]
    text = READERS[reader](topics, scratch)
    file = FOLDER / log / f"{reader}.txt.gz"
    if os.environ.get("REWRITE"):
        file.write_bytes(gzip.compress(text.encode(), mtime=0))
    # Split: where one line differs, pytest shows that line alone.
    assert text.splitlines() == gzip.decompress(file.read_bytes()).decode().splitlines()
