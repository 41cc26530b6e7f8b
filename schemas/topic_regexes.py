"""Regular expressions that members of consumer groups subscribe with: RE2/J's, matched against whole topic names.

They are run by RE2, of which RE2/J is the port. It takes time that grows with the length of the expression, and what is
done here beforehand must not take more. Where the two differ in what they accept, it is as in RE2/J (1.8): `\\C`, a
repetition of a literal `{`, a count of very many digits, and a name of a group that comes twice or is not of ASCII are
refused, and a backslash before a character beyond ASCII means that character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import re2

from schemas.java_hash import java_string_order

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_MATCHING = re2.Options()
_MATCHING.log_errors = False
_MATCHING.never_capture = True
"""RE2 for Python asks what each group of a match has matched, which takes room by the square of their number."""
_PROGRAM_KEPT = 1_000
"""RE2 for Python keeps the last 128 programs. One of more instructions than this would take too much room."""

_QUOTED = r"\\Q.*?(?:\\E|\Z)"
_CLASS = r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
_ESCAPED = r"\\."
_COUNT = "(?:0|[1-9][0-9]*)"
"""With a zero in front it is none, and its braces stand for themselves."""
_REPETITION = rf"\{{{_COUNT}(?:,{_COUNT}?)?\}}|[*+?]"
_BEYOND_RE2 = re.compile(r"\d{9}")
"""RE2 does not read numbers of ten digits: to it their braces stand for themselves, to RE2/J the count is too large."""
_NAMED_GROUP = r"\(\?P?<(?P<name>[^()>]*)>"
_TOKENS = re.compile(
    f"(?P<quoted>{_QUOTED})|{_CLASS}|{_ESCAPED}|(?P<repetition>{_REPETITION})|{_NAMED_GROUP}|.", re.DOTALL
)
_ESCAPED_BEYOND_ASCII = re.compile(r"\\([^\x00-\x7f])")


class InvalidTopicRegex(ValueError):
    """An expression that is none; the message says why."""


def check_topic_regex(regex: str) -> None:
    """Raise `InvalidTopicRegex` for an expression that is none."""
    _compile(_for_re2(regex), _OPTIONS)


def matching_topics(regex: str, topic_names: Iterable[str]) -> tuple[str, ...]:
    """Return the topics whose whole name matches, in Java's order of strings. Raises `InvalidTopicRegex`."""
    check_topic_regex(regex)
    matches = _compile(_for_re2(regex, names_groups=False), _MATCHING).fullmatch
    return tuple(sorted([name for name in topic_names if matches(name)], key=java_string_order))


def _compile(expression: str, options: re2.Options) -> re2._Regexp:
    try:
        compiled = re2.compile(expression, options)
    except re2.error as error:
        raise InvalidTopicRegex(error.args[0].decode("utf-8", "replace")) from None
    except UnicodeEncodeError:
        raise InvalidTopicRegex("it is no Unicode text") from None
    if compiled.programsize > _PROGRAM_KEPT:
        re2.purge()
    return compiled


def _for_re2(regex: str, *, names_groups: bool = True) -> str:
    """Return what RE2 is to run. Raises `InvalidTopicRegex` for what RE2 accepts and RE2/J does not."""
    tokens: list[str] = []
    names: set[str] = set()
    for match in _TOKENS.finditer(regex):
        token = match.group()
        if token == "[":  # a class without an end: RE2 says so
            tokens.append(regex[match.start() :])
            break
        if token == r"\C":
            raise InvalidTopicRegex(r"invalid escape sequence: \C")
        if match["repetition"] and tokens[-1:] == ["{"]:
            raise InvalidTopicRegex(f"invalid nested repetition operator: {{{token}")
        if match["repetition"] and _BEYOND_RE2.search(token):
            raise InvalidTopicRegex(f"invalid repetition size: {token}")
        if (name := match["name"]) is not None:
            if name in names or not name.isascii():
                problem = "duplicate capture group name" if name in names else "invalid named capture group"
                raise InvalidTopicRegex(f"{problem}: {name}")
            names.add(name)
            token = token if names_groups else "("
        tokens.append(token if match["quoted"] else _ESCAPED_BEYOND_ASCII.sub(r"\1", token))
    return "".join(tokens)
