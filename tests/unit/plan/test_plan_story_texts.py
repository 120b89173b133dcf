"""What a step's agent reads, and what is read from its answer: prompt, summary, verdicts on criteria."""

import re

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import UsageError
from scaffold.core.plan import TaskText
from scaffold.core.proof.contract import Citation
from scaffold.plan.story.criteria_review import MAX_CITATIONS, CriterionVerdict, judge_criteria, unmet_feedback
from scaffold.plan.story.prompt import SharedFiles, StepContext, step_prompt
from scaffold.plan.story.step_type import STEP_TYPES
from scaffold.plan.story.summary import NO_ANSWER, NO_SUMMARY, Summary, find_summary, last_words
from support.stories import apply, claimed, complete, new, op, start, working_on

LINES = "Found: src/a.py.\nDecided: a new column.\nOpen: the migration."


def test_the_summary_at_the_end_of_an_answer_becomes_the_notes():
    """DR-7."""
    answers = (
        f"I looked.\n\nSUMMARY\n{LINES}",
        f"I looked.\n\n## SUMMARY\n\n{LINES}\n",
        f"**SUMMARY**\n{LINES}\n\n",
        f"**Summary:**\n{LINES}",
        f"SUMMARY:\r\n{LINES}".replace("\n", "\r\n"),
        f"SUMMARY\n=======\n{LINES}",
        f"SUMMARY =====\n{LINES}",
        f"# Plan\nSUMMARY of the old one.\n# SUMMARY\nold\n# SUMMARY\n{LINES}",
        f"```\nSUMMARY\n{LINES}\n```",
        f"### SUMMARY\n{LINES}\n\n### Thanks\nfor reading",
        f"  - SUMMARY\n---\n{LINES}",
    )
    assert [answer for answer in answers if find_summary(answer) != Summary(LINES, is_whole=True)] == []
    assert find_summary("SUMMARY: Clean.") == Summary("Clean.", is_whole=True)
    assert find_summary("**SUMMARY:** Clean.\nNothing left.").notes == "Clean.\nNothing left."


def test_an_answer_without_a_summary_has_none():
    """DR-7: it is asked for once."""
    answers = ("", "done", "SUMMARY", "SUMMARY\n\n---\n", "In SUMMARY all is well", "SUMMARY of it")
    assert [answer for answer in answers if find_summary(answer) is not None] == []


def test_a_summary_has_at_most_five_lines_of_limited_length_and_says_what_is_missing():
    """DR-7."""
    long = find_summary("SUMMARY\n" + "\n".join(f"line {n}" for n in range(1, 8)))
    assert not long.is_whole
    assert long.notes.splitlines()[4:] == snapshot(["line 5", "(2 more lines left out.)"])
    wide = find_summary("SUMMARY\n" + "x" * 10_000)
    assert len(wide.notes) < 600
    assert not wide.is_whole


def test_the_end_of_an_answer_stands_in_for_a_summary_and_is_marked():
    """DR-7."""
    answer = "\n\n".join(f"line {n}\x1b" for n in range(1, 8))
    notes = last_words(answer).notes
    assert notes == "\n".join([NO_SUMMARY, *(f"line {n}\\x1b" for n in range(3, 8))])
    assert not last_words(answer).is_whole
    assert last_words(" \n").notes == NO_ANSWER


def test_an_answer_of_blanks_or_empty_headings_says_nothing():
    """DR-7: and is read in linear time, or this test does not end."""
    answers = ("summary " + " " * 200_000 + "x", "*" * 200_000, "\n" * 200_000, "SUMMARY\n" * 50_000)
    for answer in answers:
        (verdict,) = judge_criteria(answer, ["a"], lambda _: True)
        assert find_summary(answer) is None
        assert not verdict.met


CRITERIA = ("Carts add up", "Empty carts are free", "Negative prices are refused")
EXISTING = {("src/cart.py", 41), ("tests/test_cart.py", 12), ("my files/a b.txt", 3)}


def exists(citation):
    return (citation.file, citation.line) in EXISTING


def judged(answer, criteria=CRITERIA):
    return judge_criteria(answer, criteria, exists)


def test_a_criterion_is_met_if_the_review_cites_lines_that_exist():
    """DR-2."""
    verdicts = judged(
        "CRITERION 1: met - src/cart.py:41, tests/test_cart.py:12-20\n"
        "- **Criterion 2: met** — `./src//cart.py:41` (the sum), and `my files/a b.txt:3`.\n"
        "| CRITERION 3: MET - (src/cart.py:41)\n"
    )
    assert [verdict.met for verdict in verdicts] == [True, True, True]
    assert verdicts[0].citations == (Citation("src/cart.py", 41), Citation("tests/test_cart.py", 12))
    assert verdicts[1].citations == (Citation("src/cart.py", 41), Citation("my files/a b.txt", 3))
    assert unmet_feedback(verdicts) == ""


def test_a_criterion_without_a_citation_that_exists_is_unmet():
    """DR-2: uncited is unmet."""
    problems = {
        "1. Carts add up: src/cart.py:41": snapshot("the review has no line `CRITERION 1: ...` about it"),
        "CRITERION 2: met - src/cart.py:41": snapshot("the review has no line `CRITERION 1: ...` about it"),
        "CRITERION 1: not met": snapshot("the review has no line `CRITERION 1: ...` about it"),
        "CRITERION 1: met": snapshot("the review cites no file and line for it"),
        "CRITERION 1: met - src/cart.py, at 12:30 o'clock, line 41": snapshot(
            "the review cites `12:30`, which does not exist"
        ),
        "CRITERION 1: met - src/cart.py:0": snapshot("the review cites no file and line for it"),
        "CRITERION 1: met - src/cart.py:99": snapshot("the review cites `src/cart.py:99`, which does not exist"),
        "CRITERION 1: met - src/cart.py:41, src/b.py:1": snapshot(
            "the review cites `src/b.py:1`, which does not exist"
        ),
        "CRITERION 1: met - /etc/passwd:1": snapshot("the review cites `/etc/passwd:1`, which does not exist"),
        "CRITERION 1: met - ../src/cart.py:41": snapshot("the review cites `../src/cart.py:41`, which does not exist"),
        "CRITERION 1: unmet - src/cart.py:41 ignores it": snapshot(
            "the review says that it is unmet: src/cart.py:41 ignores it"
        ),
        "CRITERION 1: unmet": snapshot("the review says that it is unmet: no reason given"),
        "CRITERION 1: met - src/cart.py:41\nCRITERION 1: unmet": snapshot(
            "the review says that it is unmet: no reason given"
        ),
    }
    assert {answer: judged(answer)[0].problem for answer in problems} == problems
    assert [answer for answer in problems if judged(answer)[0].met] == []
    assert unmet_feedback(judged("")).splitlines() == snapshot(
        [
            "These acceptance criteria are not met:",
            "- 1. Carts add up: the review has no line `CRITERION 1: ...` about it",
            "- 2. Empty carts are free: the review has no line `CRITERION 2: ...` about it",
            "- 3. Negative prices are refused: the review has no line `CRITERION 3: ...` about it",
        ]
    )


def test_a_citation_is_looked_up_only_inside_of_the_tree_and_a_limited_number_of_times():
    """DR-2."""
    asked = []
    many = " ".join(f"src/a{n}.py:1" for n in range(100))
    judge_criteria(f"CRITERION 1: met - /etc/passwd:1 {many}", ["a"], lambda citation: asked.append(citation) or True)
    assert len(asked) == MAX_CITATIONS - 1
    assert not [each for each in asked if each.file.startswith("/")]


def test_a_story_without_criteria_has_nothing_to_judge():
    """DR-2."""
    assert judged("CRITERION 1: met - src/cart.py:41", ()) == ()
    assert CriterionVerdict(number=1, criterion="a").met


FILES = SharedFiles(
    scratch="/shared/scratch.md", story_scratch="/shared/scratch_US-001.md", edits="/shared/workflow_edits/US-001.json"
)
STORY = TaskText(description="As a shopper ...", acceptance=CRITERIA, notes="Mind the cache")


def prompt(step_id, record=None, given=STORY, **context):
    return step_prompt(given, record or working_on(step_id), step_id, StepContext(files=FILES, **context))


def test_a_prompt_has_task_story_notes_scratch_files_and_paths_in_order():
    """DR-2, DR-7."""
    text = prompt("step-005", scratch="Dates are UTC.", story_scratch="The sum is in src/cart.py.")
    parts = [
        "# Your step: step-005 (coding)\nImplement the changes\n",
        "You receive: the notes of the design and the test plan",
        "The step is done when all that this step is to change is implemented",
        STEP_TYPES["coding"].instructions,
        "# The story: US-001 Story US-001\nAs a shopper ...\nMind the cache\n",
        "Acceptance criteria:\n1. Carts add up\n2. Empty carts are free\n3. Negative",
        "# Notes of earlier steps\n\n## step-001 (context_gathering)\nnotes of step-001\n\n## step-002 (planning)\n",
        "# Shared notes of all stories (/shared/scratch.md)\nDates are UTC.",
        "# Notes of this story (/shared/scratch_US-001.md)\nThe sum is in src/cart.py.",
        "# Files for notes\n- /shared/scratch_US-001.md: ",
        "- step-005 coding (in_progress, this step): Implement the changes",
        "rename that to\n/shared/workflow_edits/US-001.json.",
        "A line that says SUMMARY, then 3 to\n5 lines",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "rejected" not in text
    assert "CRITERION" not in text


def test_only_steps_that_may_edit_are_told_how():
    """DR-2."""
    for step_id in ("step-001", "step-006", "step-009"):
        text = prompt(step_id)
        found = ("workflow_edits" in text, "add_after" in text, text.count("SUMMARY"))
        assert found == (False, False, 1), step_id


@pytest.mark.parametrize("step_id", ["step-008", "step-010"])
def test_reviews_are_told_the_form_of_a_verdict_whatever_their_instructions_are(step_id):
    """DR-2: and a story without criteria needs none."""
    assert "`CRITERION 1: met - " in prompt(step_id, instructions="Look.")
    assert "CRITERION" not in prompt(step_id, given=TaskText(), instructions="Look.")


def test_a_users_instructions_replace_the_built_in_ones_and_nothing_else():
    """DR-2, SC-6."""
    text = prompt("step-005", instructions="\nMind the indexes.\n")
    assert "\n\nMind the indexes.\n\n#" in text
    assert STEP_TYPES["coding"].instructions not in text


def test_rejected_edits_commands_and_their_failures_are_shown():
    """DR-2, DR-5."""
    text = prompt("step-006", feedback=["## rejected\n- no"], commands=["ruff check", "mypy"], failure="E501 too long")
    assert "\n## rejected\n- no" in text
    assert "\n- ruff check\n- mypy" in text
    assert "\nE501 too long" in text


def test_a_restarted_step_is_told_why():
    """DR-4."""
    record = apply(working_on("step-005"), "step-005", op("restart", "step-005", new_description="Use a view")).story
    record = apply(start(record, "step-005"), "step-005", op("skip", "step-009"), attempt="2").story
    text = prompt("step-005", record)
    assert "# Your step: step-005 (coding)\nUse a view\n" in text
    assert "\n- because\n\n# The story" in text
    assert "restarted" not in prompt("step-004")


def test_notes_of_skipped_steps_and_of_the_step_itself_are_no_earlier_notes():
    """DR-7."""
    record = apply(working_on("step-002"), "step-002", op("skip", "step-003")).story
    record = start(complete(record, "step-002", notes="the plan"), "step-004")
    text = prompt("step-004", record)
    assert "step-003 architecture (skipped)" in text
    assert "## step-003" not in text
    assert "earlier steps" not in prompt("step-001")


HUGE = "word " * 20_000


def test_a_prompt_is_bounded_and_says_what_is_left_out():
    """DR-7: oldest notes first."""
    record = working_on("step-002", claimed(title=HUGE))
    record = apply(record, "step-002", op("add_after", "step-009", new_steps=[new("coding", "x " * 3000)] * 3)).story
    for step_id in ("step-002", "step-003", "step-004"):
        record = start(complete(record, step_id, notes=f"{step_id} {HUGE}"[:10_000]), f"step-00{int(step_id[-1]) + 1}")
    given = TaskText(description=HUGE, notes=HUGE, verification_intent=HUGE, acceptance=(HUGE,) * 60)
    text = prompt("step-005", record, given, scratch=HUGE, story_scratch=f"old {HUGE}new", feedback=[HUGE])
    assert len(text) < 130_000
    left_out = [line for line in text.splitlines() if line.startswith("(") and "left out" in line]
    assert [re.sub("[0-9,]+ characters", "N characters", line) for line in left_out] == snapshot(
        [
            "(The notes of step-001, step-002 are left out for their length.)",
            "(The first N characters are left out; they are in the file.)",
            "(The first N characters are left out; they are in the file.)",
        ]
    )
    assert "\n## step-003 (architecture)" in text
    assert "10 more criteria" in text
    assert "characters omitted" in text
    assert "new\n\n# Edits" in text


def test_notes_that_are_too_long_alone_are_cut():
    """DR-7."""
    record = start(complete(start(claimed(), "step-001"), "step-001", notes=HUGE), "step-002")
    text = prompt("step-002", record)
    assert "## step-001 (context_gathering)" in text
    assert len(text) < 35_000


def test_hidden_characters_are_shown():
    """DR-7: neither a story nor an earlier agent can hide something from people that the next one reads."""
    record = complete(working_on("step-001"), "step-001", notes="ok\u200bok")
    text = prompt("step-002", start(record, "step-002"), TaskText(description="a\u202eb"), scratch="c\x1b[2J")
    assert not set("\u200b\u202e\x1b") & set(text)
    assert "a\\x202eb" in text


def test_a_step_that_does_not_exist_has_no_prompt():
    """DR-2."""
    with pytest.raises(UsageError, match="`step-099`"):
        prompt("step-099", working_on("step-001"))
