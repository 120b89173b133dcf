"""`item`: adding, linking, moving and finding what belongs to no plan."""

import pytest
from inline_snapshot import snapshot

from scaffold.run.context import RunContext


@pytest.fixture(autouse=True)
def _here(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(context.repository.root)


def item(scaffold, *args: str):
    """Return the items that a command prints."""
    answer = scaffold("item", *args, "--json")
    assert answer.code == 0, answer.err
    return answer.json["items"]


def add(scaffold, *args: str) -> str:
    (added,) = item(scaffold, "add", *args)
    return added["id"]


def test_items_are_added_ordered_worked_and_done(scaffold) -> None:
    """AL-29: add (-p, -e, --parent, --blocks), ready, start, log, block, done."""
    assert scaffold("item").out.rstrip() == snapshot(
        "There are no items yet. `scaffold item add TITLE` adds one; agents file what they find outside of their task."
    )
    epic = add(scaffold, "Feature", "X", "-e", "-p", "shop")
    second = add(scaffold, "second", "--parent", epic, "-l", "#bug")
    first = add(scaffold, "first", "--parent", epic, "--blocks", second, "-p", "shop")
    assert [each["id"] for each in item(scaffold, "ready")] == [first]
    assert item(scaffold, "ready", "-p", "other") == []
    (shown,) = item(scaffold, "list", "-l", "bug")
    assert (shown["type"], shown["status"], shown["priority"]) == ("task", "open", 2)
    assert (shown["blocked_by"], shown["ready"], shown["labels"], shown["parent"]) == ([first], False, ["bug"], epic)
    (line,) = [line for line in scaffold("item").out.splitlines() if "second" in line]
    assert first in line
    assert item(scaffold, "start", first[:5])[0]["status"] == "in_progress"
    assert item(scaffold, "log", first, "half", "of", "it")[0]["id"] == first
    assert item(scaffold, "block", first, "no", "server")[0]["reason"] == "no server"
    assert [each["id"] for each in item(scaffold, "list", "--status", "blocked")] == [first]
    assert [each["status"] for each in item(scaffold, "done", first, second)] == ["done", "done"]
    assert item(scaffold, "done", epic)[0]["status"] == "done"
    assert item(scaffold, "list") == []
    assert "None of 3 items fits" in scaffold("item").out
    assert len(item(scaffold, "list", "--all")) == 3
    log = scaffold("item", "show", first, "--json").json["log"]
    assert [each["text"] for each in log] == ["added", "in_progress", "half of it", "blocked: no server", "done"]
    text = scaffold("item", "show", first).out
    assert all(word in text for word in (f"part of: {epic}", f"blocks: {second}", "half of it", "project: shop"))


def test_an_item_is_changed_linked_canceled_and_opened_again(context: RunContext, scaffold, run) -> None:
    """AL-29: linked to an action, whose status stays its own."""
    name, other = add(scaffold, "one", "--action", "store"), add(scaffold, "two")
    assert (item(scaffold, "list")[0]["run"], item(scaffold, "list")[0]["action"]) == (run.id, "store")
    assert item(scaffold, "link", name, "api", "--run", run.id[:5])[0]["action"] == "api"
    changes = ["--title", "One", "-d", "more", "--priority", "0", "-p", "shop", "-l", "a", "--blocked-by", other]
    (changed,) = item(scaffold, "edit", name, *changes)
    assert (changed["title"], changed["priority"], changed["blocked_by"]) == ("One", 0, [other])
    (changed,) = item(scaffold, "edit", name, "--parent", other, "--not-blocked-by", other)
    assert changed["parent"] == other
    (changed,) = item(scaffold, "edit", name, "--parent", "", "--unlabel", "a", "-p", "")
    assert (changed["parent"], changed["blocked_by"], changed["labels"], changed["project"]) == (None, [], [], None)
    assert item(scaffold, "cancel", name)[0]["status"] == "canceled"
    assert item(scaffold, "reopen", name)[0]["status"] == "open"
    assert [each["status"] for each in scaffold("tasks", "--json").json["actions"]] == ["pending", "pending"]


def test_learnings_are_reached_from_items_too(scaffold) -> None:
    """AL-29: learn -c, context -c, concepts."""
    assert scaffold("item", "learn", "WHEN a b DO c", "-c", "cache").code == 0
    assert scaffold("item", "concepts").out == "cache  1 learning\n"
    assert '"do": "c"' in scaffold("item", "context", "-c", "cache").out


REFUSED = {
    ("add", ""): "title",
    ("add",): "TITLE",
    ("add", "x" * 201): "200",
    ("add", "x", "-d", "y" * 9_000): "8,000",
    ("add", "x", "--priority", "10"): "0<=x<=9",
    ("add", "x", "-l", "two words"): "label",
    ("add", "x", "--parent", "nobody"): "`nobody`",
    ("add", "x", "--blocks", "nobody"): "`nobody`",
    ("add", "x", "--action", "store"): "no run",
    ("add", "x", "--run", "r"): "--run",
    ("add", "token ghp_abcdefghijklmnopqrstuvwxyz0123456789"): "secret",
    ("start", "nobody"): "`nobody`",
    ("show", ""): "``",
    ("block", "nobody"): "REASON",
    ("log", "nobody", " "): "empty",
    ("log", "nobody", "x" * 3_000): "too long",
    ("bogus",): "bogus",
}
"""Bad input: what its error names."""


def test_bad_input_is_named_and_nothing_is_stored(scaffold) -> None:
    """AL-29: exit code 64, in two lines."""
    answers = {args: scaffold("item", *args) for args in REFUSED}
    shapes = {args: (answer.code, answer.out, answer.err.count("\n")) for args, answer in answers.items()}
    assert shapes == dict.fromkeys(REFUSED, (64, "", 2))
    assert {args: answer.err for args, answer in answers.items() if REFUSED[args] not in answer.err} == {}
    assert item(scaffold, "list", "--all") == []


def test_what_would_wait_for_itself_is_refused(scaffold) -> None:
    """AL-29."""
    first = add(scaffold, "first")
    second = add(scaffold, "second", "--blocked-by", first)
    answer = scaffold("item", "edit", first, "--blocked-by", second)
    assert (answer.code, second in answer.err) == (64, True)
    assert first in scaffold("item", "start", second).err
    assert item(scaffold, "list")[0]["blocked_by"] == []
