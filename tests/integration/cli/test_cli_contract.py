"""`contract`: an action's checks, their results, and the evidence of its facts."""

import sqlite3
from contextlib import closing

import msgspec
from inline_snapshot import snapshot

from builders import FAILED, begin, fail, land, make_run, work
from scaffold.cli.render.report import report
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.proof.contract import ChangeReview, Citation, ExecutedLines, Review, Verification
from scaffold.verify.contract.exercised import not_executed
from scaffold.views.run_view import read_run_view


def test_a_contract_is_shown_with_the_evidence_of_its_landing(context, run, scaffold):
    """AL-8: commands, expectations and file constraints."""
    landed = land(context, run, "store", {"store.py": "x = 1\n"})
    (fact,) = scaffold("status", "--json").json["goals"][0]["facts"]
    assert scaffold("contract", "store", "--json").json == {
        "action": "store",
        "given": True,
        "phase": "given",
        "sha256": None,
        "seals": [],
        "intent": "Things are kept.",
        "commands": [
            {"command": "make test", "expect": "exit 0", "description": "", "required": True, "timeout_s": None}
        ],
        "must_exist": ["store.py"],
        "must_not_exist": [],
        "must_not_change": [],
        "files": ["store.py"],
        "granted_files": [],
        "last": {
            "attempt": 1,
            "commit": landed,
            "passed": True,
            "strength": "proven",
            "weak": False,
            "doubts": [],
            "red_on_base": [],
            "executed_lines": None,
            "review": None,
            "score": None,
            "results": [
                {
                    "name": "make test",
                    "verdict": "pass",
                    "exit_code": 0,
                    "detail": "exit 0\n3 passed",
                    "log": "",
                    "duration_s": 0.0,
                    "output_hash": None,
                    "safety_refusal": None,
                }
            ],
            "gates": [],
        },
        "facts": [fact],
    }
    assert scaffold("contract", "store").out.replace(landed[:8], "COMMIT") == snapshot("""\
Contract of store
  Things are kept.
  $ make test
      exit 0
  must_exist: store.py

Files it may change
  store.py

Attempt 1, checked at COMMIT
  ✓ pass make test

✓ store_works holds, shown by
  make test, exit 0 at COMMIT
""")


def test_a_second_review_is_shown_with_its_citations(context, run, scaffold):
    """AL-23."""
    land(context, run, "store", {"store.py": "x = 1\n"})
    attempt = context.store.attempts.for_action(context.store.actions.by_key(run.id, "store").id)[-1]
    cited = (Citation("store.py", 1, "keeps it"), Citation("old.py", 2, "gone", before=True))
    review = ChangeReview(
        review=Review(verdict="approve", citations=cited, summary="It is right."),
        model="cassette:x",
        base=attempt.base_sha,
        change="0",
    )
    stored = msgspec.structs.replace(attempt.verification, review=review)
    with closing(sqlite3.connect(context.repository.common_dir / "scaffold/state.db")) as raw, raw:
        raw.execute("UPDATE attempt SET verification = ?", [msgspec.json.encode(stored).decode()])
    shown = scaffold("contract", "store").out.splitlines()
    at = shown.index("  ✓ pass make test")
    assert shown[at + 1 : at + 5] == snapshot(
        [
            "  second review by cassette:x: approve",
            "      It is right.",
            "      - store.py:1: keeps it",
            "      - old.py:2 (before the change): gone",
        ]
    )
    assert scaffold("contract", "store", "--json").json["last"]["review"]["review"]["citations"][1] == {
        "file": "old.py",
        "line": 2,
        "note": "gone",
        "before": True,
    }


def test_a_failed_check_is_shown_with_its_output(context, run, scaffold):
    fail(context, run, "store", {"store.py": "broken\n"})
    detail = FAILED.detail.replace("\n", "\n      ")
    assert f"  ✗ fail make test\n      {detail}\n" in scaffold("contract", "store").out
    assert scaffold("contract", "store", "--json").json["last"]["passed"] is False


def test_an_action_without_a_contract_says_what_completes_it(context, plan, scaffold):
    """AL-7: where contracts are drafted, a change alone is not enough; a review changes nothing, and is not weak."""
    make_run(context, plan)
    said = [scaffold("contract", "api").out.splitlines()]
    shown = scaffold("contract", "api", "--json").json
    assert (shown["given"], shown["commands"], shown["last"], shown["facts"]) == (False, [], None, [])
    assert scaffold("contract", "nothing").code == 64
    make_run(context, plan, drafter=True)
    said.append(scaffold("contract", "api").out.splitlines())
    make_run(context, plan.replace("key: api", "key: api, role: code_review"))
    said.append(scaffold("contract", "api").out.splitlines())
    assert [lines[1:] for lines in said] == snapshot(
        [
            [
                "  No checks: any change that lands is enough, and its facts are marked weak.",
                "",
                "No check has run yet.",
            ],
            ["  None yet: it is drafted before the work.", "", "No check has run yet."],
            ["  A review: it needs a verdict whose citations exist.", "", "No check has run yet."],
        ]
    )


def test_the_changed_lines_that_checks_executed_are_shown(context, run, scaffold):
    """BX-5, BX-22: with the doubt if there are none."""
    attempt = work(context, run, "store")
    lines = ExecutedLines(total=12, executed=0)
    found = Verification(commit=attempt.base_sha, results=(), executed_lines=lines, doubts=(not_executed(12),))
    with context.store.transaction():
        context.store.attempts.advance(attempt.id, fence=run.fence, phase="verifying", verification=found)
    assert [line for line in scaffold("contract", "store").out.splitlines() if "12" in line] == snapshot(
        ["  weak: 12 changed lines, 0 executed by its checks", "  changed lines: 12, executed by checks: 0"]
    )
    last = scaffold("contract", "store", "--json").json["last"]
    assert last["executed_lines"] == {"total": 12, "executed": 0}


def test_files_granted_on_request_are_shown_beside_those_of_the_plan(context, run, scaffold):
    """AL-9: in `status`, too; the plan's stay as they are."""
    action = context.store.actions.by_key(run.id, "store")
    with context.store.transaction():
        context.store.file_grants.add(action.id, ["docs/"], by="rule", reason="to document it")
        context.store.file_grants.add(action.id, ["conftest.py"], by="human", reason="a fixture")
    stored = next(each for each in scaffold("status", "--json").json["actions"] if each["key"] == "store")
    held = scaffold("contract", "store", "--json").json
    for shown in (stored, held):
        assert shown["files"] == ["store.py"]
        assert [(each["path"], each["by"], each["reason"]) for each in shown["granted_files"]] == [
            ("docs/", "rule", "to document it"),
            ("conftest.py", "human", "a fixture"),
        ]
    assert scaffold("contract", "store").out.splitlines()[6:10] == snapshot(
        [
            "Files it may change",
            "  store.py",
            "  docs/  added by rule, except what judges the work: to document it",
            "  conftest.py  added by a human: a fixture",
        ]
    )


def test_each_failed_attempt_says_why_in_full_and_where_the_whole_output_is(context, plan, scaffold):
    """AL-10, SC-19: messages about failed checks name this command."""
    run = begin(context, make_run(context, plan, attempts=2))
    fail(context, run, "store", {}, error="The check `make test` failed.\n" + "noise\n" * 9 + "ValueError: no shop")
    fail(context, run, "store", {"store.py": "x = 1\n"})
    logs = context.gate_logs(run.id).path
    logs.mkdir(parents=True)
    out = scaffold("contract", "store").out
    assert "Attempt 1: contract_failed\n  The check `make test` failed.\n  noise\n" in out
    assert "  ValueError: no shop\n" in out
    assert f" .scaffold/logs/gates/{run.id}\n" in out
    assert "Attempt 2, checked at " in out


def test_a_message_about_a_failed_check_has_the_line_that_decided_and_names_this_command(context, run, scaffold):
    """SC-19: in the status and in the report."""
    error = "The check `make test` failed.\n" + "noise\n" * 9 + "ValueError: no shop\nmore"
    fail(context, run, "store", {"store.py": "x = 1\n"}, error=error)
    view = read_run_view(context, context.store.runs.get(run.id))
    status, told = scaffold("status").out, report(view, context.repository.root, Layout())
    for text in (status, told):
        assert "contract_failed" in text
        assert "        ValueError: no shop\n      " in text
        assert " `scaffold contract store`\n" in text
