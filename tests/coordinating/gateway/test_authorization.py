"""Rules: the first that fits decides, none denies."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.gateway.authorization import Authorizer, RulesError, parse_rules
from schemas.http_host import is_loopback

RULES = """
# who            what        verdict
User:billing     invoices-*  allow
User:billing     *           deny    # even what all others may
User:*           scratch[1]  allow
*                public.?    allow
"""


@pytest.mark.parametrize(
    ("principal", "group", "allowed"),
    [
        ("User:billing", "invoices-7", True),
        ("User:billing", "public.?", False),
        ("User:carol", "public.?", True),
        ("User:carol", "public.x", False),
        ("User:carol", "scratch[1]", True),
        ("User:carol", "scratch1", False),
        ("User:carol", "invoices-7", False),
        ("User:ANONYMOUS", "public.?", True),
        ("User:billing2", "invoices-7", False),
    ],
)
def test_rules(principal: str, group: str, allowed: bool) -> None:
    assert Authorizer(parse_rules(RULES)).allows(principal, "127.0.0.1", group) is allowed


def test_without_rules_this_machine_and_no_other() -> None:
    authorizer = Authorizer(None)
    assert authorizer.allows("User:ANONYMOUS", "127.0.0.1", "g")
    assert authorizer.allows("User:ANONYMOUS", "::1", "g")
    assert not authorizer.allows("User:admin", "10.1.2.3", "g")
    assert not is_loopback("localhost.example.com")


def test_an_empty_file_denies() -> None:
    assert not Authorizer(parse_rules("# nothing\n")).allows("User:a", "127.0.0.1", "g")


@pytest.mark.parametrize("line", ["User:a g", "User:a g maybe", "User:a g h allow"])
def test_mistakes_name_their_line(line: str) -> None:
    with pytest.raises(RulesError, match="line 2"):
        parse_rules(f"* * allow\n{line}")
