"""Whatever comes to a group of both protocols: nothing stops the job, batches cannot be seen, and records can be read.
"""

from __future__ import annotations

import pytest

from coordinator_state import LogRecord
from schemas.kafka.records import decode_record
from streaming.config import StreamingConfig
from streaming.rows import output_record
from tests.coordinator_state.consumer.random_requests import RandomRequests

STORIES = 40


@pytest.mark.parametrize("first", range(0, 5 * STORIES, STORIES))
def test_any_requests_are_answered_whatever_the_batches(first: int) -> None:
    config = StreamingConfig().operator_config()
    for seed in range(first, first + STORIES):
        outputs = RandomRequests(seed, one_batch=False).play()
        assert outputs == RandomRequests(seed, one_batch=True).play(), seed
        for output in outputs:
            record = output_record(output, config)
            if type(output) is LogRecord:
                assert record.key is not None
                decode_record(record.key, record.value)
