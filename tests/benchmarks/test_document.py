"""The page has a place for what each benchmark writes."""

import re
from pathlib import Path

import pytest

from benchmarks import document
from benchmarks.__main__ import BENCHMARKS

WRITING = [name for name, benchmark in BENCHMARKS.items() if "--write" in benchmark.full]


@pytest.fixture
def copied_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    page = tmp_path / "performance.md"
    page.write_text(document.PAGE.read_text())
    monkeypatch.setattr(document, "PAGE", page)
    monkeypatch.setattr(document, "this_run", lambda: "Run of today.")
    return page


@pytest.mark.parametrize("name", WRITING)
def test_each_benchmark_has_a_section(name: str, copied_page: Path) -> None:
    before = copied_page.read_text()
    document.write_section(name, "figures of today")
    after = copied_page.read_text()
    assert f"<!-- {name} -->\n\nRun of today.\n\nfigures of today\n\n<!-- /{name} -->" in after
    assert after.partition(f"<!-- {name} -->")[0] == before.partition(f"<!-- {name} -->")[0]
    assert after.partition(f"<!-- /{name} -->")[2] == before.partition(f"<!-- /{name} -->")[2]


def test_each_table_says_of_which_run_it_is() -> None:
    page = document.PAGE.read_text()
    assert re.match(r"Run of \d{4}-\d\d-\d\d(, commit [0-9a-f]{7,})?\.$", document.this_run())
    assert WRITING
    for name in WRITING:
        assert re.search(rf"<!-- {name} -->\n\nRun of \d{{4}}-\d\d-\d\d(, commit [0-9a-f]{{7,}})?\.\n\n", page), name


def test_what_was_printed_is_written(copied_page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say = document.Printed()
    say("\n1,000 groups")
    say(" query  42")
    say.write_section("query")
    assert capsys.readouterr().out == "\n1,000 groups\n query  42\n"
    assert (
        "<!-- query -->\n\nRun of today.\n\n```\n1,000 groups\n query  42\n```\n\n<!-- /query -->"
        in copied_page.read_text()
    )


def test_a_page_without_the_marks_is_an_error(copied_page: Path) -> None:
    copied_page.write_text("# Performance\n")
    with pytest.raises(ValueError, match=r"has no section <!-- query -->"):
        document.write_section("query", "figures")
