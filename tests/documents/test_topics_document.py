"""docs/topics.md: its lists of fields are made from the types."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from msgspec import Struct

from schemas.events import (
    OUTPUT_TOO_LARGE,
    EventProblem,
    GroupEventBody,
    RequestDocument,
    ResponseDocument,
    Tick,
)
from schemas.history import Cause, GroupSnapshot, History, HistoryRecord
from schemas.known_topics import KnownTopic, VersionsBegin
from schemas.messages import APIS
from schemas.query_progress import ProgressRecord
from schemas.recorded import RecordedGroup
from schemas.rules_events import KafkaRules
from tests.documents.fields import field_list, first_paragraph

DOCUMENT = Path(__file__).parents[2] / "docs" / "topics.md"
MARK = "<!-- generated: everything below is written by `make schemas` -->\n"


def section(title: str, kind: type[Struct]) -> str:
    tag = kind.__struct_config__.tag if kind is not HistoryRecord else None
    about = first_paragraph(kind) + (f" Its `type` is `{tag}`." if tag else "")
    return f"### {title}\n\n{about}\n\n{field_list(kind)}\n"


def short_list(kinds: Iterable[type[Struct]]) -> str:
    return "\n".join(f"- `{kind.__struct_config__.tag}`: {first_paragraph(kind)}" for kind in kinds) + "\n"


def names(kinds: Iterable[type[Struct]]) -> str:
    return ", ".join(f"`{kind.__struct_config__.tag}`" for kind in kinds)


def generated() -> str:
    apis = (f"{name} {api.min_version}-{api.max_version}" for name, api in APIS.items())
    events = (Tick, KafkaRules, *get_args(GroupEventBody))
    recorded = [kind for kind in events if kind.__module__ == RecordedGroup.__module__]
    parts = [
        "## `coordinator.events`\n",
        short_list(kind for kind in events if kind not in recorded),
        f"Importers also write what a recording says: {names(recorded)}.\n",
        section("A request", RequestDocument),
        "## `coordinator.responses`\n",
        f"{first_paragraph(ResponseDocument)}\n",
        "## Bodies of requests and responses\n",
        "A body has the fields of Kafka's message of this API and version, in snake case; `schemas/json/` says which "
        "fields are ours. One event asks for one group: whoever has several sends several events.\n",
        f"APIs with their versions: {', '.join(apis)}.\n",
        "## `coordinator.assignments`\n",
        f"{first_paragraph(GroupSnapshot)}\n",
        "## `coordinator.history`\n",
        section("What every record has", HistoryRecord),
        section("The cause", Cause),
        "### Records\n",
        short_list(get_args(History)),
        "## `coordinator.topics`\n",
        "\n".join(f"- {first_paragraph(kind)}" for kind in (KnownTopic, VersionsBegin)) + "\n",
        "## `coordinator.progress`\n",
        f"Coordinator, responders, gateways and members write it for each other: {names(get_args(ProgressRecord))}.\n",
        "## Reasons of dead letters\n",
        ", ".join(f"`{reason}`" for reason in (*EventProblem, OUTPUT_TOO_LARGE)) + "\n",
    ]
    return "\n".join(parts)


def test_document_is_up_to_date() -> None:
    head, mark, _ = DOCUMENT.read_text().partition(MARK)
    assert mark, "the mark of the generated part is missing"
    text = head + mark + "\n" + generated()
    if os.environ.get("REWRITE"):
        DOCUMENT.write_text(text)
    assert DOCUMENT.read_text() == text, "run `make schemas`, and look at what changed"
