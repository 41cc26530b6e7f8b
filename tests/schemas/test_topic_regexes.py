"""Expressions are accepted and match as in RE2/J, which Kafka uses."""

from __future__ import annotations

import json
import lzma
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
        ("(?=a)", "invalid perl operator"),
        (r"a\C", r"invalid escape sequence: \\C"),
        ("a{?", r"invalid nested repetition operator: \{\?"),
        ("\ud800", "no Unicode text"),
    ],
)
def test_why_an_expression_is_refused(regex: str, reason: str) -> None:
    with pytest.raises(InvalidTopicRegex, match=reason):
        check_topic_regex(regex)
    with pytest.raises(InvalidTopicRegex, match=reason):
        matching_topics(regex, ["a"])
