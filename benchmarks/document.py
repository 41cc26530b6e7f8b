"""Writes what was measured into docs/performance.md: tables between markers, and plots beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"


def write_section(name: str, text: str) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`. ValueError when the page has no such marks."""
    page = PAGE.read_text()
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not marked.search(page):
        raise ValueError(f"{PAGE.name} has no section <!-- {name} -->")
    PAGE.write_text(marked.sub(lambda found: f"{found[1]}\n{text.strip()}\n\n{found[2]}", page))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table; the first `words` columns are text, the others numbers."""
    rule = ["---" if column < words else "--:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def plot_factors(name: str, rows: Sequence[tuple[str, Sequence[float | None]]], legend: Sequence[str], goal: float, title: str) -> None:
    """Horizontal bars of factors on a logarithmic scale, with a line at the goal, as docs/images/`name`.svg."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = name  # the same picture for the same figures
    height = 0.8 / len(legend)
    figure, axes = pyplot.subplots(figsize=(7.2, 0.8 + 0.34 * len(rows)))
    for place, series in enumerate(legend):
        bars = [(row + place * height, values[place]) for row, (_, values) in enumerate(rows)]
        shown = [(at, value) for at, value in bars if value is not None]
        drawn = axes.barh([at for at, _ in shown], [value for _, value in shown], height, label=series)
        axes.bar_label(drawn, [f"{value:.1f}" if value < 10 else f"{value:.0f}" for _, value in shown], padding=2, fontsize=7)
    axes.axvline(goal, color="black", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(rows))], [label for label, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(title, fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    if len(legend) > 1:
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(DOCS / "images" / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)
