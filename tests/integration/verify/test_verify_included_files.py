"""Files that `.worktreeinclude` names: which are copied, and what a checkout gets."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import sandbox_or_skip
from integration.verify.builders import EnvironmentSetup, check_output
from scaffold.core.run_settings import Signature
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.git.ignored_files import pattern_lines
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.environment.golden import RECORD
from scaffold.verify.environment.included_files import MAX_FILES
from scaffold.verify.environment.preparation import PreparedEnvironment
from scaffold.verify.environment.provisioning import reprovision

IGNORED = ".env*\n*.local.json\n*.db\n*.key\n/data/\nnode_modules\n"


@pytest.fixture
async def project(harness, tmp_path):
    made = EnvironmentSetup(harness, tmp_path)
    await made.commit({".gitignore": IGNORED, "src/app.local.json": "tracked", "src/.env.example": "A="})
    return made


def fill(project, *names):
    for name in names:
        path = project.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}\n")


async def included(project, text):
    """Return what the lines of a `.worktreeinclude` bring in, and the secrets that they leave out."""
    found = await project.prepare(include=pattern_lines(text.encode()))
    assert isinstance(found, PreparedEnvironment), found
    return [file.target for file in found.environment.files], list(found.secrets)


async def test_a_file_is_copied_if_git_ignores_it_and_a_secret_only_by_its_name(project):
    """BX-10: what is not ignored is left to the user, tracked files are there, packages are installed."""
    fill(project, "x.local.json", "deep/er/x.local.json", ".env", ".env.test", "deep/.env", "notes.txt")
    fill(project, "data/rows.csv", "data/tls.key", "node_modules/left/x.local.json", ".scaffold/x.local.json")
    every = [".env", ".env.test", "data/tls.key", "deep/.env"]
    copied = {
        "*.local.json": (["deep/er/x.local.json", "x.local.json"], []),
        "/x.local.json": (["x.local.json"], []),
        "# a comment\n\n  \n*.local.json  \r\n!deep/**": (["x.local.json"], []),
        ".env": ([".env", "deep/.env"], []),
        "/.env": ([".env"], []),
        "**/.env": ([".env", "deep/.env"], []),
        ".env*": ([], [".env", ".env.test", "deep/.env"]),
        ".env*\n.env.test": ([".env.test"], [".env", "deep/.env"]),
        ".env\n!/.env": (["deep/.env"], []),
        "data/": (["data/rows.csv"], ["data/tls.key"]),
        "data/\ndata/tls.key": (["data/rows.csv", "data/tls.key"], []),
        "*": (["data/rows.csv", "deep/er/x.local.json", "x.local.json"], every),
        "notes.txt\nsrc": ([], []),
        "": ([], []),
        "nothing-like-this\n[\n\\": ([], []),
    }
    found = {lines: await included(project, lines) for lines in copied}
    assert {lines: (names, secrets) for lines, (names, secrets) in found.items()} == copied


async def test_a_secret_is_copied_by_its_own_name_only_not_by_that_of_a_folder_or_by_a_wildcard(project):
    """BX-10: a file that happens to be named like the folder or like the wildcard changes nothing."""
    await project.commit({".gitignore": IGNORED + "credentials.json\n"})
    fill(project, "a/credentials.json", "b/credentials.json/server.key", "c/server.key", "*.key")
    found, secrets = await included(project, "credentials.json\n/c/server.key")
    assert found == ["a/credentials.json", "c/server.key"]
    assert secrets == ["b/credentials.json/server.key"]
    assert await included(project, "*.key") == ([], ["*.key", "b/credentials.json/server.key", "c/server.key"])


async def test_patterns_are_read_like_those_of_git_whatever_they_contain(project):
    """BX-10: a byte order mark, lines of any length and number, bytes that are no text."""
    fill(project, "x.local.json")
    for content in (
        b"\xef\xbb\xbf*.local.json\n",
        b"x" * 200_000 + b"\n*.local.json",
        b"*.local.json\n" * 100_000,
        b"\0\n\xff\n*.local.json",
        b"..\n/\n\\\n../../*\n:/\n!\n[\n*.local.json",
    ):
        found = await project.prepared(include=pattern_lines(content))
        assert [file.target for file in found.files] == ["x.local.json"], content[:40]
    assert "\0" not in "".join(pattern_lines("*.local.json\n".encode("utf-16")))


async def test_files_with_odd_names_are_copied(project):
    """BX-10: what git could take for a pattern, an option or an instruction is the name of a file."""
    names = ["*.local.json", "[x].local.json", "a\nb.local.json", ":(x.local.json", ":!x.local.json", "-x.local.json"]
    names += ["data/ ", "data/\\", "data/#h", "data/\"'"]
    fill(project, *names)
    environment = await project.prepared(include=("*.local.json", "data/"))
    assert sorted(names) == [file.target for file in environment.files]
    async with project.tree(environment) as tree:
        assert all((tree.git.cwd / name).is_file() for name in names)


async def test_links_and_files_of_other_repositories_are_not_copied(project, tmp_path):
    """BX-10: a link would lead a worktree out of itself."""
    (tmp_path / "far.local.json").write_text("far")
    (project.repo / "link.local.json").symlink_to(tmp_path / "far.local.json")
    (project.repo / "folder.local.json").mkdir()
    os.mkfifo(project.repo / "pipe.local.json")
    fill(project, "inner/x.local.json")
    await project.harness.sh("git init -q inner")
    assert await included(project, "*.local.json") == ([], [])


async def test_a_checkout_gets_the_files_as_they_were_and_gets_them_again(project):
    """BX-10: with their modes and missing folders; what a command did to them is undone with the next reset."""
    fill(project, "data/deep/run", ".env")
    (project.repo / "data/deep/run").chmod(0o750)
    environment = await project.prepared(include=("data/", ".env"))
    (project.repo / ".env").write_text("changed by the user\n")
    async with project.tree(environment) as tree:
        top = tree.git.cwd
        assert stat.S_IMODE((top / "data/deep/run").stat().st_mode) == 0o750
        for change in ("echo more >> .env", "rm -r .env data", "rm -r data; echo > data", "true"):
            await check_output(tree, change)
            async with reprovision(environment, top):
                await worktree.reset_and_clean(tree.git, tree.commit)
            assert (top / "data/deep/run").read_text() == snapshot("content of data/deep/run\n")
            assert (top / ".env").read_text() == "content of .env\n"
            assert await check_output(tree, "git status --porcelain") == ""


async def test_results_do_not_count_for_other_contents(project):
    """BX-4, BX-10: the files are part of the environment's fingerprint."""
    fill(project, ".env")
    first = await project.prepared(include=("/.env",))
    assert await project.prepared(include=("/.env",)) == first
    (project.repo / ".env").write_text("B=2\n")
    second = await project.prepared(include=("/.env",))
    (project.repo / ".env").chmod(0o600)
    third = await project.prepared(include=("/.env",))
    assert len({each.fingerprint for each in (first, second, third, await project.prepared())}) == 4
    kept = [path.name for path in (project.cache / "environments").iterdir() if path.is_dir()]
    assert not [name for name in kept if name.startswith("files-")], "an unfinished snapshot was left"


async def test_files_kept_for_earlier_runs_are_deleted_once_unused_for_long(project):
    """BX-10: secrets do not stay forever where no run needs them."""
    fill(project, ".env")
    first = await project.prepared(include=("/.env",))
    kept = Path(first.files[0].source)
    os.utime(kept.parents[1] / RECORD, (0, 0))
    (project.repo / ".env").write_text("B=2\n")
    second = await project.prepared(include=("/.env",))
    left = [path.name for path in (project.cache / "environments").glob("included-*")]
    assert left == [Path(second.files[0].source).parents[1].name]


async def test_a_copied_secret_is_redacted_after_the_user_changed_theirs(project):
    """BX-10, BX-9: worktrees keep the copy for the whole run."""
    context = structs.replace(project.harness.context, cache=project.cache)
    (project.repo / ".env").write_text("PASSWORD=hunter2-hunter2\n")
    await project.prepared(include=("/.env",))
    (project.repo / ".env").unlink()
    assert context.redactor.clean("hunter2-hunter2") == "[redacted:PASSWORD]"


async def test_no_file_is_written_through_a_link_or_over_the_work(project, tmp_path):
    """BX-10: a candidate's own file stays, and a link in place of a folder is not followed."""
    fill(project, "data/rows.csv", "x.local.json")
    environment = await project.prepared(include=("data/", "x.local.json"))
    (tmp_path / "elsewhere").mkdir()
    await project.harness.sh(f"rm -r data; ln -s '{tmp_path}/elsewhere' data; git add -f data")
    await project.commit({"x.local.json": "mine"})
    async with project.tree(environment) as tree:
        assert (tree.git.cwd / "x.local.json").read_text() == "mine"
    assert list((tmp_path / "elsewhere").iterdir()) == []


AUTHOR = Signature("Ada", "ada@example.org")


async def committed_paths(tree, environment):
    """Commit the work in a tree as an attempt does, and return the paths of the commit."""
    files = {file.target: Path(file.source) for file in environment.files}
    kept_out = commits.KeptOut(tree.base, files)
    head = await commits.commit_all_info(tree.git, "work", author=AUTHOR, committer=AUTHOR, kept_out=kept_out)
    return set(await commits.listed_paths(tree.git, head.commit))


@pytest.mark.parametrize("trick", ["true", "git add -Af", "git add -Af; git commit -qm mine"])
async def test_a_folder_that_is_renamed_around_the_files_is_committed_without_them(project, trick):
    """BX-10: under their new paths nothing may ignore them; equal files of the project and of the agent are work."""
    ignored = "/conf/*.local\n/conf/*.json\n"
    await project.commit({".gitignore": ignored, "conf/a": "1", "samples/x.json": "{}"})
    fill(project, "conf/x.local")
    (project.repo / "conf/x.json").write_text("{}")
    environment = await project.prepared(include=("conf/",))
    async with project.tree(environment) as tree:
        await project.harness.sh(
            f"cd '{tree.git.cwd}'; mv conf new; mv samples old; echo own > new/y.local; cp new/x.local z; {trick}"
        )
        found = await committed_paths(tree, environment)
    assert found >= {"new/a", "new/y.local", "old/x.json", "z"}
    assert "new/x.local" not in found
    assert "conf/x.json" not in found


@pytest.mark.slow
async def test_many_files_with_long_names_are_kept_out(project):
    """BX-10"""
    folder = "/".join(["data", *["d" * 250] * 3])
    fill(project, *(f"{folder}/{number}" for number in range(3_000)))
    environment = await project.prepared(include=("data/",))
    async with project.tree(environment) as tree:
        (tree.git.cwd / ".gitignore").write_text("")
        assert await committed_paths(tree, environment) == {".gitignore", "README", "list", "src/.env.example"} | {
            "src/app.local.json"
        }


async def test_a_name_that_is_not_utf_8_is_an_error_with_a_fix(project):
    """BX-10"""
    await project.harness.sh("echo > \"$(printf 'a\\377.local.json')\"")
    found = await project.prepare(include=("*.local.json",))
    assert isinstance(found, NotReady)
    assert found.what.endswith(".local.json, which .worktreeinclude names, cannot be copied: its name is not UTF-8")
    assert found.what.isprintable()
    assert isinstance(await project.prepare(include=("*.local.json", "!a*")), PreparedEnvironment)


@pytest.mark.slow
async def test_too_much_or_unreadable_files_are_an_error_with_a_fix(project):
    """BX-10"""
    fill(project, *(f"data/{number}.csv" for number in range(MAX_FILES + 1)))
    found = await project.prepare(include=("data/",))
    assert isinstance(found, NotReady)
    assert found.what.startswith(".worktreeinclude names 10,001 files with 0 MB in all, more than 10,000 files")


async def test_an_included_secret_is_visible_in_its_checkout_alone(harness, tmp_path):
    """BX-10, BX-9: the user named it for commands there; the user's own copy and the kept one stay hidden."""
    await sandbox_or_skip()
    project = EnvironmentSetup(harness, tmp_path, sandboxed=True)
    await project.commit({".gitignore": IGNORED})
    fill(project, ".env", ".env.test", "deep/.aws/config.db")
    with closing(sqlite3.connect(project.repo / "rows.db")) as database:
        database.execute("CREATE TABLE found (word)")
    lines = ("/.env", "/deep/.aws/config.db", "rows.db")
    environment = await project.prepared(include=lines)
    async with project.tree(environment) as tree:
        assert (await check_output(tree, "cat .env deep/.aws/config.db")).count("content of") == 2
        write = "import sqlite3; c = sqlite3.connect('rows.db'); c.execute('INSERT INTO found VALUES (1)'); c.commit()"
        assert await check_output(tree, f'python3 -c "{write}" && echo written') == "written"
        kept = environment.files[0].source
        assert await check_output(tree, f"cat '{kept}' 2>/dev/null || echo hidden") == "hidden"
