"""Expressions are accepted and match as in RE2/J, which Kafka uses."""

from __future__ import annotations

import json
import lzma
import resource
import time
from contextlib import suppress
from pathlib import Path

import pytest

from schemas.topic_regexes import InvalidTopicRegex, check_topic_regex, matching_topics

FIXTURE = Path(__file__).parents[1] / "fixtures" / "vectors" / "topic_regexes.jsonl.xz"


def test_as_re2j() -> None:
    about, *recorded = map(json.loads, lzma.decompress(FIXTURE.read_bytes()).splitlines())
    refused = 0
    for regex, expected in recorded:
        if expected is None:
            refused += 1
            with pytest.raises(InvalidTopicRegex):
                check_topic_regex(regex)
        else:
            assert sorted(matching_topics(regex, about["names"])) == sorted(expected), regex
    assert 1_000 < refused < len(recorded) - 1_000


def test_the_whole_name_matches() -> None:
    assert matching_topics("orders|pay", ["orders-eu", "orders", "payments", "pay"]) == ("orders", "pay")


def test_matches_are_in_javas_order() -> None:
    assert matching_topics(".*", ["\uffe6", "b", "\U0001f600", "B"]) == ("B", "b", "\U0001f600", "\uffe6")


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("a(", r"missing \)"),
        ("a{1001}", "invalid repetition size"),
        ("a{0,10000000000}", "invalid repetition size"),
        ("(?=a)", "invalid perl operator"),
        (r"a\C", r"invalid escape sequence: \\C"),
        ("a{?", r"invalid nested repetition operator: \{\?"),
        ("\ud800", "no Unicode text"),
        ("(?P<n>a)|(?<n>b)", "duplicate capture group name: n"),
        ("(?P<é>a)", "invalid named capture group"),
    ],
)
def test_why_an_expression_is_refused(regex: str, reason: str) -> None:
    with pytest.raises(InvalidTopicRegex, match=reason):
        check_topic_regex(regex)
    with pytest.raises(InvalidTopicRegex, match=reason):
        matching_topics(regex, ["a"])


LONGEST = 32_767
"""Of a string on the wire."""


@pytest.mark.parametrize(
    "regex",
    [
        "[" * LONGEST,
        "[a" * (LONGEST // 2),
        "[:a" * (LONGEST // 3),
        "[[:" + "a" * (LONGEST - 3),
        "a[" + r"\]" * (LONGEST // 2 - 1),
        "(" * (LONGEST // 2) + ")" * (LONGEST // 2),
        "()" * (LONGEST // 2),
        "".join([f"(?P<n{number}>" for number in range(2_500)]) + ")" * 2_500,
        "(?P<" * (LONGEST // 4),
        "(a|b)*" * (LONGEST // 6),
        r"\Qa\E" * (LONGEST // 5),
        r"\Q" * (LONGEST // 2),
        "x{1" * (LONGEST // 3),
        "{" * LONGEST,
    ],
    ids=lambda regex: regex[:6],
)
def test_no_expression_takes_long_or_much_room(regex: str) -> None:
    """A member may send any, and the coordinator checks it between two heartbeats of others."""
    assert len(regex) <= LONGEST
    began_s, room_kb = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(InvalidTopicRegex):
        matching_topics(regex, [f"topic-{number}" for number in range(1_000)])
    assert time.process_time() - began_s < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - room_kb < 100_000


def test_programs_that_are_large_are_not_kept() -> None:
    """RE2 for Python keeps the last 128, whatever room they take."""
    check_topic_regex(r"\pL" * 100)
    room_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(30):
        check_topic_regex(f"{number}" + r"\pL" * 200)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - room_kb < 60_000


@pytest.mark.parametrize(
    ("regex", "names"),
    [
        ("(?P<first>a)(?<second>b)(c)", ("abc",)),
        ("[(?P<n>a]+", ("<?aP",)),
        (r"\Q(?P<n>\E", ("(?P<n>",)),
        (r"\(?P<n>a", ("P<n>a", "(P<n>a")),
    ],
)
def test_groups_with_names(regex: str, names: tuple[str, ...]) -> None:
    assert set(matching_topics(regex, ["abc", "ab", "<?aP", "(?P<n>", "P<n>a", "(P<n>a", "a"])) >= set(names)
