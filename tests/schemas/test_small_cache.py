"""The cache for short arguments."""

from __future__ import annotations

from schemas.small_cache import small_cache


def test_short_arguments_are_kept_and_long_ones_are_not() -> None:
    asked: list[str] = []

    @small_cache(entries=2, longest=3)
    def upper(text: str) -> str:
        """What it does."""
        asked.append(text)
        return text.upper()

    assert [upper(each) for each in ("abc", "abc", "long", "long")] == ["ABC", "ABC", "LONG", "LONG"]
    assert asked == ["abc", "long", "long"]
    for each in ("b", "c", "abc"):
        upper(each)
    assert asked.count("abc") == 2
    assert upper.__doc__ == "What it does."
