"""Writes what was measured into docs/performance.md: tables, or what was printed, between marks; and plots beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"


def write_section(name: str, text: str) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->`. ValueError when the page has no such marks."""
    page = PAGE.read_text()
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not marked.search(page):
        raise ValueError(f"{PAGE.name} has no section <!-- {name} -->")
    PAGE.write_text(marked.sub(lambda found: f"{found[1]}\n{text.strip()}\n\n{found[2]}", page))


class Printed:
    """What a benchmark prints, kept for the page."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, line: str = "") -> None:
        print(line, flush=True)
        self._lines.append(line)

    def write_section(self, name: str) -> None:
        text = "\n".join(self._lines).strip("\n")
        write_section(name, f"```\n{text}\n```")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table; the first `words` columns are text, the others numbers."""
    rule = ["---" if column < words else "--:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def plot_bars(name: str, rows: Sequence[tuple[str, Sequence[float | None]]], legend: Sequence[str], goal: float | None, title: str) -> None:
    """Horizontal bars of factors, one colour for each of the legend, with a line at the goal, if any: docs/images/`name`.svg."""
    pyplot = _pyplot(name)
    height = 0.8 / len(legend)
    figure, axes = pyplot.subplots(figsize=(7.2, 1.1 + 0.17 * len(rows) * len(legend)))
    for place, series in enumerate(legend):
        shown = [(row + place * height, value) for row, (_, values) in enumerate(rows) if (value := values[place]) is not None]
        drawn = axes.barh([at for at, _ in shown], [value for _, value in shown], height, label=series)
        axes.bar_label(drawn, [f"{value:.{1 if value >= 1 else 2}f}" for _, value in shown], padding=2, fontsize=7)
    if goal is not None:
        axes.axvline(goal, color="black", linewidth=0.8, linestyle="--")
    axes.margins(x=0.08)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(rows))], [label for label, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(title, fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    # Above the bars, so that it hides none.
    figure.legend(*axes.get_legend_handles_labels(), fontsize=8, ncols=min(3, len(legend)), loc="outside upper center")
    _save(figure, name)


def plot_lines(
    name: str, panels: dict[str, dict[str, list[tuple[float, float]]]], goal: float, x_title: str, y_title: str
) -> None:
    """Factors against a size, a panel each, a line for each name, with a line at the goal: docs/images/`name`.svg."""
    pyplot = _pyplot(name)
    figure, all_axes = pyplot.subplots(1, len(panels), sharey=True, figsize=(7.2, 3.4))
    for axes, (title, lines) in zip(all_axes, panels.items(), strict=True):
        for number, (label, points) in enumerate(lines.items()):
            style = ("-", "--")[number % 2]
            axes.plot(*zip(*points, strict=True), style, marker="o", markersize=3, color=f"C{number // 2}", label=label)
        axes.axhline(goal, color="black", linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(x_title, fontsize=8)
        axes.tick_params(labelsize=8)
    all_axes[0].set_ylabel(y_title, fontsize=8)
    figure.legend(*all_axes[0].get_legend_handles_labels(), fontsize=7, ncols=4, loc="outside lower center")
    _save(figure, name)


def _pyplot(name: str) -> Any:
    import matplotlib

    matplotlib.use("svg")
    # The same picture for the same figures, with text as text.
    matplotlib.rcParams |= {"svg.hashsalt": name, "svg.fonttype": "none", "figure.constrained_layout.use": True}
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, name: str) -> None:
    figure.savefig(DOCS / "images" / f"{name}.svg", metadata={"Date": None})
