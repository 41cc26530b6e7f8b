"""Check the sizes of Python files (400 lines), functions (50 lines) and lines (120 columns); `make lint` calls it.

`.ci/sizes.txt` lists what was larger when the check began: `path what size`. It may only get shorter. What is listed
may not grow, and what has become small enough must leave the list, for which `--update` is there; it adds nothing.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXCEPTIONS = ROOT / ".ci" / "sizes.txt"
FILE_LINES, FUNCTION_LINES, COLUMNS = 400, 50, 120

Sizes = dict[tuple[str, str], int]
"""(path, what) -> size. What is `lines`, `long-lines` or the name of a function."""


def main(arguments: list[str]) -> int:
    """Returns 1 if anything is wrong."""
    found, allowed = too_large(), read_exceptions()
    if arguments == ["--update"]:
        allowed = {key: min(size, found[key]) for key, size in allowed.items() if key in found}
        write_exceptions(allowed)
    problems = [
        f"{path}: {what} {size}, allowed {allowed.get((path, what), limit(what))}"
        for (path, what), size in found.items()
        if size > allowed.get((path, what), 0)
    ]
    for path, what in allowed.keys() - found.keys():
        problems.append(f"{path}: {what} is small enough now: .ci/check_sizes.py --update")
    for problem in sorted(problems):
        sys.stderr.write(f"{problem}\n")
    return min(1, len(problems))


def limit(what: str) -> int:
    return {"lines": FILE_LINES, "long-lines": 0}.get(what, FUNCTION_LINES)


def too_large() -> Sizes:
    """All that is above the limits, in the files that git knows."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [path for path in listed.splitlines() if (ROOT / path).is_file()]
    return {(path, what): size for path in paths for what, size in of_file(ROOT / path)}


def of_file(file: Path) -> Iterator[tuple[str, int]]:
    """What is above the limits in one file."""
    text = file.read_text()
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        yield "lines", len(lines)
    if long_lines := sum(len(line) > COLUMNS for line in lines):
        yield "long-lines", long_lines
    largest: dict[str, int] = {}
    for name, size in functions(ast.parse(text), ""):
        largest[name] = max(size, largest.get(name, 0))
    yield from ((name, size) for name, size in largest.items() if size > FUNCTION_LINES)


def functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    """Name and lines of each function, without its decorators."""
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield name.rstrip("."), (child.end_lineno or child.lineno) - child.lineno + 1
        yield from functions(child, name)


def read_exceptions() -> Sizes:
    entries = (line.split() for line in EXCEPTIONS.read_text().splitlines() if line and not line.startswith("#"))
    return {(path, what): int(size) for path, what, size in entries}


def write_exceptions(sizes: Sizes) -> None:
    head = "# What is larger than .ci/check_sizes.py allows. This list may only get shorter.\n"
    EXCEPTIONS.write_text(head + "".join(f"{path} {what} {size}\n" for (path, what), size in sorted(sizes.items())))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
