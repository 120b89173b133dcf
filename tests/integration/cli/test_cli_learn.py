"""`learn`: adding, finding, judging and forgetting what earlier work showed."""

import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from builders import begin, land, make_run
from scaffold.run.context import RunContext

TRIPLE = "WHEN tests time out on CI DO look for localhost RESULT they pass"


def add(scaffold, *args: str) -> str:
    answer = scaffold("learn", "add", "--json", *args)
    assert answer.code == 0, answer.err
    return answer.json["id"]


def listed(scaffold, *args: str):
    answer = scaffold("learn", "--json", *args)
    assert answer.code == 0, answer.err
    return answer.json["learnings"]


@pytest.fixture(autouse=True)
def here(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(context.repository.root)
    return context.repository.root


def test_a_learning_is_added_once_found_and_forgotten(scaffold) -> None:
    """AL-16: with evidence, scope and concepts."""
    assert scaffold("learn").out == snapshot(
        "Nothing was learned here yet. `scaffold learn add 'WHEN ... DO ... RESULT ...'` adds a learning.\n"
    )
    evidence = ["--commit", "abc1234", "--log", "logs/x.jsonl", "--outcome", "tests_pass"]
    name = add(scaffold, TRIPLE, "-c", "CI", "-c", "#tests", "--module", "src/auth/", *evidence)
    assert scaffold("learn", "add", TRIPLE, "--json").json == {"id": name, "new": False}
    (found,) = listed(scaffold, "timeouts", "localhost")
    assert (found["when"], found["do"], found["result"]) == snapshot(
        ("tests time out on CI", "look for localhost", "they pass")
    )
    assert (found["scope"], found["module"], found["concepts"]) == ("module", "src/auth", ["ci", "tests"])
    assert (found["commit"], found["log"], found["outcome"]) == ("abc1234", "logs/x.jsonl", "tests_pass")
    assert (found["standing"], found["used"], found["expired"]) == ("unproven", 0, False)
    assert listed(scaffold, "-c", "other") == []
    shown = scaffold("learn", "show", name[:4]).out
    assert all(word in shown for word in ("abc1234", "logs/x.jsonl", "too few runs", "expires", "led to tests_pass"))
    assert scaffold("learn", "concepts").out == "ci  1 learning\ntests  1 learning\n"
    assert '"do": "look for localhost"' in scaffold("learn", "context", "-c", "ci").out
    assert "5 more" in scaffold("learn", "--evaluate").out
    assert f"forgot {name}" in scaffold("learn", "forget", name).out
    assert listed(scaffold) == []


def test_another_text_begins_without_evidence_and_one_can_take_the_place_of_another(scaffold) -> None:
    """BX-16: superseded and contradicted learnings say so."""
    old = add(scaffold, TRIPLE)
    (before,) = listed(scaffold)
    assert scaffold("learn", "edit", old, "-c", "net", "--json").json == {"id": old, "changed": True}
    assert listed(scaffold)[0]["changed_at"] == before["changed_at"]
    assert scaffold("learn", "edit", old, "--do", "look for ports", "--json").json["changed"]
    assert listed(scaffold)[0]["changed_at"] > before["changed_at"]
    new = add(scaffold, "--when", "tests time out on CI", "--do", "do not look for ports", "--supersedes", old)
    assert [each["id"] for each in listed(scaffold)] == [new]
    assert [each["superseded_by"] for each in listed(scaffold, "--all")] == [new, None]
    against = add(scaffold, "WHEN x y DO z", "--contradicts", new)
    assert {each["id"]: each["contradicted_by"] for each in listed(scaffold)} == {new: [against], against: [new]}
    assert f"contradicted by {against}" in scaffold("learn", "show", new).out


def test_what_the_user_prefers_is_kept_outside_of_the_repository(scaffold, here: Path) -> None:
    """AL-16: preferences are global."""
    name = add(scaffold, "--preference", "explicit error handling")
    os.chdir(here.parent)
    (found,) = listed(scaffold)
    assert (found["id"], found["scope"], found["preference"], found["when"]) == (name, "global", True, "always")
    assert "no learning" not in scaffold("learn", "edit", name, "--do", "small functions").err
    answer = scaffold("learn", "add", TRIPLE)
    assert (answer.code, "not in a git repository" in answer.err) == (64, True)
    assert add(scaffold, TRIPLE, "--scope", "global") != name


REFUSED = {
    ("add",): "--when",
    ("add", "when a do b"): "WHEN, DO and RESULT",
    ("add", TRIPLE, "--do", "x"): "both",
    ("add", f"WHEN {'x' * 500} DO y"): "500 characters",
    ("add", "WHEN a DO use ghp_abcdefghijklmnopqrstuvwxyz0123456789"): "secret",
    ("add", TRIPLE, "--scope", "module"): "--module FOLDER",
    ("add", TRIPLE, "--module", "../x"): "`../x`",
    ("add", TRIPLE, "--module", "/etc"): "`/etc`",
    ("add", TRIPLE, "--module", "x", "--scope", "repo"): "--module",
    ("add", TRIPLE, "--preference", "--scope", "repo"): "global",
    ("add", TRIPLE, "--commit", "HEAD"): "`HEAD`",
    ("add", TRIPLE, "--log", "x" * 301): "too long",
    ("add", TRIPLE, "-c", "two words"): "`two words`",
    ("add", TRIPLE, *(f"-c{n}" for n in range(11))): "11 concepts",
    ("add", TRIPLE, "--supersedes", "nobody"): "`nobody`",
    ("add", TRIPLE, "--outcome", "great"): "great",
    ("show", "nobody"): "`nobody`",
    ("show", ""): "``",
    ("show", "a\udcff"): "`a",
    ("forget", "nobody\x1b[2K"): "`nobody\\x1b[2K`",
    ("edit", "nobody", "--do", "x"): "`nobody`",
    ("--bogus",): "--bogus",
}
"""Bad input: what its error names."""


def test_bad_input_is_named_and_nothing_is_stored(scaffold) -> None:
    """AL-16: exit code 64, in two lines."""
    answers = {args: scaffold("learn", *args) for args in REFUSED}
    shapes = {args: (answer.code, answer.out, answer.err.count("\n")) for args, answer in answers.items()}
    assert shapes == dict.fromkeys(REFUSED, (64, "", 2))
    assert {args: answer.err for args, answer in answers.items() if REFUSED[args] not in answer.err} == {}
    assert listed(scaffold, "--all") == []


def test_two_ids_with_the_same_start_are_told(scaffold) -> None:
    names = [add(scaffold, "WHEN a b0 DO c")]
    while not (same := [name for name in names[:-1] if name[0] == names[-1][0]]):
        names.append(add(scaffold, f"WHEN a b{len(names)} DO c"))
    answer = scaffold("learn", "show", same[0][0])
    assert (answer.code, answer.out) == (64, "")
    assert "several" in answer.err


def test_a_query_is_words_and_never_an_operator(scaffold) -> None:
    """AL-16."""
    add(scaffold, TRIPLE)
    for query in ('"', "* OR NEAR(", "'; DROP TABLE learning", "x" * 50_000):
        answer = scaffold("learn", query)
        assert (answer.code, "Nothing fits" in answer.out) == (0, True)
    assert len(listed(scaffold, "--", "tests -x")) == 1


@pytest.mark.slow
def test_the_evidence_of_a_learning_is_what_became_of_attempts(context: RunContext, scaffold, plan: str) -> None:
    """BX-16: used, helped and withheld, and the lift as soon as there are enough runs."""
    name = add(scaffold, TRIPLE)
    for number in range(8):
        run = begin(context, make_run(context, plan.replace("shop", f"shop{number}")))
        land(context, run, "store", {f"store{number}.py": f"kept = {number}\n"})
        attempt = context.store.attempts.for_run(run.id)[0]
        use = {"given": [name], "withheld": []} if number < 5 else {"given": [], "withheld": [name]}
        with context.store.transaction():
            context.store.learning_uses.add(attempt.id, "start", **use)
    (found,) = listed(scaffold)
    assert (found["used"], found["helped"], found["withheld"], found["withheld_helped"], found["runs"]) == (
        5,
        5,
        3,
        3,
        8,
    )
    assert found["lift"] == {"value": 0.0, "least": 0.0, "most": 0.0}
    assert "5 of 5 with it, 3 of 3 without" in scaffold("learn", "--evaluate").out
    assert scaffold("learn", "show", name).out.count(": withheld, the work landed") == 3


def test_purge_says_that_learnings_and_items_go_with_the_database(scaffold) -> None:
    """AL-16: nothing that was written down is lost without a word."""
    add(scaffold, TRIPLE)
    assert scaffold("item", "add", "one").code == 0
    assert "the database with its runs, with 1 learning and 1 item" in " ".join(
        scaffold("purge", "--dry-run").out.split()
    )
