"""docs/topics.md names every field of every topic: its lists are made from the types."""

import os
from pathlib import Path
from typing import get_args

from msgspec import Struct

from schemas.events import (
    OUTPUT_TOO_LARGE,
    DeletedTopic,
    EventProblem,
    RequestDocument,
    ResponseDocument,
    SessionRenewal,
    Tick,
    TopicsDeleted,
    TransactionEnded,
)
from schemas.history import (
    AssignedTopic,
    Cause,
    GroupSnapshot,
    History,
    HistoryRecord,
    MemberAssignment,
    MemberIdentity,
    MemberRecorded,
    OffsetChange,
    SnapshotMember,
    SnapshotSubscription,
    Waited,
)
from schemas.known_topics import KnownTopic, VersionsBegin
from schemas.message_types import Message
from schemas.messages import APIS
from schemas.query_progress import AnswerDifference, GatewayAlive, QueryProgress, ResponderClaim, ResponderProgress
from schemas.recorded import (
    RecordedDeparture,
    RecordedGroup,
    RecordedLeader,
    RecordedLoad,
    RecordedMember,
    RecordedOffset,
    RecordedRequest,
    RecordedSession,
    RecordingGap,
)
from schemas.transaction_messages import TransactionLogPosition
from tests.documents.fields import field_list, field_names, first_paragraph

DOCUMENT = Path(__file__).parents[2] / "docs" / "topics.md"
MARK = "<!-- generated: everything below is written by `make schemas` -->\n"


def section(title: str, kind: type[Struct], *, level: int = 3) -> str:
    tag = kind.__struct_config__.tag if kind is not HistoryRecord else None
    about = first_paragraph(kind) + (f" Its `type` is `{tag}`." if tag else "")
    return f"{'#' * level} {title}\n\n{about}\n\n{field_list(kind)}\n"


def api_sections() -> list[str]:
    parts = []
    for name, api in APIS.items():
        title = f"### {name} (key {int(api.key)}, versions {api.min_version}-{api.max_version})\n"
        parts += [
            title,
            *(
                f"{field_list(kind, label=label)}\n"
                for label, kind in (("Request:", api.request), ("Response:", api.response))
            ),
        ]
    shown_kinds = {kind for api in APIS.values() for kind in (api.request, api.response)}
    parts.append("### Parts of requests and responses\n")
    parts += [
        f"{field_list(kind, label=f'`{kind.__name__}`:')}\n"
        for kind in sorted(Message.__subclasses__(), key=lambda kind: kind.__name__)  # whatever was imported first
        if kind not in shown_kinds and not kind.__name__.startswith("List")
    ]
    return parts


def history_sections() -> list[str]:
    parts = []
    for kind in get_args(History):
        own_fields = field_list(kind, without=field_names(HistoryRecord))
        parts += [
            f"### `{kind.__struct_config__.tag}`\n",
            f"{first_paragraph(kind)}\n",
            *([f"{own_fields}\n"] if own_fields else []),
        ]
    return parts


def generated() -> str:
    parts = [
        "## `coordinator.events`\n",
        section("A tick", Tick),
        section("A renewal of sessions", SessionRenewal),
        section("Topics that were deleted", TopicsDeleted),
        section("One of them", DeletedTopic),
        section("A transaction that ended", TransactionEnded),
        section("A place in a log of transactions", TransactionLogPosition),
        section("What a recording says: whom it elected", RecordedLeader),
        section("What a recording says: a group in the middle of its life", RecordedGroup),
        section("A member of it", RecordedMember, level=4),
        section("A committed offset of it", RecordedOffset, level=4),
        section("What a recording says: another coordinator", RecordedLoad),
        section("What a recording says: when a session ended", RecordedSession),
        section("What a recording says: that a member is gone", RecordedDeparture),
        section("What a recording says: that it does not tell", RecordingGap),
        section("A request", RequestDocument),
        section("Where a recording has it", RecordedRequest, level=4),
        "## `coordinator.responses`\n",
        section("An answer", ResponseDocument),
        "## Bodies of requests and responses\n",
        *api_sections(),
        "## `coordinator.assignments`\n",
        section("The group", GroupSnapshot),
        section("A member", SnapshotMember),
        section("What a consumer group subscribes to", SnapshotSubscription),
        "## `coordinator.history`\n",
        section("What every record has", HistoryRecord),
        section("The cause", Cause),
        *history_sections(),
        "### Parts of history records\n",
        *(
            f"`{kind.__name__}`: {first_paragraph(kind)}\n\n{field_list(kind)}\n"
            for kind in (MemberIdentity, MemberRecorded, Waited, MemberAssignment, AssignedTopic, OffsetChange)
        ),
        "## `coordinator.topics`\n",
        section("A topic of the cluster", KnownTopic),
        section("Where versions begin", VersionsBegin),
        "## `coordinator.progress`\n",
        section("Where the query is", QueryProgress),
        section("A responder answers", ResponderClaim),
        section("How far a responder is", ResponderProgress),
        section("A gateway is there", GatewayAlive),
        section("An answer differs", AnswerDifference),
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
