"""Errors that are no defects of ours are reported in a line, with an exit code, without a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException

from group_coordinator.ground.errors import ExpectedError
from group_coordinator.ground.settings.loading import ConfigError

FAILED, WRONG_USE = 1, 2


class CommandError(ExpectedError):
    """A command cannot do what it was asked for. The message is for the user; so is the exit code."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


EXPECTED = (ExpectedError, KafkaException, OSError)

HIDDEN = "********"
"""In place of the value of a property."""
_HIDDEN_CHARACTERS_MIN = 5
_NO_SECRET = re.compile(
    r"true|false|none|https?|pem|(sasl_)?(plaintext|ssl)|plain|scram-sha-(256|512)|[\d.]{1,5}[kmgt]?b?|local\[[\d*]+\]",
    re.IGNORECASE,
)
"""Values whose words a message needs."""
_hidden: set[str] = set()


def hide(values: Iterable[str]) -> None:
    """Hide these values of properties, of which some are passwords, in all messages from now on. Libraries do repeat
    them."""
    _hidden.update(
        value for value in values if len(value) >= _HIDDEN_CHARACTERS_MIN and not _NO_SECRET.fullmatch(value)
    )


def message_and_exit_code(problem: BaseException) -> tuple[str, int]:
    """Return the message and the exit code of one of `EXPECTED`, without any value of a property."""
    message, exit_code = _message_and_exit_code(problem)
    return masked(message, dict.fromkeys(_hidden, HIDDEN)), exit_code


def masked(text: str, masks: Mapping[str, str]) -> str:
    """Put masks in the places of values. The longest come first: a value may be a part of another one."""
    for value in sorted(masks, key=len, reverse=True):
        text = text.replace(value, masks[value])
    return text


def _message_and_exit_code(problem: BaseException) -> tuple[str, int]:
    match problem:
        case CommandError():
            return str(problem), problem.exit_code
        case ConfigError():
            return str(problem), WRONG_USE
        case KafkaException():
            error = problem.args[0]
            return f"Kafka: {error.str() if isinstance(error, KafkaError) else error}", FAILED
        case OSError(filename=str(name)) if problem.strerror:
            return f"{name}: {problem.strerror}", FAILED
        case _:
            return str(problem), FAILED
