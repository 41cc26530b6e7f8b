"""Which principal may use which group: rules in a file, one a line, the first that fits decides.

    # principal      group          allow or deny
    User:billing     invoices-*     allow
    User:*           scratch-*      allow
    *                *              deny

`*` in a name stands for anything. What no rule fits is denied. Without a file, clients on this machine (loopback) may use
every group and others none.
"""

from __future__ import annotations

import ipaddress
from fnmatch import translate
from functools import lru_cache
from re import Pattern
from re import compile as compile_pattern

from msgspec import Struct

_VERDICTS = {"allow": True, "deny": False}


class RulesError(ValueError):
    """A file of rules that cannot be understood: the line and why."""


class Rule(Struct, frozen=True):
    """One line."""

    principal: Pattern[str]
    group: Pattern[str]
    allows: bool


class Authorizer:
    """Answers whether a client may use a group."""

    def __init__(self, rules: tuple[Rule, ...] | None) -> None:
        """`rules`: None for the default, loopback only."""
        self._rules = rules

    def allows(self, principal: str, client_host: str, group_id: str) -> bool:
        """`client_host` is the client's address."""
        if self._rules is None:
            return is_loopback(client_host)
        for rule in self._rules:
            if rule.principal.match(principal) and rule.group.match(group_id):
                return rule.allows
        return False


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Read a file's text. Raises RulesError."""
    rules = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 3 or words[2] not in _VERDICTS:
            raise RulesError(f"line {number}: expected a principal, a group and allow or deny, got {line.strip()!r}")
        principal, group, verdict = words
        rules.append(Rule(_pattern(principal), _pattern(group), _VERDICTS[verdict]))
    return tuple(rules)


@lru_cache(1_024)
def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _pattern(text: str) -> Pattern[str]:
    # Of fnmatch's wildcards only the star: names may well have brackets and question marks.
    return compile_pattern(translate(text.replace("[", "[[]").replace("?", "[?]")))
