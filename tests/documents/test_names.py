"""Names in documents are real: commands and their options, settings, metrics, targets of the Makefile, modules."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from group_coordinator.coordinating.operations.gateway_metrics import GATEWAY_METRICS
from group_coordinator.coordinating.transactions.relays import RELAY_METRICS
from group_coordinator.ground.monitoring.metrics import METRICS
from tests.command_line.calls import commands

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
HISTOGRAM_SERIES = ("_bucket", "_count", "_sum")
OPTIONS_OF_OTHERS = {
    *("--archives", "--driver-java-options", "--executor-memory", "--py-files"),  # spark-submit
    *("--cluster", "--operation", "--topic"),  # kafka-acls.sh
    *("--delete", "--delete-offsets", "--describe", "--from-file", "--list", "--members", "--reset-offsets"),
    "--profile",  # docker compose
    "--away-minutes",  # make endurance
}


def spans(document: Path) -> list[str]:
    """The texts in backticks, outside of blocks."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def printed_lines(document: Path) -> list[str]:
    """Lines of blocks, fenced or indented, and texts in backticks."""
    text = document.read_text().replace("\\\n", " ")
    fenced = [
        line
        for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    return [*fenced, *re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE), *spans(document)]


@cache
def all_commands() -> dict[str, set[str]]:
    """Words of a command -> its options."""
    return {
        " ".join(words): {
            name
            for parameter in command.params
            for name in (*parameter.opts, *parameter.secondary_opts)
            if name.startswith("-")
        }
        | {"--help", "--version"}
        for words, command in commands().items()
    }


@cache
def identifiers() -> set[str]:
    """Every name in a file of the repository that is not documentation."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    kinds = (".py", ".java", ".js", ".json", ".toml", ".yml", ".yaml", ".xml", ".lock", "Makefile", "Dockerfile")
    own_path = Path(__file__).relative_to(ROOT).as_posix()
    texts = [
        (ROOT / name).read_text()
        for name in listed
        if name.endswith(kinds) and name != own_path and (ROOT / name).exists()
    ]
    return {Path(name).stem for name in listed} | {word for text in texts for word in re.findall(r"\w+", text)}


def problem_of(line: str) -> str | None:
    """What is wrong with a line that calls a command of ours."""
    words = line.partition(" #")[0].partition(" | ")[0].split()[1:]
    command = ""
    while words and f"{command} {words[0]}".strip() in all_commands():
        command = f"{command} {words.pop(0)}".strip()
    groups = {name.rpartition(" ")[0] for name in all_commands() if name}
    if command in groups and words and words[0].islower() and not words[0].startswith("-"):
        return f"{line}: no command {words[0]}"
    unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - all_commands()[command]
    return f"{line}: no option {unknown}" if unknown else None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_their_options(document: Path) -> None:
    lines = [line for line in printed_lines(document) if line.startswith("group-coordinator ")]
    assert [problem for line in lines if (problem := problem_of(line))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_in_the_text(document: Path) -> None:
    """An option in backticks is one of a command of ours, or of a program that `python -m` or `make` calls."""
    known_options = OPTIONS_OF_OTHERS.union(*all_commands().values())
    texts = [span for span in spans(document) if not span.startswith(("python -m", "make ", "kafka-"))]
    named_options = {
        option for span in texts for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", span) if not option.endswith("-")
    }
    own_names = {f"--{name}" for name in identifiers()}
    assert sorted(named_options - known_options - own_names) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_names_with_underscores(document: Path) -> None:
    """Settings, fields, columns, rules, modules: a name in backticks stands in the code."""
    names = {word for span in spans(document) for word in re.findall(r"(?<![\w*.])[A-Za-z]\w*_\w+(?![\w*])", span)}
    metrics = {metric.name for metric in (*METRICS, *GATEWAY_METRICS, *RELAY_METRICS)}
    series = {name + suffix for name in metrics for suffix in HISTOGRAM_SERIES}
    moments = {name[: -len("_ms")] + "_at" for name in identifiers() if name.endswith("_ms")}
    variables = {f"GROUP_COORDINATOR_{name.upper()}" for name in identifiers()}
    assert sorted(names - identifiers() - metrics - series - moments - variables) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_targets_of_the_makefile(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named_targets = {target for line in printed_lines(document) for target in re.findall(r"^make ([a-z][\w-]*)", line)}
    assert sorted(named_targets - targets) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_modules_and_their_options(document: Path) -> None:
    """`python -m benchmarks.core --jvm`: the module is there, and its source has the option."""
    pattern = re.compile(r"python -m ((?:benchmarks|group_coordinator|tests|simulation)[\w.]*)(.*)")
    wrong_lines = []
    for line in printed_lines(document):
        for module, tail in pattern.findall(line):
            place = ROOT / module.replace(".", "/")
            source = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
            text = source.read_text() if source.exists() else ""
            options = re.findall(r"(?<![\w-])--[a-z][\w-]*", tail)
            if not text or [option for option in options if f'"{option}"' not in text]:
                wrong_lines.append(line)
    assert wrong_lines == []
