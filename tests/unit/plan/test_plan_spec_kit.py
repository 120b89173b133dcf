"""`tasks.md` of spec-kit: items, phases, stories, dependencies, errors."""

from inline_snapshot import snapshot

from scaffold.plan.source.formats import read_tasks_of
from support.findings import refused_at

TASKS = """# Tasks: Shop

- [ ] a note without an id

## Phase 1: Setup

**Purpose**: Something to
build on

- [x] T001 Create the project
- [ ] T002 [P] Configure the linter in `setup.cfg`
- [ ] T003 [P] Configure CI
      for all platforms

  With care:
  - [ ] a step, no task

  ```
  - [ ] T099 an example
  ```

**Checkpoint**: It builds

---

## Phase 2: User Story 1 - Buy (P1)

**Goal**: One can buy
**Independent Test**: Buy something

### Tests

- [ ] **T004** [P] [US1] Test in tests/test_buy.py (depends on T001-T002)
- [ ] T005: [P] [US1] Model in src/buy.py
<!--
- [ ] T098 [US1] a sample
-->
- [ ] T006a-TEST [US1] Service in src/service.py

## Phase 3: Polish ##

- [ ] T007 [P] Docs
  - **Depends on US1**
"""


def read(text):
    return read_tasks_of("spec-kit", text, name="tasks.md")


def by_id(text):
    return {each.id: each for each in read(text).tasks}


def test_items_are_tasks_with_their_labels_and_details():
    """AL-3: what is in code blocks, comments and details is no task."""
    tasks = by_id(TASKS)
    assert list(tasks) == ["T001", "T002", "T003", "T004", "T005", "T006a-TEST", "T007"]
    assert [each.id for each in tasks.values() if each.done] == ["T001"]
    assert [each.id for each in tasks.values() if each.parallel] == ["T002", "T003", "T004", "T005", "T007"]
    assert tasks["T003"].title == snapshot("Configure CI for all platforms")
    assert tasks["T003"].description == "With care:\n- [ ] a step, no task\n\n```\n- [ ] T099 an example\n```"
    assert (tasks["T002"].position.line, tasks["T002"].position.column) == (11, 1)


def test_phases_follow_each_other_and_marked_neighbours_run_together():
    """SC-22: what is done is waited for no more, and named dependencies count."""
    tasks = by_id(TASKS)
    assert {key: each.depends_on for key, each in tasks.items()} == {
        "T001": (),
        "T002": (),
        "T003": (),
        "T004": ("T001", "T002", "T003"),
        "T005": ("T002", "T003"),
        "T006a-TEST": ("T004", "T005"),
        "T007": ("T004", "T005", "T006a-TEST"),
    }


def test_what_is_said_of_a_phase_reaches_its_tasks():
    """AL-3: the independent test of a story is what its last task has to show."""
    tasks = by_id(TASKS)
    assert tasks["T002"].notes == snapshot(
        "This is a part of: Phase 1: Setup\nPurpose: Something to build on\nCheckpoint: It builds"
    )
    assert tasks["T004"].notes.splitlines()[1:] == snapshot(["Goal: One can buy", "Independent Test: Buy something"])
    assert {key for key, each in tasks.items() if each.verification_intent} == {"T006a-TEST"}


def test_a_statement_ends_with_the_text():
    assert (
        by_id("- [ ] T001 a\n## B\n- [ ] T002 b\n\n**Goal:** One\ntwo")["T002"].notes
        == "This is a part of: B\nGoal: One two"
    )


def test_a_task_that_depends_on_a_later_one_comes_after_it():
    tasks = by_id("- [ ] T001 a (depends on T003)\n- [ ] T002 b\n- [ ] T003 c\n")
    assert {key: each.depends_on for key, each in tasks.items()} == {"T001": ("T003",), "T002": (), "T003": ("T002",)}


def test_a_story_that_depends_on_itself_names_nothing():
    tasks = by_id("- [ ] T001 [P] [US1] a (depends on US1 and T002)\n- [ ] T002 [P] [US1] b\n")
    assert tasks["T001"].depends_on == ("T002",)


def test_items_without_an_id_are_counted():
    (warning,) = read(TASKS).warnings
    assert (warning.line, warning.column, warning.message) == snapshot(
        (3, 1, "1 item without an id such as `T001` is not read")
    )
    (warning,) = read("- [ ] T001 a\n- [ ] b\n- [ ] c\n").warnings
    assert warning.message.startswith("2 items")


def test_neither_a_legend_nor_a_ticked_item_is_a_task_without_an_id():
    assert read("- [ ] T001 a\n\n## Notes\n\n- [P] tasks = different files\n- [x] reviewed\n").warnings == ()


def test_boxes_have_one_mark():
    boxes = {"✓": True, "✅": True, "-": False, "~": False, "_": False}
    assert {box: by_id(f"- [{box}] T001 a\n")["T001"].done for box in boxes} == boxes


def test_errors_have_their_line_and_column():
    """OR-6."""
    faults = {
        "# Tasks\n": ("bad-value", (1, 1)),
        "\n- [ ] T001 a (depends on T009)\n": ("unknown-dependency", (2, 1)),
        "- [ ] T001 a (depends on US4)\n": ("unknown-dependency", (1, 1)),
        "- [ ] T001 a (depends on T001)\n": ("self-dependency", (1, 1)),
        "- [ ] T001 a\n  * [ ] T001 b\n": ("duplicate-key", (2, 3)),
        "- [ ] T001 a (depends on T002)\n- [ ] T002 b\n  depends on: T001\n": ("cycle", (1, 1)),
    }
    assert {text: refused_at(read, text) for text in faults} == faults


def test_a_long_list_is_read():
    text = "".join(f"- [ ] T{number:05} Task\n" for number in range(1500))
    assert len(read(text).tasks) == 1500


def test_a_code_block_belongs_to_the_item_that_it_is_indented_below():
    tasks = by_id("- [ ] T001 a\n  ```\nx\n\ny\n  ```\n- [ ] T002 b\n\n```\nz\n```\n<!-- no -->\n")
    assert (tasks["T001"].description, tasks["T002"].description) == ("  ```\nx\n\ny\n  ```", "")


def test_code_blocks_end_where_they_were_opened():
    text = "~~~~\n```\n- [ ] T001 a\n~~~\n~~~~~\n- [ ] T002 b\n```\n- [ ] T003 c\n``` no\n- [ ] T004 d\n```\n"
    assert list(by_id(text)) == ["T002"]
    assert list(by_id("<!-- one --> \n- [ ] T001 a\n<!-- a\n- [ ] T002 b -->\n- [ ] T003 c\n")) == ["T001", "T003"]
