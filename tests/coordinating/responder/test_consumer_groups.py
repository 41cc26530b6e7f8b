"""A responder answers a group of both protocols as the core does, from the beginning of a log and from a state."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from coordinator_state import Answer
from group_coordinator.coordinating.responder.answering import AnsweringShard
from schemas.events import encode_json
from streaming.config import StreamingConfig
from streaming.stored_group import ShardState
from tests.coordinating.responder.logged_group import LoggedGroup
from tests.coordinating.responder.query_batches import states_after_batches
from tests.coordinator_state.consumer.random_requests import RandomRequests
from tests.coordinator_state.harness import of_type

EMPTY = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=0, groups={})
STORIES = 20


def told(value: bytes) -> str:
    """An answer without its place in the log: that of the harness has no ticks."""
    document = json.loads(value)
    return json.dumps({name: field for name, field in document.items() if name not in ("epoch", "answers_offset")})


@pytest.mark.parametrize("first", range(0, 3 * STORIES, STORIES))
def test_any_requests_are_answered_as_by_the_core(first: int) -> None:
    for seed in range(first, first + STORIES):
        story = RandomRequests(seed, one_batch=False, harness=LoggedGroup)
        answers = [told(encode_json(answer.document())) for answer in of_type(story.play(), Answer)]
        assert isinstance(story.group, LoggedGroup)
        config = replace(StreamingConfig().operator_config(), group=story.group.config)
        states = states_after_batches(story.group.log, config, 1 + seed % 9)
        for state in (EMPTY, *states[:: len(states) // 3 + 1]):
            shard = AnsweringShard(config, state)
            said = [
                told(answer.value or b"")
                for record in story.group.log[state.start_offset :]
                for answer in shard.take(record.key, record.value, record.offset or 0, record.timestamp_ms or 0)
            ]
            assert said == answers[len(answers) - len(said) :], (seed, state.batch_id)
            assert len(said) == len(answers) or state is not EMPTY
