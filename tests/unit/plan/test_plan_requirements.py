"""The requirements in a specification."""

from functools import partial

import pytest
from inline_snapshot import snapshot

from scaffold.core.ids import ActionKey
from scaffold.plan.compliance.requirements import (
    MAX_REQUIREMENTS,
    MAX_TEXT_CHARS,
    quoted_requirements,
    requirements_in,
    requirements_of,
)
from scaffold.plan.source.task import SourceTask
from scaffold.plan.text.parse_tree import START
from support.instructions import executed_instructions


def texts(spec):
    return [each.text for each in requirements_in(spec)]


def test_requirements_are_found_by_their_form():
    """AL-30: ids, sentences with shall or must, numbers, boxes; without any of these, sections."""
    found = {
        "1. one\n2. two\n": ["1. one", "2. two"],
        "1.1 The lamp is on\n1.2. It is off\n": ["1.1 The lamp is on", "1.2. It is off"],
        "- [ ] open\n- [x] done\n- plain\n": ["open", "done"],
        "The tool must be fast\nand small.\n\nIt is nice.\n": ["The tool must be fast and small."],
        "1. WHEN it is gone THEN it SHALL say so\n   - in one line\n": [
            "1. WHEN it is gone THEN it SHALL say so - in one line"
        ],
        "- **FR-001**: one\n- FR-2: two\n  goes on\n1. a step of the set-up\n": ["one", "two goes on"],
        "| ID | Text |\n|----|------|\n| R-1 | a |\n| R-2 | b |\n": ["a", "b"],
        "REQ-1: a\nREQ-2: b\n": ["a", "b"],
        "### Requirement 1: Title\n\nAs a user.\n\n1. it shall a\n\n### Requirement 2: Alone\n\nText.\n": [
            "1. it shall a",
            "Requirement 2: Alone",
        ],
        "## Non-goals\n### Deep\n- [ ] never\n## Work\n- [ ] ever\n": ["ever"],
        "```\n1. code\n```\n<!-- 2. hidden -->\n- [ ] real\n": ["real"],
        "- [ ] same\n- [ ] same\n- [ ] ****\n": ["same"],
        "# X\n## Overview\nText\n## Store\nKeeps.\nMore.\n\nElse.\n## API\n```\nx\n```\n## Non-goals\nNo.\n": [
            "Store: Keeps. More."
        ],
        "## Later\n### Deep\nText\n# Top\nText\n## Whole\n### Part\nReal\n": ["Part: Real"],
        "prose alone\n": [],
        "": [],
        "\ufeff1. marked\n": ["1. marked"],
        "- [ ] \u202ereversed\n": ["\\x202ereversed"],
    }
    assert {spec: texts(spec) for spec in found} == found


def test_a_requirement_has_an_id_and_the_line_where_it_begins():
    """AL-30: people and audits refer to it."""
    (first, second) = requirements_in("# T\n\n- [ ] a\n- [ ] b\n")
    assert (first.id, first.line, second.id, second.line) == ("R1", 3, "R2", 4)
    assert second.criterion == "R2: b"


def test_a_requirement_keeps_the_id_that_the_specification_gives_it():
    """AL-30: one without an id is named by its line, so that it is taken for none of them; ids are unique."""
    ids = {
        "- **FR-001**: one\n- FR-2: two\n": ["FR-001", "FR-2"],
        "It must greet.\n\n- R2: one\n- R3 - two\n": ["L1", "R2", "R3"],
        "| REQ_1 | a |\n| NFR-SEC-1.2 | b |\n": ["REQ_1", "NFR-SEC-1.2"],
        "- R1: one\n- R1: two must\n- R1: three\n- R1.2: four\n": ["R1", "R1.2", "R1.3", "R1.2.2"],
        "1. one\n2. two\n": ["R1", "R2"],
    }
    assert {spec: [each.id for each in requirements_in(spec)] for spec in ids} == ids


def test_a_requirement_is_cut_where_a_prompt_has_no_room():
    """AL-30: the rest is in the specification."""
    (only,) = requirements_in("- [ ] " + "x" * 3_000)
    assert (len(only.text), only.text[-1]) == (MAX_TEXT_CHARS, "…")


def test_a_hostile_line_is_read_without_backtracking():
    """AL-30: no form of a line is searched for in time that grows with its square, or this test does not end."""
    for line in ("- " * 200_000, "A-1" * 150_000, "   " * 150_000 + "x", "|- " * 150_000):
        requirements_in(line)


def test_the_work_of_reading_grows_with_the_number_of_lines_and_not_with_its_square():
    """AL-30."""
    for line in ("1. a must\n", "a\n"):
        small, large = (executed_instructions(partial(requirements_in, line * count)) for count in (200, 400))
        assert large < 2.5 * small, line


@pytest.mark.slow
def test_a_specification_of_very_many_lines_is_read():
    """AL-30: this test would not end if a step inside of one instruction took time with the square of the lines."""
    for line in ("1. a must\n" * 50_000, "a\n" * 200_000):
        requirements_in(line)


def test_tasks_are_required_by_their_criteria_or_their_titles():
    """AL-30: a list of tasks is a specification, too."""
    one = SourceTask(id=ActionKey("1"), title="One", acceptance=("a", "b"), position=START)
    two = SourceTask(id=ActionKey("2"), title="Two", position=START)
    three = SourceTask(id=ActionKey("3"), title="", position=START)
    assert [each.text for each in requirements_of([one, two, three])] == ["1: a", "1: b", "2: Two", "3: 3"]


def test_a_quotation_counts_only_if_a_line_has_it():
    """AL-30: a planner lists requirements in the specification's own words."""
    spec = "It greets\nwhoever   comes.\n"
    found = quoted_requirements(spec, ["whoever comes", "It greets"])
    assert [(each.text, each.line) for each in found] == [("whoever comes", 2), ("It greets", 1)]
    many = [str(number) for number in range(1_000, 1_001 + MAX_REQUIREMENTS)]
    refused = [["It greets whoever"], ["  "], []]
    assert [quoted_requirements(spec, quotes) for quotes in refused] == snapshot(
        [
            "no line of the specification has `It greets whoever`; quote its own words, of one line each",
            "no line of the specification has `  `; quote its own words, of one line each",
            "no requirement is quoted; quote at least one line of the specification",
        ]
    )
    assert "401" in quoted_requirements("\n".join(many), many)
