"""Reviews of a change: what the agent is given, and the mode in which it works."""

import os
from contextlib import closing

import pytest

from integration.session.builders import cassette, opened_session, session_options
from scaffold.agent.model_access import open_user_store
from scaffold.core.errors import UsageError
from scaffold.git.client.command_line import Git
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.session.file_history import FileHistory
from scaffold.session.slash.prompt_commands import send_command
from scaffold.session.slash.syntax import StartReview
from scaffold.session.working_tree import change_to_review

AS_USER = ("-c", "user.name=U", "-c", "user.email=u@example.org")


@pytest.fixture
async def git(tmp_path):
    """A repository with a commit on `main`, and one on each of two branches."""
    (tmp_path / "work").mkdir()
    made = Git(tmp_path / "work", environ=os.environ)
    await made("init", "-q", "-b", "main")
    await commit(made, "base")
    for branch in ("one", "two"):
        await made("checkout", "-q", "-b", branch, "main")
        await commit(made, branch)
    return made


async def commit(git, name):
    """Commit a file of this name with this content."""
    (git.cwd / name).write_text(f"{name}\n")
    await git("add", ".")
    await git(*AS_USER, "commit", "-qm", f"add {name}")


async def test_the_change_is_that_of_a_branch_a_commit_or_a_range(git, tmp_path):
    """RA-18: a branch has what HEAD lacks; messages of the commits tell what was wanted."""
    root, history = git.cwd, FileHistory(tmp_path / "history")
    added = {}
    await git("tag", "one-ish", "one")
    await git(*AS_USER, "merge", "-q", "--no-edit", "one")
    for named in ("HEAD", "HEAD~1", "main", "main..", "main...two", "..one", "one-ish"):
        try:
            text = await change_to_review(named, history, root)
        except UsageError as error:
            added[named] = error.what
            continue
        added[named] = [line[1:] for line in text.splitlines() if line.startswith("+") and line[1:2] != "+"]
        assert text.startswith("commit "), named
    assert added == {
        "HEAD": ["one"],
        "HEAD~1": ["two"],
        "main": "`main` has no change",
        "main..": ["one", "two"],
        "main...two": ["one", "two"],
        "..one": "`..one` has no change",
        "one-ish": ["one"],
    }
    await git("checkout", "-q", "main")
    assert "+two" in await change_to_review("two", history, root)
    assert "+base" in await change_to_review("HEAD", history, root), "a commit without a parent"


async def test_what_names_no_commit_is_refused(git, tmp_path):
    """RA-18: with what to do."""
    for named in ("none", "--output=x", "main..none", "HEAD^^^^", "../x", "-"):
        with pytest.raises(UsageError, match="neither a branch nor a commit"):
            await change_to_review(named, FileHistory(tmp_path / "history"), git.cwd)


async def test_without_a_name_it_is_what_is_not_committed(git, tmp_path):
    """RA-18: outside of git what the file tools changed, which is nothing here."""
    root, history = git.cwd, FileHistory(tmp_path / "history")
    with pytest.raises(UsageError, match="everything is committed"):
        await change_to_review("", history, root)
    (root / "base").write_text("changed\n")
    (root / "new").write_text("new\n")
    text = await change_to_review("", history, root)
    assert "+changed" in text
    assert "untracked: new" in text
    for named in ("", "main"):
        with pytest.raises(UsageError):
            await change_to_review(named, history, tmp_path)


async def test_a_review_is_one_turn_in_its_mode_without_secrets(home, git, tmp_path):
    """RA-5, RA-18: the mode is over even if the turn fails, and is not stored."""
    secret = "ghp_" + "a1B2" * 9
    (git.cwd / "base").write_text(f"token={secret}\n")
    asked = r"(?s)Review what is not committed.*Attached: the change.*\+token="
    model = cassette(
        tmp_path / "tape.yaml",
        {
            "when": {"role": "agent", "turn": 1, "contains": asked},
            "tool_calls": [{"name": "write_file", "args": {"path": "x", "content": "x"}}],
        },
        {"when": {"role": "agent", "turn": 2, "contains": "review allows no changes"}, "text": "no defects"},
    )
    options = session_options(git.cwd, rules=RuleSet(yolo=True))
    with closing(open_user_store()) as store:
        async with opened_session(store, options, model) as session:
            assert (await send_command(session, StartReview())).text == "no defects"
            assert session.modes.current == "default"
            with pytest.raises(Exception, match="no reply"):
                await send_command(session, StartReview())
            assert session.modes.current == "default"
            sent = str(session.open_conversation.conversation.kept)
        assert store.conversations.state(session.open_conversation.id).mode == "default"
    assert "token=" in sent
    assert secret not in sent
    assert not (git.cwd / "x").exists()
