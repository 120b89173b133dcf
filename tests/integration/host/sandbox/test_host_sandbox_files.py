"""Files that a command in a sandbox can read and change."""

import os
import stat
from pathlib import Path

from msgspec import structs

from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec


async def test_the_workspace_is_writable(inside, workspace):
    """BX-9"""
    finished = await inside("mkdir -p a/b && echo hi > a/b/c && mv a d && ln d/b/c twin && cat twin")
    assert (finished.exit_code, finished.stdout) == (0, b"hi\n")
    assert (workspace / "d" / "b" / "c").read_text() == "hi\n"


async def test_everything_else_is_read_only(said, tmp_path, listing):
    """BX-9"""
    places = [str(tmp_path), "/tmp", "/var/tmp", "/etc", "/run", "/dev", "/", "$HOME", "/proc"]
    output = await said(f"for place in {' '.join(places)}; do touch $place/planted-{os.getpid()}; done")
    assert output.count("touch: cannot touch") == len(places)
    assert f"planted-{os.getpid()}" not in listing(tmp_path)


async def test_kernel_settings_cannot_be_written(said):
    """BX-9: not even by root, to whom the kernel would allow it."""
    settings = "/proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/self/oom_score_adj"
    assert await said(f"for each in {settings}; do test -w $each && echo $each; done") == ""


async def test_the_temporary_folder_is_private_and_the_only_one(inside, zone):
    finished = await inside('echo x > "$TMPDIR/y" && mktemp && echo "$TMPDIR" && ls /tmp /var/tmp /run')
    assert finished.exit_code == 0
    assert (zone.temporary / "y").read_text() == "x\n"
    assert str(zone.temporary) in finished.stdout.decode()
    assert stat.S_IMODE(zone.temporary.stat().st_mode) == 0o700


async def test_caches_are_redirected_to_a_writable_place(inside, zone):
    finished = await inside('mkdir -p "$XDG_CACHE_HOME/x" "$npm_config_cache/y"; echo "$SCAFFOLD_SANDBOX"')
    assert finished.stdout == b"bubblewrap\n"
    assert (zone.temporary / "cache" / "x").is_dir()


async def test_programs_cannot_see_other_files_in_temporary_folders(said, tmp_path):
    (tmp_path / "beside").write_text("canary")
    assert "canary" not in await said(f"cat {tmp_path}/beside; ls -la {tmp_path}")


async def test_a_hidden_file_cannot_be_read_moved_removed_or_linked(said, workspace):
    """BX-9"""
    output = await said("cat .env; ln .env a; mv .env b; rm .env; cp .env c; cat a b c; echo x > .env; chmod 777 .env")
    assert "canary" not in output
    assert (workspace / ".env").read_text() == "TOKEN=canary\n"


async def test_a_hidden_folder_is_empty_and_stays_empty(said, workspace):
    """BX-9"""
    keys = workspace / "keys"
    keys.mkdir()
    (keys / "id").write_text("canary")
    output = await said("cat keys/id; ls -A keys; touch keys/x; mv keys k; cat k/id", changes={"hidden": (keys,)})
    assert "canary" not in output
    assert [path.name for path in keys.iterdir()] == ["id"]


async def test_the_folder_of_a_hidden_file_cannot_be_moved_to_expose_it_later(said, workspace):
    """BX-9"""
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "secret").write_text("canary")
    hidden = {"hidden": (workspace / "a" / "b" / "secret",)}
    first = await said("mv a c; mv a/b a/c; ls", changes=hidden)
    assert "canary" not in first + await said("cat c/b/secret a/c/secret a/b/secret", changes=hidden)
    assert (workspace / "a" / "b" / "secret").read_text() == "canary"


async def test_a_hidden_link_also_hides_its_target(said, workspace, tmp_path):
    (workspace / "real").write_text("canary")
    (workspace / "link").symlink_to("real")
    assert "canary" not in await said("cat link real", changes={"hidden": (workspace / "link",)})


async def test_a_shown_path_inside_a_hidden_folder_is_readable(inside, workspace, tmp_path):
    private = (tmp_path / "private").resolve()
    (private / "skills").mkdir(parents=True)
    (private / "skills" / "one").write_text("shown")
    (private / "login").write_text("canary")
    shown = {"readable": (private / "skills",)}
    finished = await inside(f"cd {private}; cat skills/one; cat login; touch skills/two; ls -A", changes=shown)
    assert finished.stdout == b"shownskills\n"


async def test_of_a_hidden_folder_only_the_workspace_inside_it_is_visible(inside, workspace, tmp_path):
    (tmp_path / "other").write_text("canary")
    finished = await inside(f"touch made; ls {tmp_path}", changes={"hidden": (tmp_path.resolve(),)})
    assert finished.stdout.decode().split() == ["temporary", "workspace"]
    assert (workspace / "made").exists()


async def test_a_sealed_path_that_does_not_exist_cannot_be_created_and_leaves_no_trace(said, workspace, listing):
    """BX-9"""
    data = await said(
        "mkdir .git; echo x > .mcp.json; ln -s /etc .mcp.json; mkdir -p .claude; mv .env .git; mkdir -p deep/er/hooks;"
        "rm -rf .git .mcp.json .claude deep; cp -r /etc/ssl .git; cat .mcp.json; : | tee .git"
    )
    assert data.count("cannot") >= 6
    assert listing(workspace) == [".env"]


async def test_a_sealed_path_cannot_be_changed(said, workspace):
    """BX-9"""
    (workspace / ".claude").mkdir()
    (workspace / ".git" / "hooks").mkdir(parents=True)
    settings = workspace / ".claude" / "settings.json"
    settings.write_text("ours")
    await said(
        "echo x > .claude/settings.json; rm -f .claude/settings.json; mv .claude c; mkdir .claude;"
        "mv .claude/settings.json t; echo x > n && mv n .claude/settings.json; touch .claude/other;"
        "touch .git/hooks/post-commit .git/config; mv .git g; ln .claude/settings.json s; echo x > s"
    )
    assert settings.read_text() == "ours"
    assert list((workspace / ".git").rglob("*")) == [workspace / ".git" / "hooks"]
    assert (workspace / ".claude" / "other").exists()


async def test_the_git_file_of_a_worktree_is_sealed_like_a_folder(said, workspace):
    (workspace / ".git").write_text("gitdir: /nowhere\n")
    await said("echo gitdir: evil > .git; rm .git; mv .git x; mkdir e; mv -T e .git")
    assert (workspace / ".git").read_text() == "gitdir: /nowhere\n"


async def test_a_sealed_link_is_restored_and_its_replacement_set_aside(inside, workspace, listing):
    """BX-9"""
    (workspace / "agents").mkdir()
    (workspace / ".claude").symlink_to("agents")
    finished = await inside(
        "rm .claude && mkdir .claude && echo evil > .claude/settings.json; touch agents/settings.json"
    )
    assert finished.exit_code != 0
    assert (workspace / ".claude").readlink() == Path("agents")
    assert listing(workspace / "agents") == []
    assert [name.split("-")[0] for name in listing(workspace)] == [".claude", ".claude.refused", ".env", "agents"]


async def test_the_path_to_a_sealed_link_cannot_be_redirected(said, workspace, tmp_path, listing):
    """BX-9: the process that restores the link runs outside, with all our rights."""
    (workspace / "tools").mkdir()
    (workspace / "tools" / "hooks").symlink_to("../real")
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "hooks").write_text("untouched")
    seal = {"protected": (workspace / "tools" / "hooks",)}
    await said(f"mv tools aside; rm -r tools; ln -s {tmp_path}/victim tools; rm tools/hooks; mkdir tools", changes=seal)
    assert listing(tmp_path / "victim") == ["hooks"]
    assert (tmp_path / "victim" / "hooks").read_text() == "untouched"
    assert (workspace / "tools" / "hooks").readlink() == Path("../real")


async def test_a_dangling_sealed_link_cannot_be_given_a_target(said, workspace, listing):
    (workspace / ".mcp.json").symlink_to("later.json")
    data = await said("echo evil > .mcp.json; echo evil > later.json")
    assert data.count("later.json") == 1
    assert listing(workspace) == [".env", ".mcp.json"]


async def test_links_planted_in_the_workspace_do_not_mislead_the_next_command(said, tmp_path):
    """BX-9"""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("canary")
    await said(f"ln -s {tmp_path}/private p; ln -s /etc e; ln -s /proc/self/root r")
    output = await said("cat p/key; touch e/planted r/etc/planted; cat r/etc/shadow")
    assert "canary" not in output
    assert output.count("Read-only") == 2


async def test_a_workspace_may_have_any_name(inside, tmp_path, listing):
    for name in ("with space", "new\nline", "Zoë", "-rf", "$HOME", "a'b\"c"):
        odd = tmp_path.resolve() / name
        odd.mkdir()
        (odd / ".env").write_text("canary")
        changes = {"writable": (odd,), "protected": (odd / ".git", odd / ".mcp.json"), "hidden": (odd / ".env",)}
        finished = await inside("touch made; mkdir .git; cat .env; pwd", changes=changes, cwd=odd)
        assert finished.stdout.decode() == f"{odd}\n"
        assert listing(odd) == [".env", "made"]


async def test_a_command_may_start_at_a_link_to_the_workspace(inside, tmp_path, workspace):
    (tmp_path / "link").symlink_to(workspace)
    assert (await inside("touch made", cwd=tmp_path / "link")).exit_code == 0
    assert (workspace / "made").exists()


async def test_the_whole_disk_may_be_the_workspace(inside, workspace):
    finished = await inside("touch made && ! touch /proc/x /tmp/x", changes={"writable": (Path("/"), workspace)})
    assert finished.exit_code == 0
    assert (workspace / "made").exists()


async def test_a_missing_folder_is_reported_and_nothing_runs(inside, tmp_path):
    finished = await inside("echo ran", changes={"writable": (tmp_path / "missing",)})
    assert finished.exit_code == 126
    assert b"missing" in finished.stderr
    assert finished.stdout == b""


async def test_git_works_inside_the_sandbox_and_sees_nothing_of_it(inside, sh, workspace, listing):
    await sh("git init -q && git config user.name u && git config user.email u@example.org", cwd=workspace)
    await sh("echo .env > .gitignore; git add . && git commit -qm one", cwd=workspace)
    finished = await inside("git status --porcelain && git log --oneline && echo more > more && git status --porcelain")
    assert finished.exit_code == 0, finished.stderr
    assert finished.stdout.decode().endswith("one\n?? more\n")
    assert (await sh("git status --porcelain", cwd=workspace)).stdout == b"?? more\n"
    assert listing(workspace) == [".env", ".git", ".gitignore", "more"]


async def test_without_a_mechanism_only_a_temporary_folder_is_set_up(zone, env, workspace):
    finished = await run_command(
        ["sh", "-c", 'echo "$TMPDIR $SCAFFOLD_SANDBOX"; cat .env'],
        cwd=workspace,
        env=env,
        timeout_s=20,
        containment=Containment(sandbox=SandboxSpec("none", structs.replace(zone, protected=()))),
    )
    assert finished.stdout.decode() == f"{zone.temporary} none\nTOKEN=canary\n"
