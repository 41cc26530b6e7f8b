"""A group under test whose events are kept as the records of a log."""

from __future__ import annotations

from typing import Any

from coordinator_state import Output
from schemas.events import RENEWAL_AT_PRESENT, SESSION_RENEWAL, encode_json, encode_request_event, encode_tick
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from schemas.records_file import Record
from tests.coordinator_state.consumer.harness import ConsumerHarness


class LoggedGroup(ConsumerHarness):
    """Its outputs are told apart from those of the log by their offsets alone: in the log ticks have some, too."""

    def __init__(self, *arguments: Any, **config: Any) -> None:
        super().__init__(*arguments, **config)
        self.log: list[Record] = []
        self._tick()

    def send(self, api: str, request: Any, version: int | None = None, **envelope: Any) -> list[Output]:
        outputs = super().send(api, request, version, **envelope)
        fields: dict[str, Any] = {"request_id": f"r{self.offset}", "client_id": "client", "reply_partition": 0}
        api_version = self.versions.get(api, 0) if version is None else version
        self._append(
            self.group_id.encode(), encode_request_event(api, api_version, request, **(fields | envelope))
        )
        return outputs

    def tell(self, fact: TopicMetadata | RegexesResolved | GroupConfiguration) -> list[Output]:
        self._append(self.group_id.encode(), encode_json(fact))
        return super().tell(fact)

    def renew_sessions(self, to_ms: int | None = None) -> list[Output]:
        outputs = super().renew_sessions(to_ms)
        self._append(self.group_id.encode(), SESSION_RENEWAL if to_ms is None else RENEWAL_AT_PRESENT)
        self._tick()
        return outputs

    def sleep(self, duration_ms: int) -> list[Output]:
        outputs = super().sleep(duration_ms)
        self._tick()
        return outputs

    def _tick(self) -> None:
        self._append(None, encode_tick(self.now_ms))

    def _append(self, key: bytes | None, value: bytes) -> None:
        self.log.append(
            Record(partition=0, offset=len(self.log), timestamp_ms=self.now_ms, key=key, value=value)
        )
