"""Unusual repositories, as users have them."""

import os

import pytest

from builders import commit_all
from scaffold.core.errors import GitError, PermanentGitError, RepositoryError
from scaffold.core.ids import Commit
from scaffold.git.checkouts import worktree
from scaffold.git.checkouts.worktree_pool import WorktreePool
from scaffold.git.commits import changed_paths, listed_paths
from scaffold.git.refs import move, resolve
from scaffold.git.repository import checkout_status, open_repository, starting_point
from scaffold.git.trees.merge import Merged, merge_commits


@pytest.fixture
def open_at(environ):
    async def opened(path):
        return await open_repository(path, environ=environ)

    return opened


@pytest.fixture
def place(tmp_path):
    return tmp_path / "cache" / "w"


async def walk(repo, place, people, change):
    """Survey, check out, change, commit, merge and land; return the base, the commit and git in the worktree."""
    head = (await checkout_status(repo)).head
    git = await worktree.add(repo, place, head)
    change(git.cwd)
    work = await commit_all(git, "work", **people)
    assert isinstance(await merge_commits(repo.git, head, work or head), Merged)
    assert await move(repo.git, "refs/heads/session", new=work or head, old=None)
    return head, work, git


def add_a_file(root):
    (root / "new").write_text("new\n")


def nothing(root):
    """Make no change."""


async def test_links_of_every_kind_stay_links(repo, sh, place, people):
    await sh(
        "ln -s a link; ln -s nowhere dangling; ln -s b folder; ln -s ../../.. out; git add .; git commit -qm links"
    )

    def change(root):
        assert (root / "out").readlink().as_posix() == "../../.."
        (root / "dangling").unlink()
        (root / "dangling").symlink_to("elsewhere")
        (root / "more").symlink_to("b", target_is_directory=True)
        (root / "a").unlink()
        (root / "a").symlink_to("/etc/passwd")

    head, work, git = await walk(repo, place, people, change)
    assert await changed_paths(repo.git, head, work) == ("a", "dangling", "more")
    assert (await repo.git("cat-file", "blob", f"{work}:a")).out == b"/etc/passwd"
    await worktree.reset_and_clean(git, head)
    assert not (git.cwd / "a").is_symlink()


async def test_unusual_file_names_are_supported(repo, place, people):
    names = [b"caf\xe9", b"new\nline", b'quo"te', b"-dash", b" space ", b":(glob)*", b"tab\t", "ü".encode()]

    def change(root):
        for name in names:
            (root / os.fsdecode(name)).write_text("x")

    head, work, git = await walk(repo, place, people, change)
    assert {os.fsencode(path) for path in await changed_paths(repo.git, head, work)} == set(names)
    assert set(map(os.fsdecode, names)) <= set(await listed_paths(repo.git, work))
    await worktree.reset_and_clean(git, head)
    await worktree.reset_and_clean(git, work)
    assert set(names) <= {os.fsencode(path.name) for path in git.cwd.iterdir()}


@pytest.mark.parametrize("ignore_case", ["true", "false"])
async def test_a_rename_that_only_changes_case_lands(repo, sh, place, people, ignore_case):
    await sh(f"git config core.ignoreCase {ignore_case}")

    def change(root):
        (root / "a").rename(root / "A")
        (root / "A").write_text("other\n")

    _, work, _ = await walk(repo, place, people, change)
    assert (await repo.git("cat-file", "blob", f"{work}:A")).line == "other"
    assert "a" not in await listed_paths(repo.git, work)


async def test_executable_bits_land(repo, place, people):
    def change(root):
        (root / "a").chmod(0o755)
        (root / "run").chmod(0o644)

    head, work, _ = await walk(repo, place, people, change)
    assert await changed_paths(repo.git, head, work) == ("a", "run")


async def test_executable_bits_are_kept_where_git_does_not_trust_them(repo, sh, place, people):
    await sh("git config core.fileMode false")

    def change(root):
        (root / "run").chmod(0o644)
        (root / "run").write_text("changed")

    _, work, _ = await walk(repo, place, people, change)
    assert (await repo.git("ls-tree", work, "run")).line.startswith("100755")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "attributes"),
    [
        ("core.autocrlf true", ""),
        ("core.autocrlf true", "* text=auto"),
        ("core.autocrlf input", ""),
        ("core.safecrlf true", "* text=auto"),
        ("core.safecrlf true", "*.txt text eol=crlf"),
        ("core.eol crlf", "* text=auto"),
        ("core.eol crlf", "* -text"),
    ],
)
async def test_line_endings_survive_a_round_trip(repo, sh, place, people, setting, attributes):
    await sh(
        f"printf 'one\\r\\ntwo\\r\\n' > crlf.txt; printf 'one\\ntwo\\n' > lf.txt; echo '{attributes}' > .gitattributes;"
        f"printf 'a\\0b\\r\\n' > binary; : > empty; git add .; git commit -qm ends; git config {setting}; rm lf.txt;"
        "git checkout -q lf.txt"
    )
    head, work, git = await walk(repo, place, people, nothing)
    assert work is None
    assert (git.cwd / "lf.txt").read_bytes() == (repo.root / "lf.txt").read_bytes(), "as the user has it"
    assert (git.cwd / "binary").read_bytes() == b"a\0b\r\n"
    (git.cwd / "crlf.txt").write_bytes((git.cwd / "crlf.txt").read_bytes() + b"three\r\n")
    work = await commit_all(git, "one line more", **people)
    assert (await repo.git("diff-tree", "--numstat", head, work)).line == "1\t0\tcrlf.txt"


@pytest.mark.parametrize("cone", ["--cone b", "--no-cone /a", "--cone --sparse-index b"])
async def test_a_worktree_is_full_although_the_user_s_checkout_is_sparse(repo, sh, place, people, cone):
    await sh(f"git sparse-checkout set {cone}")
    before = sorted(path.name for path in repo.root.iterdir())
    _, work, git = await walk(repo, place, people, add_a_file)
    assert sorted(path.name for path in git.cwd.iterdir()) == [".git", ".gitignore", "a", "b", "new", "run"]
    await sh("git checkout -q HEAD~1; git checkout -q -", cwd=git.cwd)
    assert (git.cwd / "run").exists(), "for the agent's own git, too"
    assert "run" in await listed_paths(repo.git, work)
    assert sorted(path.name for path in repo.root.iterdir()) == before


async def test_a_shallow_clone_is_supported(repo, sh, open_at, place, people, tmp_path):
    await sh(
        f"git commit -q --allow-empty -m second; git clone -q --depth 1 'file://{repo.root}' '{tmp_path / 'shallow'}'"
    )
    shallow = await open_at(tmp_path / "shallow")
    _, work, _ = await walk(shallow, place, people, add_a_file)
    assert work


@pytest.fixture
async def partial(repo, sh, open_at, tmp_path, request):
    """A clone that lacks files, with two commits."""
    await sh(
        "git config uploadpack.allowFilter true; echo new > a; git commit -qam second;"
        f"git clone -q --filter={request.param} --no-checkout 'file://{repo.root}' '{tmp_path / 'partial'}'"
    )
    return await open_at(tmp_path / "partial")


@pytest.mark.parametrize("partial", ["blob:none", "tree:0"], indirect=True)
async def test_a_run_in_a_partial_clone_starts_with_all_files_and_fetches_no_others(partial, sh, place, people):
    """BX-9: its worktrees are whole; what the repository's settings name is not run to fetch them."""
    await sh(
        "git sparse-checkout set --no-cone /run;"
        "git config remote.origin.uploadpack \"sh -c 'touch ../ran; git-upload-pack \\$0'\";"
        "git config core.sshCommand 'touch ../ran'",
        cwd=partial.root,
    )
    assert (await starting_point(partial)).head == await resolve(partial.git, "HEAD")
    _, work, git = await walk(partial, place, people, add_a_file)
    assert work
    assert (git.cwd / "a").read_text() == "new\n"
    assert not (partial.root.parent / "ran").exists()
    if await missing_objects(partial, "HEAD~1"):
        with pytest.raises(PermanentGitError, match="partial clone") as caught:
            await worktree.reset_and_clean(git, await resolve(partial.git, "HEAD~1"))
        fix = caught.value.fix.split("`")[1]
        await sh(f"git config --unset remote.origin.uploadpack; {fix}", cwd=partial.root)
    await worktree.reset_and_clean(git, await resolve(partial.git, "HEAD~1"))


async def missing_objects(repo, commit):
    listed = await repo.git("rev-list", "--objects", "--missing=print", "--max-count=1", commit)
    return [line for line in listed.line.split("\n") if line.startswith("?")]


@pytest.mark.parametrize("partial", ["blob:none"], indirect=True)
async def test_files_that_cannot_be_fetched_are_told_before_a_run_with_one_command(repo, partial, sh):
    """BX-9."""
    repo.root.rename(away := repo.root.parent / "away")
    with pytest.raises(RepositoryError, match="this is a partial clone, and the files that it lacks") as caught:
        await starting_point(partial)
    away.rename(repo.root)
    await sh(caught.value.fix.split("`")[1], cwd=partial.root)
    assert not await missing_objects(partial, "HEAD")
    await starting_point(partial)


async def test_missing_objects_of_the_commit_are_no_missing_commit(repo, sh, open_at, tmp_path):
    """BX-9: a folder of borrowed objects is gone."""
    await sh(f"git clone -q --shared '{repo.root}' '{tmp_path / 'borrower'}'")
    repo.root.rename(repo.root.parent / "away")
    with pytest.raises(RepositoryError, match=r"lacks the objects of its commit .*, which it borrows from"):
        await checkout_status(await open_at(tmp_path / "borrower"))


@pytest.mark.parametrize(
    "lay_out",
    ["git init -q --separate-git-dir ../apart", "mv .git ../apart; ln -s ../apart .git", "git config core.worktree .."],
    ids=["a git directory elsewhere", "a linked git directory", "its own folder named"],
)
async def test_the_main_checkout_is_found_wherever_its_git_directory_is(repo, sh, open_at, lay_out, tmp_path):
    """BX-9: else its branch would count as checked out elsewhere."""
    await sh(lay_out)
    here = await open_at(repo.root)
    branch = (await checkout_status(here)).branch
    assert [each.path for each in await worktree.worktrees_on_branch(here, branch)] == [here.root]
    await sh(f"git worktree add -q --detach '{tmp_path / 'linked'}'")
    linked = await open_at(tmp_path / "linked")
    (found,) = await worktree.worktrees_on_branch(linked, branch)
    assert found.branch == branch


async def test_a_submodule_is_a_checkout_of_its_own(repo, sh, open_at, tmp_path):
    """BX-9: also seen from a worktree of it."""
    outer, mod = tmp_path / "outer", tmp_path / "outer" / "mod"
    await sh(
        f"git init -q '{outer}'; cd '{outer}';"
        f"git -c protocol.file.allow=always submodule --quiet add '{repo.root}' mod;"
        f"cd mod; git checkout -q -B main; git worktree add -q --detach '{tmp_path / 'linked'}'"
    )
    for place in (mod, tmp_path / "linked"):
        (found,) = await worktree.worktrees_on_branch(await open_at(place), "main")
        assert found.path == mod


@pytest.mark.parametrize(("where", "variable"), [("repo", False), ("files", True)])
async def test_a_checkout_whose_files_are_elsewhere_is_told_with_the_command_that_names_it(
    repo, sh, environ, tmp_path, where, variable
):
    """BX-9: `core.worktree`, and GIT_DIR as for files of a home."""
    files = tmp_path / "files"
    files.mkdir()
    await sh(f"git config core.worktree '{files}'; git checkout -q -f HEAD")
    given = {"GIT_DIR": str(repo.root / ".git"), "GIT_WORK_TREE": str(files)} if variable else {}
    with pytest.raises(RepositoryError) as caught:
        await open_repository({"repo": repo.root, "files": files}[where], environ=environ | given)
    await sh(caught.value.fix.split("`")[1])
    assert (await open_repository(files, environ=environ)).root == files


@pytest.mark.parametrize("way", ["--shared", "--reference '{0}'"])
async def test_a_clone_with_alternate_objects_is_supported(repo, sh, open_at, place, people, tmp_path, way):
    await sh(f"git clone -q {way.format(repo.root)} '{repo.root}' '{tmp_path / 'borrower'}'")
    assert (await walk(await open_at(tmp_path / "borrower"), place, people, add_a_file))[1]


async def test_replaced_and_grafted_objects_are_seen_as_they_are(repo, sh, place, people):
    """Others, who have neither, will see what lands."""
    await sh(
        "git commit -q --allow-empty -m second; other=$(echo other | git hash-object -w --stdin);"
        'git replace "$(git rev-parse HEAD:a)" "$other"; git rev-parse HEAD > .git/info/grafts'
    )
    head, work, git = await walk(repo, place, people, add_a_file)
    assert (git.cwd / "a").read_text() == "1\n2\n3\n"
    assert await changed_paths(repo.git, head, work) == ("new",)
    assert (await repo.git("rev-list", "--count", work)).line == "3"


async def test_a_sha256_repository_is_supported(open_at, sh, place, people, tmp_path):
    (tmp_path / "long").mkdir()
    await sh("git init -q --object-format=sha256; echo a > a; git add .; git commit -qm first", cwd=tmp_path / "long")
    long = await open_at(tmp_path / "long")
    head, work, git = await walk(long, place, people, add_a_file)
    assert len(work) == 64
    written = (git.cwd / "a").stat().st_mtime_ns
    await worktree.reset_and_clean(git, head)
    assert (git.cwd / "a").stat().st_mtime_ns == written, "its index can be read"
    assert not await move(long.git, "refs/heads/session", new=head, old=Commit("1" * 64))


async def test_reftables_are_supported(open_at, sh, place, people, tmp_path):
    (tmp_path / "tables").mkdir()
    if await sh("git init -q --ref-format=reftable 2>&1 || echo old", cwd=tmp_path / "tables", ok=False):
        pytest.skip("git is older than 2.45: it knows no reftable")
    await sh("echo a > a; git add .; git commit -qm first", cwd=tmp_path / "tables")
    assert (await walk(await open_at(tmp_path / "tables"), place, people, add_a_file))[1]


async def test_worktrees_of_a_bare_repository_are_supported(repo, sh, open_at, place, people, tmp_path):
    """`core.bare`, and worktrees with their own settings."""
    await sh(
        f"git clone -q --bare . '{tmp_path / 'bare'}'; cd '{tmp_path / 'bare'}'; git worktree add -q ../linked main;"
        "git config extensions.worktreeConfig true; git config --worktree core.bare true; git config --unset core.bare;"
        "cd ../linked; git config --worktree user.name Linked"
    )
    linked = await open_at(tmp_path / "linked")
    assert linked.common_dir == tmp_path / "bare"
    pool = WorktreePool(linked, place.parent)
    head = (await checkout_status(linked)).head
    await pool.take("a1", head)
    await pool.give_back("a1")
    assert not (await pool.take("a2", head)).fresh
    assert (await walk(linked, place, people, add_a_file))[1]


@pytest.mark.slow
async def test_a_lock_in_the_repository_is_never_removed_and_named_with_its_age(repo, head, sh):
    """AL-15: the holder of a lock in the user's repository is unknown."""
    locks = {"refs/heads/session-x": "refs/heads/session-x.lock", "packed": "packed-refs.lock"}
    await sh(f"git pack-refs --all; touch -d '90 seconds ago' .git/{locks['refs/heads/session-x']}")
    with pytest.raises(GitError, match=r"the lock .*session-x\.lock exists, created 9\d s ago") as caught:
        await move(repo.git, "refs/heads/session-x", new=head, old=None)
    assert f"rm '{repo.common_dir / locks['refs/heads/session-x']}'" in caught.value.fix
    await sh(f"rm .git/{locks['refs/heads/session-x']}; touch .git/{locks['packed']}")
    with pytest.raises(GitError, match=r"packed-refs\.lock exists, created \d s ago"):
        await repo.git("update-ref", "-d", "refs/heads/main", head)
    assert (repo.common_dir / locks["packed"]).exists()


async def test_locks_in_our_worktree_are_removed(repo, head, sh, place, people):
    """AL-15: no process uses the worktree at that time."""
    git = await worktree.add(repo, place, head)
    await sh('touch "$(git rev-parse --git-path index.lock)" "$(git rev-parse --git-path HEAD.lock)"', cwd=place)
    add_a_file(place)
    assert await commit_all(git, "work", **people)


def written_at(root):
    """Return when each file in a checkout was written."""
    return {path: path.stat().st_mtime_ns for path in root.rglob("f*")}


@pytest.mark.slow
async def test_ten_thousand_files_take_no_more_git_processes_than_two(sh, open_at, people, tmp_path, git_starts):
    """A worktree of the pool is reused: only the files that differ are written again."""

    async def steps(name, folders, files):
        repo, counts = tmp_path / name, {}
        repo.mkdir()
        for n in range(folders):
            (repo / f"d{n}").mkdir()
            for m in range(files):
                (repo / f"d{n}" / f"f{m}").write_text(f"{n} {m}")
        await sh("git init -q; git config gc.auto 0; git add .; git commit -qm all", cwd=repo)
        repo = await open_at(repo)
        pool = WorktreePool(repo, tmp_path / f"attempts of {name}")
        git_starts()

        async def counted(step, work):
            answer = await work
            counts[step] = git_starts()
            return answer

        head = (await counted("status", checkout_status(repo))).head
        slot = await counted("fresh", pool.take("a1", head))
        first = written_at(slot.git.cwd)
        for n in range(folders):
            (slot.git.cwd / f"d{n}" / "f0").write_text("changed")
        work = await counted("commit", commit_all(slot.git, "work", **people))
        assert len(await counted("changed", changed_paths(repo.git, head, work))) == folders
        assert len(await counted("listed", listed_paths(repo.git, work))) == folders * files
        assert isinstance(await counted("merge", merge_commits(repo.git, head, work)), Merged)
        await counted("back", pool.give_back("a1"))
        again = await counted("again", pool.take("a2", head))
        assert not again.fresh
        second = written_at(again.git.cwd)
        relative = {path.relative_to(slot.git.cwd): when for path, when in first.items()}
        rewritten = [path for path, when in second.items() if relative[path.relative_to(again.git.cwd)] != when]
        assert (len(second), len(rewritten)) == (folders * files, folders)
        return counts

    few, many = await steps("few", 2, 1), await steps("many", 100, 100)
    assert min(few[step] for step in ("status", "fresh", "commit", "listed", "merge")) > 0
    assert few["changed"] == 0, "the commit has read what it changed"
    assert many == few


CRLF_LINES = r"printf 'one\r\ntwo\r\n' > old.txt; git add old.txt; git commit -qm crlf; "


@pytest.mark.parametrize("attributes", ["*.txt text", "*.txt text eol=crlf"])
async def test_a_file_that_git_would_store_with_other_line_ends_is_no_change(repo, sh, place, people, attributes):
    """BX-2: git shows it as modified from the start; what nobody wrote is not committed, alone or with work."""
    await sh(f"{CRLF_LINES} echo '{attributes}' > .gitattributes; git add .gitattributes; git commit -qm attributes")
    head, work, git = await walk(repo, place, people, nothing)
    assert (await git("status", "--short")).line == " M old.txt"
    assert work is None
    (git.cwd / "new.txt").write_text("new\n")
    made = await commit_all(git, "work", **people)
    assert await changed_paths(repo.git, head, made) == ("new.txt",)
    assert await commit_all(git, "again", **people) is None
    (git.cwd / "old.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert await changed_paths(repo.git, made, await commit_all(git, "work", **people)) == ("old.txt",)
