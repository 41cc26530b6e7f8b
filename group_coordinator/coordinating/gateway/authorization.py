"""Rules in a file, one a line, say which principal may use which group, which of the coordinator's topics, and which
transactional id for offsets in transactions.

    # principal      group                        allow or deny
    User:billing     invoices-*                   allow
    User:*           scratch-*                    allow
    *                *                            deny
    # principal      topic NAME                   allow or deny
    User:auditor     topic coordinator.history    allow
    # principal      transaction ID               allow or deny
    User:billing     transaction invoicing-*      allow

`*` in a name stands for anything. The first rule that fits decides; what no rule fits is denied. Each kind of line says
nothing about the others. Without a file, clients on this machine (loopback) may use every group and transactional id,
and others none; the coordinator's topics are for nobody. All other topics are the brokers' matter.
"""

from __future__ import annotations

from fnmatch import translate
from functools import lru_cache
from re import Pattern
from re import compile as compile_pattern

from msgspec import Struct

from schemas.http_host import is_loopback

_is_this_machine = lru_cache(1_024)(is_loopback)
"""Asked for each request. A client's address is short; the names that others send are not cached."""
_VERDICTS = {"allow": True, "deny": False}
_GROUP, _TOPIC, _TRANSACTION = "group", "topic", "transaction"


class RulesError(ValueError):
    """A file of rules that cannot be understood: the line and why."""


class Rule(Struct, frozen=True):
    """One line."""

    principal: Pattern[str]
    name: Pattern[str]
    """Of groups, of topics, or transactional ids."""
    allows: bool
    about: str = _GROUP


class Authorizer:
    """Answers whether a client may use a group."""

    def __init__(self, rules: tuple[Rule, ...] | None) -> None:
        """`rules`: None for the default, loopback only."""
        self._rules = rules

    def allows(self, principal: str, client_host: str, group_id: str) -> bool:
        """Return whether the client may do this. `client_host` is the client's address."""
        if self._rules is None:
            return _is_this_machine(client_host)
        return self._says(principal, group_id, _GROUP)

    def allows_transaction(self, principal: str, client_host: str, transactional_id: str) -> bool:
        """Return whether the client may commit offsets in transactions of this id."""
        if self._rules is None:
            return _is_this_machine(client_host)
        return self._says(principal, transactional_id, _TRANSACTION)

    def allows_topic(self, principal: str, topic: str) -> bool:
        """Return whether a client may name one of the coordinator's topics."""
        return self._says(principal, topic, _TOPIC)

    def _says(self, principal: str, name: str, about: str) -> bool:
        for rule in self._rules or ():
            if rule.about == about and rule.principal.match(principal) and rule.name.match(name):
                return rule.allows
        return False


def parse_rules(text: str, topic_prefix: str = "") -> tuple[Rule, ...]:
    """Read a file's text. `topic_prefix`: what the coordinator's topics begin with. Raises RulesError."""
    rules = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        about = words[1] if len(words) == 4 and words[1] in (_TOPIC, _TRANSACTION) else _GROUP
        if not (about != _GROUP or len(words) == 3) or words[-1] not in _VERDICTS:
            raise RulesError(
                f"line {number}: expected a principal, a group (or the word topic and one of the coordinator's topics, "
                f"or the word transaction and a transactional id) and allow or deny, got {line.strip()!r}"
            )
        name = words[-2]
        if about == _TOPIC and "*" not in name and not name.startswith(f"{topic_prefix}."):
            raise RulesError(
                f"line {number}: {name!r} is no topic of the coordinator, whose names begin with "
                f"{topic_prefix + '.'!r}; who may use other topics is for the brokers to say"
            )
        rules.append(Rule(_pattern(words[0]), _pattern(name), _VERDICTS[words[-1]], about))
    return tuple(rules)


def _pattern(text: str) -> Pattern[str]:
    # Of fnmatch's wildcards only the star: names may well have brackets and question marks.
    return compile_pattern(translate(text.replace("[", "[[]").replace("?", "[?]")))
