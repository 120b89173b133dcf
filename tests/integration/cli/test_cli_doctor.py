"""`doctor`: the result of each check, with a fix where one is needed."""

import asyncio
import os
import re
import shutil
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot

from builders import begin, bubblewrap_or_skip, git, make_run
from scaffold.cli.commands.doctor.checks import check_repository, prune_worktrees
from scaffold.cli.commands.doctor.doctor import check_endpoints
from scaffold.core.throttling import ThrottleState
from scaffold.executors.catalog import known_programs
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.sandbox.landlock.sandboxed_command import has_broker
from scaffold.host.user_dirs import user_dirs
from scaffold.store.user_store import UserStore, user_database
from support.terminal import printed_lines


def checks(answer):
    return {each["name"]: each for each in answer.json["checks"]}


def repository_checks():
    """Return the checks of the current repository alone, which need less time than all of them."""
    repository = asyncio.run(open_repository(Path.cwd(), environ=os.environ))
    return {each.name: each for each in asyncio.run(check_repository(repository, os.environ))}


def test_a_working_setup_has_no_failures(repository, scaffold, monkeypatch):
    monkeypatch.setenv("SCAFFOLD_MODEL", "codex:some")
    answer = scaffold("doctor", "--json")
    assert answer.code == 0
    assert answer.json["healthy"] is True
    # Those that the machine has are checked, too.
    of_machine = {*known_programs, "executors"}
    found = {name: each["status"] for name, each in checks(answer).items() if name not in of_machine}
    assert found.pop("sandbox") in {"ok", "warn"}, "as this machine is"
    assert found == {
        "python": "ok",
        "git": "ok",
        "data folder": "ok",
        "cache folder": "ok",
        "repository": "ok",
        "identity": "ok",
        "trust": "ok",
        "model": "ok",
        "database": "ok",
        "worktrees": "ok",
    }
    assert checks(answer)["identity"]["message"] == "Ada Example <ada@example.org>"
    assert not (repository / ".git" / "scaffold").exists(), "looking must make nothing"


def test_outside_a_repository_the_machine_is_still_checked(tmp_path, home, monkeypatch, scaffold):
    monkeypatch.chdir(tmp_path)
    answer = scaffold("doctor", "--json")
    assert answer.code == 0
    found = checks(answer)["repository"]
    assert (found["status"], found["message"]) == ("warn", "not in a repository")
    assert "git" in checks(answer)


def test_an_unusable_repository_is_a_failure_whatever_its_folder_is_called(tmp_path, home, monkeypatch, scaffold):
    bare = tmp_path / "this is not in a git repository"
    bare.mkdir()
    git(bare, "init", "--quiet", "--bare")
    monkeypatch.chdir(bare)
    answer = scaffold("doctor", "--json")
    assert (answer.code, checks(answer)["repository"]["status"]) == (1, "fail")
    assert "bare" in checks(answer)["repository"]["message"]


def test_the_bubblewrap_in_use_is_named_with_its_version(tmp_path, home, monkeypatch, scaffold):
    finding = asyncio.run(bubblewrap_or_skip())
    monkeypatch.chdir(tmp_path)
    sandbox = checks(scaffold("doctor", "--json"))["sandbox"]
    version, program = sandbox["message"].split(", ", 1)
    assert (sandbox["status"], program) == ("ok", finding.program)
    assert re.fullmatch(r"bubblewrap \d+\.\d+\.\d+( from a wheel)?", version)


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("landlock", "no terminals" if has_broker() else "not even servers on 127.0.0.1"),
        ("none", "Unix sockets of other"),
    ],
)
def test_what_a_level_cannot_give_or_hold_is_said(repository, scaffold, level, said):
    """BX-9: with a level that an earlier check found."""
    scaffold("doctor")
    cache = user_dirs().cache / "sandbox.json"
    found = msgspec.json.decode(cache.read_bytes())
    cache.write_bytes(
        msgspec.json.encode(found | {"finding": {"level": level, "problem": "no user namespaces", "fix": "allow them"}})
    )
    sandbox = checks(scaffold("doctor", "--json"))["sandbox"]
    assert sandbox["status"] == "warn"
    assert said in sandbox["message"]
    assert sandbox["message"].endswith("no user namespaces")


@pytest.mark.slow
def test_a_problem_is_shown_with_its_fix_below(repository):
    (repository / ".git" / "MERGE_HEAD").write_text(git(repository, "rev-parse", "HEAD"))
    lines = printed_lines(["doctor"], cwd=repository, columns=80)
    (place,) = (number for number, line in enumerate(lines) if line.startswith("✗ fail repository"))
    assert any("`git merge --abort`" in line for line in lines[place + 1 :]), "commands are not torn"
    assert all(len(line) <= 80 for line in lines)


def test_each_problem_of_a_repository_has_a_check(repository, home):
    git(repository, "config", "--unset", "user.email")
    (repository / "app.py").write_text("print('changed')\n")
    file = home / "scaffold" / "config" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("modle: x\n")
    found = repository_checks()
    assert (found["identity"].status, found["repository"].status, found["model"].status) == ("fail", "warn", "fail")
    assert f"{file}:1" in found["model"].message


def test_a_missing_git_is_named(repository, scaffold, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    answer = scaffold("doctor", "--json")
    assert answer.code == 1
    assert checks(answer)["git"]["message"] == "not on PATH"


def test_an_unwritable_folder_fails(repository, home, scaffold):
    (home / "scaffold").write_text("in the way")
    answer = scaffold("doctor", "--json")
    assert answer.code == 1
    assert checks(answer)["cache folder"]["status"] == "fail"
    assert "SCAFFOLD_HOME" in checks(answer)["cache folder"]["fix"]


def test_the_state_of_the_repositorys_configuration_is_shown(repository, scaffold):
    """RA-13: what is ignored, why, and how to change that; a file of comments needs no consent."""
    (repository / ".scaffold.yaml").write_text("# tier: scout\n")
    found = [repository_checks()["trust"]]
    (repository / ".mcp.json").write_text("{}")
    found.append(repository_checks()["trust"])
    scaffold("trust", "--yes")
    found.append(repository_checks()["trust"])
    (repository / ".mcp.json").write_text("{ }")
    found.append(repository_checks()["trust"])
    (repository / ".scaffold.yaml").write_text("sandbox: {mode: off}\n")
    scaffold("trust", "--yes")
    found.append(repository_checks()["trust"])
    assert [(each.status, each.message, each.fix) for each in found] == snapshot(
        [
            ("ok", "this repository has no configuration for Scaffold", ""),
            ("warn", ".mcp.json ignored: folder not trusted", "Review and trust it with `scaffold trust`."),
            ("ok", ".mcp.json trusted", ""),
            (
                "warn",
                ".mcp.json ignored: folder not trusted; .mcp.json changed",
                "Review and trust it with `scaffold trust`.",
            ),
            (
                "warn",
                "trusted, but 1 of its settings ignored, e.g. sandbox.mode",
                "`scaffold config` shows which, and why.",
            ),
        ]
    )


def test_a_corrupt_database_fails_and_is_not_changed(repository):
    path = repository / ".git" / "scaffold" / "state.db"
    path.parent.mkdir()
    for content in (b"", b"this is no database, whatever its name says" * 100):
        path.write_bytes(content)
        assert repository_checks()["database"].status == "fail"
        assert path.read_bytes() == content


def test_worktrees_of_ended_runs_are_listed(context, plan):
    run = make_run(context, plan)
    attempt = context.run_folder(run.id) / "attempts" / "abc"
    git(context.repository.root, "worktree", "add", "--detach", str(attempt))
    shown = repository_checks()["worktrees"]
    assert (shown.status, run.id in shown.message) == ("warn", True)
    assert f"scaffold resume {run.id}" in shown.fix
    begin(context, run)
    assert repository_checks()["worktrees"].status == "ok"


def test_fix_prunes_only_worktrees_with_missing_folders(context, plan, scaffold, tmp_path):
    repository = context.repository.root
    gone = context.run_folder(make_run(context, plan).id) / "landing"
    theirs = tmp_path / "their worktree"
    for folder in (gone, theirs):
        git(repository, "worktree", "add", "--detach", str(folder))
        shutil.rmtree(folder)  # noqa: TID251
    assert repository_checks()["worktrees"].status == "warn"
    answer = scaffold("doctor", "--fix", "--json")
    # On a busy machine a line about the work itself may come first.
    (removed,) = [line for line in answer.err.splitlines() if line.startswith("removed")]
    assert str(gone) in removed
    assert checks(answer)["worktrees"]["status"] == "ok"
    assert str(theirs) in git(repository, "worktree", "list"), "the user's own worktrees are none of our business"


async def test_fix_may_find_nothing_to_prune(context):
    assert await prune_worktrees(context.repository) == []


def park(state):
    clock = SystemClock()
    user = user_dirs().data
    user.mkdir(parents=True, exist_ok=True)
    with closing(UserStore.open(user_database(user), clock=clock)) as store, store.transaction():
        store.endpoints.set_state("local http://127.0.0.1:1/v1", state)


def test_a_parked_endpoint_is_shown_and_asked_again(repository, scaffold):
    """AL-31: by its name and key, and until when."""
    now_s = SystemClock().now().timestamp()
    park(ThrottleState(cooldown_from_s=now_s, cooldown_until_s=now_s + 3600, max_in_flight=1, restore_at=4))
    (found,) = check_endpoints()
    assert (found.status, found.message) == snapshot(("warn", "local http://127.0.0.1:1/v1 is rate limited"))
    assert re.fullmatch(r"It is asked again at .*\d\d:\d\d:\d\d\. `scaffold doctor --fix` lets .*", found.fix)
    fixed = scaffold("doctor", "--fix", "--json")
    assert "local http://127.0.0.1:1/v1 " in fixed.err
    assert "endpoint" not in checks(fixed)
    assert check_endpoints() == []


def test_an_endpoint_that_is_down_is_told_from_a_busy_one(repository, scaffold):
    """AL-31"""
    now_s = SystemClock().now().timestamp()
    park(ThrottleState(cooldown_from_s=now_s, cooldown_until_s=now_s + 30, failures=3, max_in_flight=1))
    assert checks(scaffold("doctor", "--json"))["endpoint"]["message"] == snapshot(
        "local http://127.0.0.1:1/v1 does not answer"
    )
