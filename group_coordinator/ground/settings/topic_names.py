"""The names of the coordinator's topics, which all begin alike."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from schemas.settings import setting

TOPIC_NAME_MAX = 249  # as in org.apache.kafka.common.internals.Topic
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_SHOWN_MAX = 60


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the coordinator's topics."""

    events: str
    responses: str
    assignments: str
    offsets: str
    history: str
    dead_letters: str
    topics: str
    progress: str
    differences: str

    @classmethod
    def of_prefix(cls, prefix: str) -> Topics:
        """Return the topics of a prefix: `coordinator` gives `coordinator.events`, `coordinator.dead-letters` ..."""
        return cls(**{field: f"{prefix}.{field.replace('_', '-')}" for field in cls.__struct_fields__})

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics of outputs, which are a function of the events."""
        return self.responses, self.assignments, self.offsets, self.history, self.dead_letters


@dataclass(frozen=True, kw_only=True)
class TopicPrefix:
    """This class is the one home of the setting."""

    topic_prefix: str = setting(
        "coordinator", "What the names of all topics begin with: `coordinator` gives `coordinator.events`, "
        "`coordinator.responses` ...")

    @property
    def topics(self) -> Topics:
        return Topics.of_prefix(self.topic_prefix)

    def prefix_problems(self) -> list[str]:
        """Return a sentence if no topics can have such names."""
        longest = max(map(len, msgspec.structs.astuple(self.topics)))
        if longest <= TOPIC_NAME_MAX and _TOPIC_NAME.fullmatch(self.topic_prefix):
            return []
        return [
            f"topic_prefix is {self.topic_prefix[:_SHOWN_MAX]!r}, but topics cannot have such names: use letters, "
            f"digits, dots, hyphens and underscores, {TOPIC_NAME_MAX - longest + len(self.topic_prefix)} at the most."
        ]
