"""The table of transitions: what is legal, what is not, and the diagram of it in the documents."""

import re
from pathlib import Path

import pytest

from coordinator_state import ClassicGroup
from coordinator_state.classic.states import VALID_PREVIOUS_STATES, GroupState

EDGES = [(previous, state) for state, all_previous in VALID_PREVIOUS_STATES.items() for previous in all_previous]


@pytest.mark.parametrize(("previous", "state"), EDGES)
def test_legal_transition(previous: GroupState, state: GroupState) -> None:
    group = ClassicGroup(state=previous)
    group.transition_to(state, 7)
    assert (group.state, group.previous_state, group.state_since_ms) == (state, previous, 7)


@pytest.mark.parametrize(("previous", "state"), [(a, b) for a in GroupState for b in GroupState if (a, b) not in EDGES])
def test_illegal_transition_is_a_bug(previous: GroupState, state: GroupState) -> None:
    with pytest.raises(AssertionError, match="cannot become"):
        ClassicGroup(state=previous).transition_to(state, 7)


def test_state_is_set_in_one_place_only() -> None:
    package = Path(__file__).parents[2] / "coordinator_state"
    assigning = [path.name for path in package.rglob("*.py") if ".state = " in path.read_text()]
    assert assigning == ["group.py"]


def test_diagram_in_the_architecture_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    diagram = text.partition("stateDiagram-v2\n")[2].partition("```")[0]
    drawn = re.findall(r"^    (\w+) --> (\w+): \S", diagram, re.MULTILINE)
    assert sorted(drawn) == sorted((str(previous), str(state)) for previous, state in EDGES)
