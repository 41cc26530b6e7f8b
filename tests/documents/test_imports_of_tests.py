"""A file of tests is no library: what tests share lies in modules of helpers."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_module_imports_from_a_file_of_tests() -> None:
    imports = {
        f"{path.relative_to(TESTS)}: {line}"
        for path in TESTS.rglob("*.py")
        for line in re.findall(r"^\s*(?:from|import) tests\.[\w.]*\btest_\w+.*", path.read_text(), re.MULTILINE)
    }
    assert not imports
