"""The cache for short arguments."""

from __future__ import annotations

from schemas.small_cache import small_cache


def test_short_arguments_are_kept_and_long_ones_are_not() -> None:
    computed: list[str] = []

    @small_cache(entries=2, longest=3)
    def upper(text: str) -> str:
        """What it does."""
        computed.append(text)
        return text.upper()

    assert [upper(argument) for argument in ("abc", "abc", "long", "long")] == ["ABC", "ABC", "LONG", "LONG"]
    assert computed == ["abc", "long", "long"]
    for argument in ("b", "c", "abc"):
        upper(argument)
    assert computed.count("abc") == 2
    assert upper.__doc__ == "What it does."
