"""`memory`: what the user sees of memories, and files of them."""

import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.run.context import RunContext

FACT = "The tests need Redis on port 6380"


@pytest.fixture(autouse=True)
def here(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(context.repository.root)
    return context.repository.root


def add(scaffold, *args: str) -> str:
    answer = scaffold("memory", "add", "--json", *args)
    assert answer.code == 0, answer.err
    return answer.json["id"]


def test_a_memory_is_added_once_found_changed_and_forgotten(scaffold) -> None:
    """RA-6, RA-18."""
    assert scaffold("memory", "list").out == scaffold("memory").out
    assert scaffold("memory").out == snapshot("Nothing is remembered yet. `memory add TEXT` remembers something.\n")
    name = add(scaffold, FACT)
    assert scaffold("memory", "add", FACT, "--json").json["new"] is False
    other = scaffold("memory", "add", "--json", "The tests need Redis on port 6379", "--scope", "user").json
    assert other["contradicts"] == [name]
    assert "(contradicted)" in scaffold("memory", "search", "redis").out
    assert scaffold("memory", "show", name, "--json").json["contradicted_by"] == [other["id"]]
    edited = scaffold("memory", "edit", name, "type", "procedure", "--json").json
    assert (edited["type"], edited["text"]) == ("procedure", FACT)
    newer = add(scaffold, "Redis is on port 6379 for tests", "--supersedes", name)
    shown = scaffold("memory", "show", name).out
    assert f"replaced by: {newer}" in shown
    assert "state: superseded" in shown
    assert f"forgot {name}" in scaffold("memory", "forget", name, newer).out
    assert [each["id"] for each in scaffold("memory", "list", "--json").json["memories"]] == [other["id"]]
    (row,) = [each for each in scaffold("memory", "indices", "--json").json["indices"] if each["scope"] == "user"]
    assert (row["name"], row["memories"], row["capacity"]) == ("long_term_memory", 1, 100_000)


def test_an_export_is_read_in_again_and_any_text_in_pieces(scaffold, here: Path) -> None:
    """RA-6: unconfirmed, unless the user vouches for the file; again it adds nothing."""
    name = add(scaffold, FACT)
    add(scaffold, "I like tea", "--scope", "user", "--type", "preference")
    assert "2 memories written" in scaffold("memory", "export", "m.md").out
    assert scaffold("memory", "export", "m.md").code == 64, "a file is never overwritten"
    assert FACT in scaffold("memory", "export").out
    scaffold("memory", "forget", name)
    assert scaffold("memory", "import", "m.md", "--json").json == {"added": 1, "known": 1, "refused": []}
    found = scaffold("memory", "list", "--json").json["memories"]
    assert {(each["text"], each["state"], each["source"], each["scope"]) for each in found} == {
        (FACT, "unconfirmed", "file:m.md", "project"),
        ("I like tea", "active", "user", "user"),
    }
    assert scaffold("memory", "import", "m.md", "--confirmed", "--json").json["known"] == 2
    assert scaffold("memory", "show", found[0]["id"], "--json").json["state"] == "active"
    Path("notes.md").write_text("# Notes\n\n## Deploying\n\nOnly on Fridays.\n\n## Key\n\nAKIAIOSFODNN7EXAMPLA is it\n")
    imported = scaffold("memory", "import", "notes.md", "--json").json
    assert (imported["added"], len(imported["refused"])) == (1, 1)
    assert "AKIAIOSFODNN7EXAMPLA" not in str(imported)
    assert "Only on Fridays." in scaffold("memory", "search", "deploying").out


REFUSED = {
    ("add", " "): "no words",
    ("add", "token=ghp_0123456789abcdefghijABCDEFGHIJ012345"): "secret",
    ("show", "nobody"): "`nobody`",
    ("show", ""): "``",
    ("forget", "a", "\x01"): "`a`",
    ("list", "another"): "`another`",
    ("stats", "another"): "`another`",
    ("import", "binary"): "not a text",
    ("import", "long"): "document",
    ("export", "missing/m.md"): "missing/m.md",
    ("add", "x", "--supersedes", "nobody"): "`nobody`",
}
"""Bad input: what its error names."""


def test_what_is_wrong_is_said_in_two_lines(scaffold) -> None:
    """RA-6: with exit code 64, and nothing is stored."""
    Path("binary").write_bytes(b"\0\1" * 10)
    Path("long").write_text("word " * 60_000)
    answers = {args: scaffold("memory", *args) for args in REFUSED}
    shapes = {args: (answer.code, answer.out, answer.err.count("\n")) for args, answer in answers.items()}
    assert shapes == dict.fromkeys(REFUSED, (64, "", 2))
    assert {args: answer.err for args, answer in answers.items() if REFUSED[args] not in answer.err} == {}
    assert scaffold("memory", "list", "--json").json["memories"] == []


def test_outside_of_a_repository_there_are_the_users_memories(scaffold, tmp_path: Path, monkeypatch) -> None:
    """RA-6."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.fspath(tmp_path))
    assert scaffold("memory", "add", "I like tea", "--json").json["scope"] == "user"
    answer = scaffold("memory", "add", "x y", "--scope", "project")
    assert (answer.code, "not in a git repository" in answer.err) == (64, True)


def test_learnings_are_counted_and_only_their_own_commands_change_them(scaffold) -> None:
    """RA-18, AL-16: they are in the same store, and have rules of their own."""
    answer = scaffold("learn", "add", "WHEN tests time out DO look for localhost", "--json")
    name = answer.json["id"]
    rows = {each["name"]: each for each in scaffold("memory", "indices", "--json").json["indices"]}
    assert (rows["learnings"]["memories"], rows["learnings"]["capacity"]) == (1, 100_000)
    assert "learnings: 1 active; at most 100,000" in scaffold("memory", "stats", "learnings").out
    for args in (
        ["show", name],
        ["forget", name[:6]],
        ["edit", name, "text", "x"],
        ["add", "x y", "--supersedes", name],
    ):
        refused = scaffold("memory", *args)
        assert (refused.code, "is a learning, not a memory" in refused.err) == (64, True)
        assert "scaffold learn show" in refused.err
    refused = scaffold("memory", "list", "learnings")
    assert (refused.code, "`scaffold learn` lists" in refused.err) == (64, True)
    assert scaffold("memory", "search", "localhost").out.startswith("No memory fits")
    assert len(scaffold("learn", "localhost", "--json").json["learnings"]) == 1


def test_the_inbox_shows_what_was_noted_about_the_user_until_it_is_decided(scaffold, here: Path) -> None:
    """RA-14: a file may come from anyone, like what an agent read."""
    (here / "notes.md").write_text("# Commits\n\nThey are small\n\n# Tests\n\nThey are\x1b[1m quick\n")
    assert scaffold("memory", "import", "notes.md", "--scope", "user").code == 0
    waiting = scaffold("inbox", "--json").json["memories"]
    assert [(each["source"], Path(each["noted_in"]).name) for each in waiting] == [("file:notes.md", ".git")] * 2
    first, second = (each["id"] for each in waiting)
    shown = scaffold("inbox")
    assert f"  scaffold memory confirm {first}\n  scaffold memory forget {first}" in shown.out
    assert "\x1b" not in shown.out
    assert "unconfirmed" not in scaffold("memory", "confirm", first).out
    assert scaffold("memory", "confirm", first, "nothing").code == 64
    assert scaffold("memory", "forget", second).code == 0
    assert scaffold("inbox").out == "Nothing is waiting for you.\n"
