"""Numbered task lists of Kiro: nesting, order, criteria, optional tasks, errors."""

from inline_snapshot import snapshot

from scaffold.plan.source.checklist import items_of, lines_of
from scaffold.plan.source.formats import read_tasks_of
from scaffold.plan.source.kiro import read_criteria
from scaffold.plan.source.task_plan import planned_tasks
from support.findings import refused_at

REQUIREMENTS = """# Requirements

1. not below a requirement

### Requirement 1: Buy

**User Story:** As a buyer ...

#### Acceptance Criteria

1. WHEN one pays THEN the shop SHALL deliver
   within a day
2. IF it is late THEN the shop SHALL apologise

A remark.
   indented

### 要件 2 - 返品

- 2.1 WHEN one returns THE shop SHALL refund
```
2. code
```

### Notes

3. no criterion
"""

TASKS = """# Implementation Plan

- [ ] 1. Set up
  - [x] 1.1 Create the project
  - [-] 1.2 Add the linter
    - with all rules
    - _要件：1.1、1.2_
  - [ ]* 1.3 Write tests
- [ ] 2) Sell (P)
  - **Validates: Requirements 2, 1.2**
- [ ] 3. Refund (P)
  - _Requirements: 1.1-2.9, 7.3, FR-2_
  - _Depends: 1.2_
- [ ] 3.1* Tests
"""


def read(text, requirements=""):
    return read_tasks_of("kiro", text, name="tasks.md", requirements=requirements)


def by_id(text, requirements=""):
    return {each.id: each for each in read(text, requirements).tasks}


def test_criteria_have_the_numbers_of_their_requirement_and_their_own():
    assert read_criteria(REQUIREMENTS) == snapshot(
        {
            (1, 1): "WHEN one pays THEN the shop SHALL deliver\nwithin a day",
            (1, 2): "IF it is late THEN the shop SHALL apologise",
            (2, 1): "WHEN one returns THE shop SHALL refund",
        }
    )


def test_tasks_are_nested_by_number_and_optional_ones_are_marked():
    """AL-3."""
    tasks = by_id(TASKS)
    assert {key: each.parent for key, each in tasks.items()} == {
        "1": None,
        "1.1": "1",
        "1.2": "1",
        "1.3": "1",
        "2": None,
        "3": None,
        "3.1": "3",
    }
    assert [key for key, each in tasks.items() if each.optional] == ["1.3", "3.1"]
    assert [key for key, each in tasks.items() if each.done] == ["1.1"]
    assert (tasks["2"].title, tasks["2"].parallel, tasks["1"].parallel) == ("Sell", True, False)


def test_bold_text_around_the_number_is_no_part_of_the_title():
    assert [each.title for each in read("- [ ] **1. a**\n- [ ] **2.** b **c**\n").tasks] == ["a", "b **c**"]


def test_a_number_between_may_be_missing():
    assert [each.parent for each in read("- [ ] 1. a\n- [ ] 1.1.1 b\n- [ ] 2.1 c\n").tasks] == [None, "1", None]


def test_tasks_follow_each_other_unless_they_are_marked():
    """SC-22: neighbours with `(P)` run together; what is done or optional is not waited for."""
    assert {key: each.depends_on for key, each in by_id(TASKS).items()} == {
        "1": (),
        "1.1": (),
        "1.2": (),
        "1.3": (),
        "2": ("1.2",),
        "3": ("1.2",),
        "3.1": (),
    }


def test_the_criteria_that_a_task_refers_to_are_its_acceptance_criteria():
    """AL-3: by number, range, or all of a requirement."""
    tasks = by_id(TASKS, REQUIREMENTS)
    pay, late, refund = read_criteria(REQUIREMENTS).values()
    assert tasks["1.2"].acceptance == (pay, late)
    assert tasks["2"].acceptance == (refund, late)
    assert tasks["3"].acceptance == (pay, late, refund)


def test_references_to_criteria_that_are_missing_are_warned_of():
    messages = [warning.message for warning in read(TASKS, REQUIREMENTS).warnings]
    assert messages == snapshot(["the task refers to criterion 7.3, which requirements.md does not have"])
    assert read(TASKS).warnings == ()


def test_a_task_with_details_contains_its_open_parts():
    """No work is lost, whether its details are work of their own or a summary of its parts."""
    text = """- [ ] 1. Build
  - Create a window
- [x] 1.1 Open it
- [ ] 1.2 Close it
  - with care

  - _Depends: 2_
  - _Requirements: 1.1_
- [ ]* 1.3 Test it
- [ ] 2. Other
  - _Depends: 1.1_
"""
    tasks = by_id(text.replace("_Depends: 1.1_", ""), REQUIREMENTS)
    assert list(tasks) == ["1", "1.3", "2"]
    assert tasks["1"].description.splitlines()[2:7] == [
        "Steps:",
        "- [x] 1.1 Open it",
        "- [ ] 1.2 Close it",
        "  - with care",
        "",
    ]
    assert (tasks["1"].depends_on, len(tasks["1"].acceptance)) == (("2",), 1)
    tasks = by_id(text.replace("_Depends: 2_", ""))
    assert tasks["2"].depends_on == ("1",)
    assert list(by_id(text.replace("[ ] 1.2", "[x] 1.2"))) == ["1", "1.1", "1.2", "1.3", "2"]


def test_an_open_part_of_a_ticked_task_is_to_be_done():
    """SC-22: each box stands for itself."""
    text = "- [x] 4. Window\n  - Create it\n- [ ] 4.1 Door\n- [ ] 5. Other\n"
    document = read(text)
    assert [(task.id, task.depends_on) for task in document.tasks] == [("4", ()), ("4.1", ()), ("5", ("4.1",))]
    assert [task.key for task in planned_tasks(document).planned] == ["4.1", "5"]


def test_what_stands_below_the_parts_of_a_task_belongs_to_the_task():
    text = (
        "- [ ] 1. Shop\n  - [ ] 1.1 Door\n    - wide\n  - _Requirements: 1.2_\n  Paint\n  it\n- [ ] 2. Other\n\nEnd\n"
    )
    one, part, two = items_of(lines_of(text), lambda each: each.text[0].isdigit())
    assert (one.title, one.details) == ("1. Shop", "- _Requirements: 1.2_\nPaint\nit")
    assert (part.details, two.details) == ("- wide", "")


def test_criteria_are_referred_to_in_other_languages():
    stated = {"_需求：1.1-1.2_", "需求: 1.1-1.2", "**验证: 需求 1.1, 1.2**", "**Validates: Requirements 1.1, 1.2**"}
    for words in stated:
        found = by_id(f"- [ ] 1. a\n  - b\n  - {words}\n", REQUIREMENTS)["1"].acceptance
        assert len(found) == 2, words
    assert by_id("- [ ] 1. a\n  - see 需求 1.1 there\n  - Version: 1.1\n", REQUIREMENTS)["1"].acceptance == ()


def test_criteria_are_bullets_or_counted_on_where_a_number_occurs_again():
    text = """### 需求 3（低）
- no criterion
#### Acceptance Criteria
- THE shop SHALL open
- THE shop SHALL close
### Requirement 4
7. one
7. two
8. three
"""
    assert {key: len(value) > 2 for key, value in read_criteria(text).items()} == dict.fromkeys(
        [(3, 1), (3, 2), (4, 7), (4, 8), (4, 9)], True
    )


def test_dependencies_are_read_by_words_that_begin_alike():
    words = ("Depends", "Depends on", "Dependencies", "Dépendances", "Dependências")
    for word in words:
        tasks = by_id(f"- [ ] 1. a (P)\n  - _{word}: [2]_\n- [ ] 2. b (P)\n  - _{word}: none_\n")
        assert [tasks[key].depends_on for key in "12"] == [("2",), ()], word


def test_errors_have_their_line_and_column():
    """OR-6."""
    faults = {
        "# Plan\n- [ ] no number\n": ("bad-value", (1, 1)),
        "- [ ] 1. a\n  - _Depends: 1.9_\n": ("unknown-dependency", (1, 1)),
        "- [ ] 1. a\n\t- [ ] 1. b\n": ("duplicate-key", (2, 2)),
        "- [ ] 1. a\n  - _Depends: 2_\n- [ ] 2. b\n  - _Depends: 1_\n": ("cycle", (1, 1)),
    }
    assert {text: refused_at(read, text) for text in faults} == faults
