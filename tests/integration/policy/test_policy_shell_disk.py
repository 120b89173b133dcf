"""The state of the disk counts: links, expansions of globs, settings that make git run programs."""

import os
from pathlib import Path

import pytest

from builders import make_repository
from scaffold.git.client.command_line import Git
from scaffold.git.repository_config import RepositoryConfig
from scaffold.policy.permission.call_decision import CallContext, decide_call
from scaffold.policy.permission.call_request import invocation_by_name, permission_request
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.shell.command_decision import decide_command
from scaffold.policy.shell.command_policy import ShellCommandPolicy, script_digests
from scaffold.policy.shell.parse.command_parser import CommandParser, ParserMissing, installed_parser
from scaffold.policy.shell.workspace_paths import (
    MAX_ENTRIES,
    DecisionContext,
    DirEntry,
    DiskFileSystem,
    EmptyFileSystem,
    WorkspacePaths,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w" / "docs").mkdir(parents=True)
    (tmp_path / "w" / "docs" / "real.md").write_text("real")
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id_rsa").write_text("key")
    return tmp_path / "w"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop")


@pytest.fixture
def workspace(root: Path) -> WorkspacePaths:
    return WorkspacePaths(root=str(root), home=str(root.parent / "home"), files=DiskFileSystem())


async def said(command: str, workspace: WorkspacePaths, settings: frozenset[str] = frozenset()) -> str:
    ground = DecisionContext(workspace=workspace, settings=settings)
    return (await decide_command(command, ground, CommandParser(installed_parser()))).decision


async def test_a_link_counts_as_its_target(root, workspace):
    """RA-14."""
    (root / "inside.md").symlink_to("docs/real.md")
    (root / "key.md").symlink_to(root.parent / "home" / ".ssh" / "id_rsa")
    (root / "out").symlink_to(root.parent)
    (root / "hooks").symlink_to(".git/hooks")
    commands = ["cat inside.md", "cat key.md", "ls out", "cat out/x", "cat docs/../inside.md", "echo x > hooks/y"]
    assert [await said(command, workspace) for command in commands] == ["allow", "deny", "ask", "ask", "allow", "deny"]


async def test_dots_after_a_link_are_relative_to_its_target(root, workspace):
    """RA-14: `link/..` is not the folder that contains the link."""
    (root / "link").symlink_to(root.parent / "home" / ".ssh")
    assert await said("cat link/../.ssh/id_rsa", workspace) == "deny"
    assert await said("ls link/..", workspace) == "ask"


async def test_git_in_a_folder_asks_if_it_may_contain_its_own_repository(root, workspace):
    """RA-14: a bare repository inside a clone has settings, and they name programs."""
    for folder in ("src/deep", "vendor/bare/objects", "vendor/module/lib", "empty"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "deep" / "a.py").touch()
    (root / "vendor" / "bare" / "HEAD").write_text("ref: refs/heads/main")
    (root / "vendor" / "module" / "lib" / "a.py").touch()
    (root / "vendor" / "module" / ".git").write_text("gitdir: ../x")
    (root / "out").symlink_to(root.parent)
    folders = ["src", "src/deep", "docs", "vendor", "empty", "missing", "out", "vendor/bare", "vendor/module/lib"]
    said_of = {folder: await said(f"cd {folder} && git status", workspace) for folder in folders}
    assert [folder for folder, answer in said_of.items() if answer == "allow"] == ["src", "src/deep", "docs", "vendor"]


async def test_a_glob_counts_as_its_expansion(root, workspace):
    """RA-14."""
    assert await said("cat *", workspace) == "allow"
    (root / "id_rsa").write_text("key")
    assert await said("cat *", workspace) == "deny"
    assert await said("cat docs/*", workspace) == "allow"
    assert await said("wc -l docs/*.md", workspace) == "allow"


async def test_a_glob_counts_as_the_files_outside_that_links_lead_to(root, workspace):
    """RA-14: at any depth of the pattern."""
    expected = {
        "cat o*": "ask",
        "cat o*/note": "ask",
        "cat d*/o*/note": "ask",
        "cat docs/[o]ut/n?te": "ask",
        "cat docs/o*/../note": "ask",
        "grep -h x *": "ask",
        'for f in o*; do cat "$f"; done': "ask",
        "cat docs/*.md": "allow",
        "cat docs/r[[:alpha:]]al.md": "allow",
    }
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "note").write_text("x")
    (root / "out").symlink_to("../outside/note")
    (root / "docs" / "out").symlink_to(root.parent / "outside")
    assert {command: await said(command, workspace) for command in expected} == expected


async def test_a_glob_is_read_as_bash_does(root, workspace):
    """RA-14: `^` negates a class, classes have names, and each folder of a pattern counts."""
    commands = [
        *("cat .[^x]nv", "cat .[[:alpha:]]nv", "cat .[[=e=]]nv", "cat .??[^x]", "cat .*[^x]v", "grep T .[^]x]nv"),
        *("cat d*/m*", "cat docs/my.[^x]ey", "cat d*/k*", "cat [^x]*/my.*"),
    ]
    (root / ".env").write_text("x")
    (root / "docs" / "my.key").write_text("x")
    (root / "docs" / "k").symlink_to(root.parent / "home" / ".ssh" / "id_rsa")
    assert [command for command in commands if await said(command, workspace) != "deny"] == []


def test_an_approval_covers_the_files_that_a_command_runs_however_it_names_them(root, workspace):
    """RA-13: a rewritten one asks again."""
    files = {
        "make -f docs/real.md": "docs/real.md",
        "make --file=docs/real.md": "docs/real.md",
        "make -fdocs/real.md": "docs/real.md",
        "make -C docs": "docs/Makefile",
        "npm --prefix docs test": "docs/package.json",
        "npm --prefix=docs test": "docs/package.json",
        "node --require=./docs/real.md -e 1": "docs/real.md",
        "bash < docs/real.md": "docs/real.md",
        "cat docs/real.md | sh": "docs/real.md",
        "BASH_ENV=docs/real.md bash -c ls": "docs/real.md",
        "env sh -c 'make -fdocs/real.md'": "docs/real.md",
        "gdb -x docs/real.md": "docs/real.md",
        "expect docs/real.md": "docs/real.md",
        'eval "$(cat docs/real.md)"': "docs/real.md",
        "docker build -f docs/real.md .": "docs/real.md",
        "docker build docs": "docs/Dockerfile",
        "cd docs && pipenv run server": "docs/Pipfile",
        "xargs -a list sh docs/real.md": "docs/real.md",
        "unknown-program --config=docs/real.md": "docs/real.md",
    }
    for name in {*files.values()}:
        (root / name).write_text("x")
    before = {command: dict(script_digests(command, workspace)) for command in files}
    assert [command for command, read in files.items() if read not in before[command]] == []
    for name in {*files.values()}:
        (root / name).write_text("rewritten")
    after = {command: dict(script_digests(command, workspace)) for command in files}
    assert [command for command, read in files.items() if after[command][read] == before[command][read]] == []


def test_an_approval_does_not_depend_on_files_that_are_only_data(workspace):
    """RA-13: or the same command would ask again for no reason."""
    commands = ["cp docs/real.md new", "cat docs/real.md", "unknown-program > docs/real.md"]
    assert [command for command in commands if script_digests(command, workspace) != ()] == []


class FullFolder(EmptyFileSystem):
    """A file system whose every folder has as many files as are read of one."""

    def entries(self, folder):
        return tuple(DirEntry(f"{number}.txt") for number in range(MAX_ENTRIES))


async def test_a_glob_with_very_many_matches_asks():
    """RA-14: it is not followed."""
    assert await said("cat docs/*.txt", WorkspacePaths(root="/w", home="/home/u", files=FullFolder())) == "ask"


async def test_a_recursive_search_counts_as_its_files(root, workspace):
    """RA-14: a secret that is not named is shown all the same; a search that excludes it is allowed."""
    (root / "docs" / "deep").mkdir()
    (root / "docs" / "deep" / ".env").write_text("KEY=1")
    (root / "src").mkdir()
    commands = {
        "grep -rn KEY .": "ask",
        "grep -rn KEY": "ask",
        "grep --recursive KEY docs": "ask",
        "cd docs && grep -R KEY": "ask",
        "diff -r docs src": "ask",
        "grep -rn KEY src": "allow",
        "grep -rn KEY . '--include=*.py'": "allow",
        "grep -rn KEY . --exclude=.env": "allow",
        "grep -n KEY docs/real.md": "allow",
        "rg KEY": "allow",
    }
    assert {command: await said(command, workspace) for command in commands} == commands
    (root / "docs" / "server.key").write_text("key")
    assert await said("rg KEY", workspace) == "ask"


async def test_a_search_counts_the_files_that_its_flags_choose(root, workspace):
    """RA-13, RA-14: by actions, globs and types that include a secret, whatever the search leaves out otherwise."""
    (root / "docs" / ".env").write_text("KEY=1")
    (root / "src").mkdir()
    commands = {
        "grep -d recurse KEY .": "ask",
        "grep -drec KEY docs": "ask",
        "grep -d skip KEY docs/real.md": "allow",
        "grep -rf docs/real.md": "ask",
        "grep -r KEY . --exclude .env": "allow",
        "grep -r --exclude=.env --include=.env KEY .": "deny",
        "grep -r --include=.env KEY .": "deny",
        "grep -r '--include=.en[v]' KEY .": "deny",
        "grep -r '--include=.e{n}v' KEY .": "ask",
        "grep -r '--include=\\.env' KEY .": "deny",
        "grep -r --exclude=*.md '--include=*' KEY .": "ask",
        "rg -g .env KEY": "deny",
        "rg --glob=.env KEY": "deny",
        "rg -g '**/.env' KEY": "deny",
        "rg --iglob .ENV KEY": "deny",
        "rg -g '*' KEY": "ask",
        "rg -g '!*.md' KEY": "allow",
        "rg -g '!.env' -g 'docs/**' KEY": "ask",
        "rg -g '*.md' KEY": "allow",
        "rg -t py KEY": "allow",
        "rg -t all KEY": "ask",
        "rg --files -g '*'": "allow",
        "diff -N docs src": "ask",
        "diff docs/real.md src": "allow",
        "git grep --untracked KEY": "ask",
        "git grep KEY": "allow",
        "git diff docs src": "ask",
    }
    assert {command: await said(command, workspace) for command in commands} == commands


async def test_a_search_counts_hidden_files_that_an_ignore_file_keeps(root, workspace):
    """RA-13, RA-14: rg reads a `.env` that the repository's `.ignore` keeps with `!.env`."""
    (root / "docs" / ".env").write_text("KEY=1")
    assert await said("rg KEY docs", workspace) == "allow"
    for file, line in (
        (".ignore", "!.env"),
        (".gitignore", "!/docs/.env"),
        ("docs/.rgignore", "!.e*"),
        (".ignore", "!.[e]nv"),
    ):
        (root / file).write_text(f"*.log\n{line}\n")
        assert await said("rg KEY docs", workspace) == "ask", line
        (root / file).write_text("!.env.example\n.env\n")
        assert await said("rg KEY docs", workspace) == "allow", line


async def test_a_search_in_the_folder_of_git_counts_its_settings(root, workspace):
    """RA-14: they may contain a password."""
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("")
    commands = {
        "grep -r url .git": "ask",
        "grep -r --include=config url .": "ask",
        "grep -r --include=conf* url .": "ask",
        "grep -rn url .": "allow",
        "grep -rn --include=*.md url .": "allow",
    }
    assert {command: await said(command, workspace) for command in commands} == commands


async def test_a_comparison_of_folders_counts_the_targets_of_links(root, workspace):
    """RA-14: `diff` follows them, `grep -r` does not."""
    (root / "docs" / "link").symlink_to(root.parent / "home" / ".ssh" / "id_rsa")
    (root / "src").mkdir()
    commands = ["diff -r docs src", "diff docs src", "grep -r KEY docs", "diff docs/real.md docs/real.md"]
    assert [await said(command, workspace) for command in commands] == ["ask", "ask", "allow", "allow"]


async def test_the_whole_disk_is_no_workspace():
    """RA-14: started in `/`, nothing counts as inside."""
    workspace = WorkspacePaths(root="/", home="/home/u", files=DiskFileSystem())
    assert [await said(command, workspace) for command in ("cat x", "cat /etc/hostname", "ls", "pwd")] == [
        "ask",
        "ask",
        "allow",
        "allow",
    ]


async def test_file_tools_follow_links_and_fold_case(root, workspace):
    """RA-14."""
    (root / "key.md").symlink_to(root.parent / "home" / ".ssh" / "id_rsa")
    (root / "conf").symlink_to(".git")
    calls = {
        ("docs/real.md", False): "allow",
        ("docs/../docs/real.md", False): "allow",
        ("key.md", False): "deny",
        ("conf/config", True): "deny",
        (".GIT/config", True): "deny",
        (".g\u200cit/config", True): "deny",
        (".git /config", True): "deny",
        ("\uff0egit/config", True): "deny",
        ("~/.ssh/id_rsa", False): "deny",
        ("../x", False): "ask",
        ("/dev/zero", False): "deny",
        ("/proc/self/environ", False): "deny",
        ("docs/new.md", True): "ask",
        ("scaffold.config.json", True): "deny",
        ("a\nAllow? [y]", False): "ask",
        ("a\0b", False): "deny",
        ("", False): "deny",
        ("\ud800", False): "deny",
    }
    said = {}
    for path, writes in calls:
        request = permission_request(
            invocation_by_name("write_file" if writes else "read_file", {"path": path}), workspace
        )
        said[path, writes] = (
            await decide_call(request, RuleSet(), CallContext(workspace=workspace), ShellCommandPolicy())
        ).decision
    assert said == calls


async def test_repository_settings_that_run_programs_make_reading_ask(shop, tmp_path):
    """RA-14: plain `git status` runs `core.fsmonitor` and hooks, `diff` a filter; scanned in a real repository."""
    workspace = WorkspacePaths(root=str(shop), home=str(tmp_path), files=DiskFileSystem())
    assert await said("git status", workspace, await RepositoryConfig(os.environ).program_settings(shop)) == "allow"
    git = Git(shop, environ=os.environ)
    await git("config", "filter.x.clean", "./evil")
    settings = await RepositoryConfig(os.environ).program_settings(shop)
    commands = ["git status", "git diff", "git rev-parse HEAD", "ls"]
    assert [await said(command, workspace, settings) for command in commands] == ["ask", "ask", "allow", "allow"]


async def test_an_active_hook_counts_and_a_sample_does_not(shop, tmp_path):
    """RA-14."""
    hooks = shop / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit.sample").write_text("")
    assert not any(name.startswith("hook.") for name in await RepositoryConfig(os.environ).program_settings(shop))
    (hooks / "post-index-change").write_text("")
    settings = await RepositoryConfig(os.environ).program_settings(shop)
    workspace = WorkspacePaths(root=str(shop), home=str(tmp_path), files=DiskFileSystem())
    assert "hook.post-index-change" in settings
    assert await said("git status", workspace, settings) == "ask"


SIGNING = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")


async def test_a_repository_inside_the_working_tree_counts_if_the_index_links_to_it(shop, tmp_path):
    """RA-13, RA-14: `git status` and `git diff` work in it too, by its settings and its hooks."""
    ours = RepositoryConfig(os.environ)
    workspace = WorkspacePaths(root=str(shop), home=str(tmp_path), files=DiskFileSystem())
    inner = shop / "vendor" / "lib"
    inner.mkdir(parents=True)
    git = Git(inner, environ=os.environ)
    await git("init", "--quiet")
    someone = {
        f"GIT_{role}_{name}": "ada@example.invalid" for role in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")
    }
    await git("commit", "--allow-empty", "-m", "first", env=someone)
    await git("config", "core.fsmonitor", "./evil")
    assert await said("git status", workspace, await ours.program_settings(shop)) == "allow"
    outer = Git(shop, environ=os.environ)
    head = (await git("rev-parse", "HEAD")).line
    await outer("update-index", "--add", "--cacheinfo", f"160000,{head},vendor/lib")
    settings = await ours.program_settings(shop)
    commands = ["git status", "git diff", "git log", "ls vendor"]
    assert [await said(command, workspace, settings) for command in commands] == ["ask", "ask", "allow", "allow"]
    answer = await decide_command(
        "git status", DecisionContext(workspace=workspace, settings=settings), CommandParser(installed_parser())
    )
    assert answer.reason.endswith("the repository inside vendor/lib, by that repository's settings")
    (inner / ".git").rename(shop / "elsewhere")
    assert await said("git status", workspace, await ours.program_settings(shop)) == "allow"
    (inner / ".git").write_text("gitdir: ../../elsewhere\n")
    assert await said("git status", workspace, await ours.program_settings(shop)) == "ask"
    (shop / ".git" / "modules").mkdir()
    (shop / "elsewhere").rename(shop / ".git" / "modules" / "lib")
    (inner / ".git").write_text("gitdir: ../../.git/modules/lib\n")
    assert "core.fsmonitor" in await ours.program_settings(shop)


async def test_a_folder_without_a_repository_has_no_settings(tmp_path):
    """RA-14."""
    assert await RepositoryConfig(os.environ).program_settings(tmp_path / "nowhere") == frozenset()


async def test_a_parser_that_cannot_run_is_an_error_with_a_fix(workspace):
    """RA-14: never an answer without the second opinion."""
    reader = CommandParser(Path("/nowhere/shfmt"))
    with pytest.raises(ParserMissing, match="/nowhere/shfmt"):
        await decide_command(r"ls a\ b", DecisionContext(workspace=workspace), reader)


async def test_invalid_parser_output_is_rejected(workspace, tmp_path):
    """RA-14."""
    for number, script in enumerate(("exit 1", "echo '{'", "echo '{}'", "echo '{\"Stmts\":[1]}'", "echo []")):
        liar = tmp_path / f"shfmt{number}"
        liar.write_text(f"#!/bin/sh\n{script}\n")
        liar.chmod(0o755)
        assert (
            await decide_command(r"ls a\ b", DecisionContext(workspace=workspace), CommandParser(liar))
        ).decision == "ask"
