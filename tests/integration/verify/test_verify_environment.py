"""Environments of checks: prepared once, copied often, with fake installers."""

import asyncio
import contextlib
import os
import socket
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from builders import bubblewrap_or_skip, sandbox_or_skip
from integration.verify.builders import PYTHON, EnvironmentSetup, add_venv, check_output, run_check
from scaffold.core.errors import ScaffoldError
from scaffold.git.checkouts import worktree
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.host.sandbox.sidecar import with_services
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.environment.preparation import PreparedEnvironment
from scaffold.verify.environment.provisioning import (
    provision_checkout,
    provisions_unchanged,
    relocate_copy,
    reprovision,
)

INSTALL = """\
#!/bin/sh
echo "$PWD" >> "$(dirname "$0")/../installed"
mkdir -p node_modules/.bin node_modules/left "{place}"
echo 'echo tool of "$(dirname "$0")"' > node_modules/.bin/tool
chmod +x node_modules/.bin/tool
cat package-lock.json > node_modules/left/version
ln -s ../packages/own node_modules/own
ln -s "$PWD/packages/own" node_modules/absolute
echo compiled > "{place}/binding"
"""
LOCK = {"package-lock.json": "one", "packages/own/index.js": "own", ".gitignore": "node_modules\n"}


@pytest.fixture
async def project(harness, tmp_path):
    """A repository with a fake `npm`."""
    made = EnvironmentSetup(harness, tmp_path)
    provide(made, "npm", INSTALL.format(place="packages/own/node_modules"))
    await made.commit(LOCK)
    return made


def provide(project, name, script):
    """Put a program on PATH."""
    folder = project.harness.repo.parent / "programs"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)
    rest = project.environ["PATH"].removeprefix(f"{folder}:")
    project.environ = {**project.environ, "PATH": f"{folder}:{rest}"}


def installed(project):
    """Return where the installer ran, in order."""
    log = project.harness.repo.parent / "installed"
    return log.read_text().splitlines() if log.exists() else []


async def test_setup_runs_once_and_each_checkout_gets_its_own_copy(project):
    """AL-9: setup commands build a golden environment, and worktrees get a copy."""
    environment = await project.prepared("npm ci")
    async with project.tree(environment, "one") as one, project.tree(await project.prepared("npm ci"), "two") as two:
        assert len(installed(project)) == 1
        for tree in (one, two):
            top = tree.git.cwd
            assert await check_output(tree, "tool") == f"tool of {top}/node_modules/.bin"
            assert (top / "node_modules" / "absolute").resolve() == (top / "packages" / "own").resolve()
            assert (top / "packages" / "own" / "node_modules" / "binding").read_text() == "compiled\n"
            assert await check_output(tree, "git status --porcelain") == ""
        (one.git.cwd / "node_modules" / "left" / "version").write_text("mine")
        assert (two.git.cwd / "node_modules" / "left" / "version").read_text() == "one"
    assert await project.harness.sh("git status --porcelain; git worktree list | wc -l") == "3"


async def test_a_changed_lock_file_needs_another_environment_and_changed_code_does_not(project):
    """BX-4: a baseline is keyed by environment, too."""
    first = await project.prepared("npm ci")
    await project.commit({"code.js": "new"})
    same = await project.prepared("npm ci")
    await project.commit({"package-lock.json": "two"})
    other = await project.prepared("npm ci")
    async with project.tree(other) as tree:
        assert (tree.git.cwd / "node_modules" / "left" / "version").read_text() == "two"
    assert (first == same, first.fingerprint == other.fingerprint, len(installed(project))) == (True, False, 2)


async def test_results_do_not_count_in_another_sandbox(project):
    """BX-4: a test that the sandbox keeps from passing would look broken by the work, or mended."""
    prints = [(await project.prepared(sandbox=each)).fingerprint for each in ("off", "bubblewrap", "landlock", "off")]
    assert prints[0] == prints[3]
    assert len(set(prints)) == 3


async def test_a_concurrent_preparation_waits_for_the_first(project):
    """Each command is announced before it runs."""
    heard = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(project.prepared("npm ci", "true", tell=heard.append)) for _ in range(3)]
    assert len({task.result().fingerprint for task in tasks}) == len(installed(project)) == 1
    assert heard == ["npm ci", "true"]


async def test_a_failed_setup_is_reported_in_full_and_retried(project):
    """BX-4: with its command, its exit code and the end of its output."""
    failed = await project.prepare("npm ci", "echo no space left >&2; exit 3")
    assert isinstance(failed, NotReady)
    assert failed.what == snapshot(
        "the set-up command `echo no space left >&2; exit 3` exited with code 3: no space left"
    )
    assert failed.detail == "no space left"
    placed = await project.prepare("echo $PWD/x is bad, and $PWD >&2; exit 3")
    assert isinstance(placed, NotReady)
    assert placed.detail == "x is bad, and .", "the checkout it names is removed"
    assert await project.harness.sh("git worktree list | wc -l") == "1"
    assert isinstance(await project.prepare("npm ci", "echo no space left >&2; exit 3"), NotReady)
    assert len(installed(project)) == 2


async def test_an_interrupted_setup_starts_again(project):
    waits = "npm ci; touch ../here; while test -e ../here; do sleep 0.05; done"
    gate = project.cache / "environments" / "here"
    broken = asyncio.create_task(project.prepare(waits))
    while not gate.exists():  # noqa: ASYNC110 - a process says so
        await asyncio.sleep(0.01)
    broken.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await broken
    gate.unlink()
    assert await project.harness.sh("git worktree list | wc -l") == "1"
    begun = asyncio.create_task(project.prepared(waits))
    while not gate.exists():  # noqa: ASYNC110 - a process says so
        await asyncio.sleep(0.01)
    gate.unlink()
    assert [copied.target for copied in (await begun).copies] == ["node_modules", "packages/own/node_modules"]
    assert len(installed(project)) == 2


async def test_nothing_runs_in_an_untrusted_folder(project):
    """Setup commands of a repository never run before the folder is trusted."""
    prepared = await project.prepare("npm ci", trusted=False)
    assert isinstance(prepared, PreparedEnvironment)
    assert (prepared.left_out, prepared.environment.copies, installed(project)) == (("npm ci",), (), [])


async def test_dependencies_installed_by_the_user_are_copied_and_not_installed_again(project):
    modules = project.repo / "node_modules"
    (modules / "left").mkdir(parents=True)
    (modules / "left" / "version").write_text("the user's")
    (modules / "own").symlink_to(project.repo / "packages" / "own")
    (modules / "library").symlink_to("../../library")
    environment = await project.prepared("npm ci", trusted=False)
    (modules / "left" / "version").write_text("changed while we work")
    async with project.tree(environment) as tree:
        copy = tree.git.cwd / "node_modules"
        assert (copy / "left" / "version").read_text() == "the user's"
        assert (copy / "own").resolve() == (tree.git.cwd / "packages" / "own").resolve()
        assert (copy / "library").readlink() == project.repo.parent / "library"
    assert installed(project) == []
    (modules / "right").mkdir()
    assert (await project.prepared("npm ci")).fingerprint != environment.fingerprint


async def test_the_users_own_virtual_environment_is_used_in_place(project):
    await project.commit({".gitignore": "/.venv\n"})
    add_venv(project.repo)
    environment = await project.prepared("uv sync", trusted=False)
    async with project.tree(environment) as tree:
        output = await check_output(tree, "python -c 'import sys; print(sys.prefix)'")
    assert (output, environment.copies) == (str(project.repo / ".venv"), ())


async def test_a_copied_virtual_environment_names_its_new_checkout(project):
    """Paths are rewritten: scripts, editable installations, activation."""
    provide(project, "python3", f"#!/bin/sh\nexec '{PYTHON}' \"$@\"\n")
    install = (
        f"'{PYTHON}' -m venv --without-pip .venv",
        'echo "$PWD/src" > .venv/lib/$(ls .venv/lib)/site-packages/_editable_calc.pth',
        'printf "#!%s/.venv/bin/python\\nimport calc; print(calc.__file__)\\n" "$PWD" > .venv/bin/calc',
        "chmod +x .venv/bin/calc",
    )
    await project.commit({"src/calc.py": ""})
    environment = await project.prepared(*install)
    async with project.tree(environment) as tree:
        top = tree.git.cwd
        assert await check_output(tree, "calc", cwd=top.parent) == f"{top}/src/calc.py"
        assert await check_output(tree, ". .venv/bin/activate; echo $VIRTUAL_ENV") == f"{top}/.venv"
        assert await check_output(tree, "git status --porcelain") == ""
        assert await check_output(tree, "grep -rlI '\\.checkout' .venv || true") == ""


async def test_go_and_cargo_find_their_fetched_modules(project):
    provide(project, "go", '#!/bin/sh\nmkdir -p "$GOMODCACHE/m"; echo "$GOFLAGS" > "$GOMODCACHE/m/flags"\n')
    provide(project, "cargo", '#!/bin/sh\nmkdir -p "$CARGO_HOME"; echo fetched > "$CARGO_HOME/index"\n')
    environment = await project.prepared("go mod download", "cargo fetch --locked")
    async with project.tree(environment) as tree:
        output = await check_output(
            tree, 'cat "$GOMODCACHE/m/flags" "$CARGO_HOME/index"; echo $GOPROXY $CARGO_NET_OFFLINE'
        )
    assert output.split() == ["-modcacherw", "fetched", "off", "true"]


@pytest.fixture(params=["bubblewrap", pytest.param("landlock", marks=pytest.mark.slow)])
async def sandboxed(project, tmp_path, request):
    """The same, in a sandbox with its own network."""
    inside = EnvironmentSetup(project.harness, tmp_path, sandboxed=True)
    inside.environ = project.environ
    async with inside.open_sandbox(inside.repo) as walls:
        if walls is None or walls.level not in {"bubblewrap", "landlock"}:
            found = await sandbox_or_skip()
            pytest.skip(f"this test is for bubblewrap and Landlock, and the sandbox of this machine is {found.level}")
    if request.param == "landlock":
        if problem := landlock.unsupported_reason():
            pytest.skip(problem)
        inside.level = "landlock"
    else:
        await bubblewrap_or_skip()
    return inside


@pytest.mark.slow
async def test_setup_reaches_the_configured_index_and_writes_only_to_its_checkout(sandboxed):
    """BX-9: of this machine's servers it reaches the index alone; checks have no network, and read what was fetched."""
    provide(sandboxed, "go", '#!/bin/sh\nmkdir -p "$GOMODCACHE"; echo fetched > "$GOMODCACHE/m"\n')
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"'{PYTHON}' -c \"import socket; socket.create_connection(('127.0.0.1', {port})).close()\""
        unreached = await sandboxed.prepare(connect)
        sandboxed.environ = {**sandboxed.environ, "PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple"}
        elsewhere = f"if echo x > '{sandboxed.repo}/x' || echo x > '{sandboxed.cache}/x'; then exit 5; fi 2>/dev/null"
        environment = await sandboxed.prepared(connect, elsewhere, "go mod download")
        async with sandboxed.tree(environment) as tree:
            refused = await run_check(tree, connect)
            assert (
                await check_output(tree, 'cat "$GOMODCACHE/m"; if echo x > "$GOMODCACHE/n"; then exit 6; fi')
                == "fetched"
            )
    assert isinstance(unreached, NotReady)
    assert "ConnectionRefusedError" in unreached.detail
    assert refused.exit_code == 1
    assert b"ConnectionRefusedError" in refused.stderr or b"PermissionError" in refused.stderr
    assert not (sandboxed.repo / "x").exists()


async def test_a_setup_cannot_write_the_record_of_its_environment(sandboxed):
    """BX-9: code of the work that fails once would otherwise decide what is copied where, outside of any sandbox."""
    record = """for folder in "${GOMODCACHE%/*}" "${GOMODCACHE%/*/*}"; do
        echo '{"made_for": "/nowhere", "targets": ["../../x"]}' > "$folder/made.json" || echo refused >> said
    done 2>/dev/null
    cat said; exit 1
    """
    for _ in range(2):
        failed = await sandboxed.prepare(record)
        assert isinstance(failed, NotReady)
        assert failed.detail == "refused"
        left = [path.name for path in (sandboxed.cache / "environments").iterdir() if path.is_dir()]
        assert left == []


@pytest.mark.parametrize("sandboxed", ["bubblewrap"], indirect=True)
async def test_a_service_runs_in_the_sandbox_of_its_check(sandboxed):
    """AL-9: loopback services run beside a check, and end with it."""
    environment = await sandboxed.prepared(services=(f"exec '{PYTHON}' -m http.server 8123 @8123",))
    ask = f"'{PYTHON}' -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/list').read())\""
    async with sandboxed.tree(environment) as tree:
        argv = with_services(environment.services, ["/bin/sh", "-c", ask], top=tree.git.cwd)
        ended = await run_command(
            argv, cwd=tree.git.cwd, env=tree.environ, timeout_s=60, containment=Containment(sandbox=tree.sandbox)
        )
    assert (ended.exit_code, ended.stdout) == (0, b"b'one\\ntwo\\nthree\\n'\n"), ended
    with socket.socket() as caller:
        assert caller.connect_ex(("127.0.0.1", 8123)) != 0


async def test_an_environment_unused_for_a_month_is_removed(project):
    old = await project.prepared("npm ci")
    async with project.tree(old):
        for left in (project.cache / "environments").glob("*/*"):
            os.utime(left, (1_000_000_000, 1_000_000_000))
    await project.commit({"package-lock.json": "two"})
    new = await project.prepared("npm ci")
    there = sorted(path.name for path in (project.cache / "environments").iterdir() if path.is_dir())
    assert there == sorted(["staging", Path(new.shown[0]).name])
    assert list((project.cache / "environments" / "staging").iterdir()) == []


async def test_a_used_checkout_is_provisioned_again(project):
    """Recycled worktrees, too."""
    environment = await project.prepared("npm ci")
    async with project.tree(environment) as tree:
        version = tree.git.cwd / "node_modules" / "left" / "version"
        version.write_text("tampered")
        await provision_checkout(environment, tree.git.cwd)
        assert version.read_text() == "tampered"
        await worktree.reset_and_clean(tree.git, tree.commit)
        assert not version.exists()
        await provision_checkout(environment, tree.git.cwd)
        assert version.read_text() == "one"
        assert [path.name for path in tree.git.cwd.parent.iterdir()] == ["a tree"]


def made(path):
    """Return the inode of a file, which changes when it is recreated."""
    found = path.stat()
    return found.st_ino, found.st_ctime_ns


def tampered(tree):
    (tree.git.cwd / "node_modules" / "left" / "version").write_text("two")


def tampered_unseen(tree):
    """Change a file without changing its size and time."""
    version = tree.git.cwd / "node_modules" / "left" / "version"
    before = version.stat()
    version.write_text("two")
    os.utime(version, ns=(before.st_atime_ns, before.st_mtime_ns))


def added(tree):
    (tree.git.cwd / "node_modules" / "left" / "more").write_text("two")


def removed(tree):
    (tree.git.cwd / "node_modules" / "left" / "version").unlink()


def replaced(tree):
    modules = tree.git.cwd / "node_modules"
    modules.rename(tree.git.cwd / "other")
    modules.symlink_to("other")


async def test_unchanged_copies_are_kept_when_a_checkout_is_reset(project):
    """Otherwise each iteration would copy all dependencies again."""
    environment = await project.prepared("npm ci")
    async with project.tree(environment) as tree:
        top = tree.git.cwd
        version = top / "node_modules" / "left" / "version"
        first, other = made(version), (top / "packages" / "own" / "node_modules" / "binding").stat()
        for change in (None, None, tampered, tampered, tampered_unseen, added, removed, replaced):
            (top / "list").write_text("worked on")
            if change:
                change(tree)
            async with reprovision(environment, top):
                await worktree.reset_and_clean(tree.git, tree.commit)
            assert sorted(path.name for path in (top / "node_modules" / "left").iterdir()) == ["version"]
            assert (version.read_text(), made(version) == first) == ("one", change is None)
            assert (top / "packages" / "own" / "node_modules" / "binding").stat() == other
            assert await check_output(tree, "git status --porcelain") == ""
            first = made(version)


async def test_copies_are_removed_with_their_folder(project):
    environment = await project.prepared("npm ci")
    async with project.tree(environment) as tree:
        await project.harness.sh("git rm -rq packages; git commit -qm less")
        async with reprovision(environment, tree.git.cwd):
            await worktree.reset_and_clean(tree.git, await project.head())
        assert not (tree.git.cwd / "packages").exists()
        assert (tree.git.cwd / "node_modules" / "left" / "version").read_text() == "one"
        workshop = project.cache / "environments" / "staging"
        assert {path.suffix for path in workshop.iterdir()} == {".note"}


async def test_nothing_is_written_through_a_link_in_the_checkout(project, tmp_path):
    environment = await project.prepared("npm ci")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "own").mkdir(parents=True)
    await project.harness.sh(
        f"git rm -rq packages; ln -s '{elsewhere}' packages; git add packages; git commit -qm link"
    )
    async with project.tree(environment) as tree:
        assert (tree.git.cwd / "node_modules").is_dir()
    assert list((elsewhere / "own").iterdir()) == []


async def test_links_of_what_was_installed_do_not_lead_us_out_of_it(project, tmp_path):
    """BX-9: not the folder itself, nor files that we adjust or add in it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plant = f"""
        mkdir -p node_modules .venv; ln -s '{elsewhere}/new' node_modules/.gitignore
        ln -s '{elsewhere}' .venv/bin; echo "#!$PWD/x" > '{elsewhere}/tool'
        ln -s '{elsewhere}' packages/own/node_modules
    """
    environment = await project.prepared(plant)
    before = (elsewhere / "tool").read_text()
    async with project.tree(environment) as tree:
        assert (tree.git.cwd / "packages/own/node_modules").readlink() == elsewhere
        assert (tree.git.cwd / ".venv/bin").readlink() == elsewhere
        (tree.git.cwd / "packages/own/node_modules").unlink()
        (tree.git.cwd / "packages/own/node_modules").symlink_to(tmp_path)
        assert not provisions_unchanged(environment, tree.git.cwd)
    assert ([path.name for path in elsewhere.iterdir()], (elsewhere / "tool").read_text()) == (["tool"], before)


async def test_a_missing_prepared_environment_is_reported_with_a_fix(project):
    environment = await project.prepared("npm ci")
    await project.harness.sh(f"rm -r '{project.cache}/environments'")
    with pytest.raises(ScaffoldError, match="node_modules") as caught:
        async with project.tree(environment):
            pass
    assert caught.value.fix


async def test_a_relocated_script_runs_from_a_long_path_with_spaces(tmp_path, harness):
    """The kernel cannot read such a first line."""
    place = tmp_path / ("a long name " * 15) / ("and more " * 15)
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(PYTHON)
    script = place / "bin" / "say"
    script.write_bytes(b"#!/old/bin/python -I\nimport sys\nprint(sys.argv[1:], sys.flags.isolated)\n")
    script.chmod(0o755)
    relocate_copy(place, "/old", str(place))
    said = await run_command([str(script), "a b", "c"], cwd=tmp_path, env=harness.context.environ, timeout_s=30)
    assert said.stdout == b"['a b', 'c'] 1\n", said
