"""The confinement of an agent's commands."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from builders import bubblewrap_or_skip, git, make_repository, sandbox_or_skip
from scaffold.core.run_settings import SandboxSettings
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.policy.command_sandbox import SandboxInputs, own_programs, with_new_secrets
from scaffold.policy.path.protected_files import protected_entry
from scaffold.policy.sandbox_profile import build_sandbox_spec, git_config_files, untracked_secrets, workspace_profile
from scaffold.policy.secret.unreadable_files import SECRET_FILES
from scaffold.policy.trust_decision import ACTIVE_FILES


@pytest.fixture
def root(tmp_path):
    folder = tmp_path.resolve() / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path):
    folder = tmp_path.resolve() / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def zone(root, home, tmp_path):
    """Return the zone as it is now, with further options."""

    def make(environ=None, secrets=(), **options):
        inputs = SandboxInputs(root=root, home=home, temporary=tmp_path / "temporary", **options)
        return workspace_profile(inputs, environ or {}, secrets)

    return make


def fill(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("canary")


def test_paths_with_an_automatic_effect_are_sealed_even_if_absent(zone, root, home):
    """BX-9, AL-18: but not those of a home around the workspace, which cannot be written anyway."""
    fill(home, ".bashrc")
    sealed = zone().protected
    assert {root / ".git", root / ".scaffold", root / ".husky"} | {root / name for name in ACTIVE_FILES} <= set(sealed)
    assert all(path.is_relative_to(root) for path in sealed)


def test_files_that_git_settings_name_are_sealed(root, home, tmp_path):
    """BX-9: the user's next git status would obey or run them."""
    asyncio.run(sandbox_or_skip())
    make_repository(root)
    named = ("fsmonitor.sh", "clean.sh", "textconv.sh", "alias.sh")
    fill(root, "tools/other.sh", *(f"tools/{name}" for name in named))
    (root / "tools" / "gitconfig").write_text("[alias]\n\tst = status\n")
    for name, value in {
        "include.path": "../tools/gitconfig",
        "includeIf.onbranch:main.path": "../tools/missing",
        "core.hooksPath": "tools/hooks",
        "core.fsmonitor": f"{root}/tools/fsmonitor.sh 1",
        "filter.f.clean": "sh tools/clean.sh %f",
        "diff.f.textconv": '"$(git rev-parse --show-toplevel)/tools/textconv.sh"',
        "alias.st": "!sh ./tools/alias.sh;:",
    }.items():
        git(root, "config", name, value)
    for folder in (root, root / "tools"):
        inputs = SandboxInputs(root=folder, home=home, temporary=tmp_path / "temporary")
        spec = asyncio.run(build_sandbox_spec(SandboxSettings(), inputs, os.environ, cache=tmp_path / "level"))
        sealed = set(spec.confinement.protected)
        assert {root / "tools" / name for name in (*named, "gitconfig", "missing", "hooks")} <= sealed
        assert not sealed & {root / "tools" / "other.sh", root / "tools", root}


def test_programs_of_git_settings_are_sealed_even_if_absent(root):
    """BX-9: a command could create them, and the user's next git status would run them."""
    make_repository(root)
    for value, sealed in {
        "./missing.sh": {"missing.sh"},
        "node -r x scripts/missing.js %f": {"scripts/missing.js"},
        "python3 -m missing -t": {"missing.py", "missing/__main__.py"},
        "/usr/bin/python3.12 -m tools.clean": {"tools/clean.py", "tools/clean/__main__.py"},
        "sed s/a/b/": set(),
        "sh -c 'git diff origin/main'": set(),
        "cat": set(),
    }.items():
        git(root, "config", "filter.f.clean", value)
        found = {path.relative_to(root).as_posix() for path in asyncio.run(git_config_files(root, os.environ))}
        assert found - {".git/config"} == sealed, value


def test_hooks_that_the_users_own_settings_name_are_sealed(root, tmp_path):
    """BX-9"""
    make_repository(root)
    settings = tmp_path / "settings"
    settings.write_text("[core]\n\thooksPath = .githooks\n")
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": str(settings)}
    assert root / ".githooks" in asyncio.run(git_config_files(root, environ))


def test_the_environment_that_scaffold_runs_from_is_sealed(root, home, tmp_path):
    """BX-9: its packages and its bubblewrap run outside of the sandbox."""
    (tmp_path / "link").symlink_to(root)
    for place in (root / ".venv", root / "backend" / ".venv", tmp_path / "link" / ".venv"):
        assert place.parent.resolve() / ".venv" in own_programs(root, [str(place)])
    assert {root / "bin", root / "lib", root / "pyvenv.cfg"} <= set(own_programs(root, [str(root)]))
    assert not [*own_programs(root, [str(tmp_path / "other"), str(tmp_path)])]
    above = Path(sys.prefix).resolve().parent
    inputs = SandboxInputs(root=above, home=home, temporary=tmp_path / "temporary")
    assert Path(sys.prefix).resolve() in workspace_profile(inputs, {}).protected


def test_a_link_to_the_environment_is_sealed_with_its_target(root):
    """BX-9"""
    (root / "env").mkdir()
    (root / ".venv").symlink_to("env")
    assert {root / ".venv", root / "env"} <= set(own_programs(root, [str(root / ".venv")]))


def test_a_hooks_folder_in_the_workspace_is_sealed(zone, root):
    """BX-9"""
    fill(root, ".git/config")
    for value in ["tools/hooks", '"tools/hooks"', "./tools/hooks", " tools/../tools/hooks/ "]:
        (root / ".git" / "config").write_text(f"[core]\n\tbare = false\n\thooksPath = {value}\n")
        assert root / "tools" / "hooks" in zone().protected, value


def test_a_hooks_folder_is_sealed_in_a_worktree_as_well(zone, root, tmp_path):
    """BX-9: its settings are those of the repository."""
    fill(tmp_path, "main/config", "main/worktrees/root/commondir")
    (tmp_path / "main" / "config").write_text("[core]\n\thooksPath = .githooks\n")
    (tmp_path / "main" / "worktrees" / "root" / "commondir").write_text("../..\n")
    (root / ".git").write_text(f"gitdir: {tmp_path}/main/worktrees/root\n")
    assert root / ".githooks" in zone().protected


def test_a_broken_worktree_still_has_a_confinement(zone, root):
    for rubbish in [b"", b"gitdir: ", b"gitdir: /nowhere\n", b"\xff\xfe", b"gitdir: .\n"]:
        (root / ".git").write_bytes(rubbish)
        assert root / ".git" in zone().protected, rubbish


def test_a_hooks_folder_elsewhere_adds_no_seal(zone, root):
    plain = zone().protected
    fill(root, ".git/config")
    for value in ["", ".", "..", "/etc", "~/hooks", "../elsewhere"]:
        (root / ".git" / "config").write_text(f"[core]\n\thooksPath = {value}\n[x]\n\thookspathological = tools\n")
        assert len(zone().protected) == len(plain), value


SECRETS_OF_A_HOME = (
    *(".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".docker/config.json"),
    *(".docker/run/docker.sock", ".claude/.credentials.json", ".codex/auth.json", ".cargo/credentials.toml"),
    *(".config/google-chrome/Default/Cookies", ".config/BraveSoftware/x", ".gnupg/S.gpg-agent", ".bash_history"),
    *("key.pem", ".SSH/id_rsa", ".config/git/credentials", ".gem/credentials", ".m2/settings-security.xml"),
)
NO_SECRETS_OF_A_HOME = (
    *(".cargo/bin/cargo", ".cargo/config.toml", ".config/git/ignore", ".local/bin/uv"),
    *(".local/share/uv/python/bin/python", ".m2/settings.xml", ".python-version", ".rustup/settings.toml"),
)


def covered(hidden, readable, path):
    """Return whether a path is hidden: the deeper of two paths decides."""
    return next((each in hidden for each in (path, *path.parents) if each in (*hidden, *readable)), False)


def seen(zone, home, names):
    return [name for name in names if not covered(zone.hidden, zone.readable, home / name)]


def test_of_a_homes_dot_entries_only_toolchains_are_readable(zone, home):
    """BX-9, RA-14: an unknown program's folder may hold its logins, and other folders are not the work's."""
    others = (".newcli/session", ".config/newcli/token", ".lesshst", "work/other/main.py", "Documents/x", "notes.txt")
    fill(home, *SECRETS_OF_A_HOME, *NO_SECRETS_OF_A_HOME, *others)
    made = zone()
    assert seen(made, home, (*SECRETS_OF_A_HOME, *others)) == []
    assert seen(made, home, NO_SECRETS_OF_A_HOME) == list(NO_SECRETS_OF_A_HOME)


def test_nothing_secret_is_shown_because_a_link_leads_there(zone, root, home):
    """BX-9, RA-14: an agent can replace a folder of the checkout that a later run shows."""
    fill(home, ".ssh/id_rsa")
    (root / ".venv").symlink_to(home / ".ssh")
    assert home / ".ssh" not in zone(shown=(root / ".venv",)).readable


def test_files_with_credentials_that_variables_name_are_hidden(zone, tmp_path):
    """BX-9, RA-14"""
    fill(tmp_path, "elsewhere/kube.yaml")
    kube = tmp_path.resolve() / "elsewhere" / "kube.yaml"
    assert kube in zone(environ={"KUBECONFIG": str(kube)}).hidden


def test_unreadable_paths_of_the_policy_are_hidden_in_a_home(zone, home):
    """BX-9: each entry of the list that has a place in a home."""
    names = [entry.replace("*", "x") for entry in SECRET_FILES if not entry.startswith("/")]
    fill(home, *names)
    assert seen(zone(), home, names) == []


def test_untracked_secrets_of_a_checkout_are_hidden_at_any_depth(zone, tmp_path):
    """BX-9, RA-14: what git tracks is a fixture."""
    top = make_repository(tmp_path.resolve() / "checkout")
    fill(top, "tests/server.key", "tests/.env.test", "a/.ssh/config")
    git(top, "add", "--force", ".")
    fill(top, ".env", "a/b/.env.local", "a/b/.env.example", "deploy/server.pem", "deploy/.aws/config", "[x].key")
    (top / "link.key").symlink_to("deploy/server.pem")
    (top / "sh.key").symlink_to("/bin/sh")
    found = asyncio.run(untracked_secrets(top, os.environ))
    assert {str(path.relative_to(top)) for path in found} == {
        *(".env", "a/b/.env.local", "deploy/server.pem", "deploy/.aws", "[x].key")
    }
    assert set(found) <= set(zone(secrets=found).hidden)


def test_secrets_beyond_number_are_hidden_by_folders(tmp_path):
    """BX-9: so that commands still run."""
    folder = tmp_path.resolve()
    fill(folder, ".env", *(f"many/{number}/.env" for number in range(301)), "few/.env")
    found = asyncio.run(untracked_secrets(folder, os.environ))
    assert {str(path.relative_to(folder)) for path in found} == {".env", "few/.env", "many"}


def test_paths_are_resolved(zone, root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    zone = workspace_profile(
        SandboxInputs(root=tmp_path / "link", home=tmp_path / "link", temporary=tmp_path / "link" / "t"), {}
    )
    assert zone.writable == (root,)
    assert zone.temporary == root / "t"


def test_sealed_paths_cannot_be_written_by_tools_either(zone, root):
    """BX-9, AL-18: what no command may create or change, no tool may."""
    free = {str(path.relative_to(root)) for path in zone().protected if protected_entry(str(path)) is None}
    assert free <= {".husky", ".claude/hooks", ".claude/plugins", ".worktreeinclude"}


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("existing", [True, False])
async def test_no_command_plants_what_an_editor_runs_when_it_opens_the_checkout(zone, root, home, level, existing):
    """BX-9, RA-14"""
    if level == "landlock" and landlock.unsupported_reason():
        pytest.skip("there is no Landlock")
    program = (await bubblewrap_or_skip()).program if level == "bubblewrap" else ""
    if existing:
        fill(root, ".vscode/tasks.json", ".vscode/settings.json", ".cursor/mcp.json")
    script = "mkdir -p .vscode .cursor; for f in .vscode/{tasks,mcp}.json .cursor/mcp.json; do echo x > $f; done"
    finished = await run_command(
        ["bash", "-c", f"({script}) 2> /dev/null; echo done > other; cat other"],
        cwd=root,
        env=child_environment(os.environ),
        timeout_s=20,
        containment=Containment(sandbox=SandboxSpec(level, zone(), program=program)),
    )
    assert finished.stdout == b"done\n", finished.stderr
    left = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}
    kept = {".vscode/tasks.json": "canary", ".vscode/settings.json": "canary", ".cursor/mcp.json": "canary"}
    assert left == {"other": "done\n"} | (kept if existing else {})


def test_what_an_editor_runs_may_be_part_of_the_work_in_a_run(zone, root):
    fill(root, ".vscode/tasks.json")
    assert root / ".vscode" / "tasks.json" not in zone(disposable=True).protected


LOOT = "find {} -type f -not -path '*/skills/*' -exec cat {{}} +"
PLANT = "mkdir .git .husky; echo x > .scaffold.yaml"


async def test_a_confined_command_sees_no_secret_and_plants_nothing(zone, root, home, tmp_path):
    """BX-9: in a real sandbox."""
    finding = await bubblewrap_or_skip()
    fill(root, ".env", "main.py")
    fill(home, *SECRETS_OF_A_HOME)
    fill(tmp_path, "private/login", "private/skills/one")
    private = tmp_path / "private"
    script = f"cat main.py {private}/skills/one; rm main.py; {LOOT.format(tmp_path)}; {PLANT}; touch {home}/x"
    zone = zone(private=(private,), shown=(private / "skills", home), secrets=(root / ".env",))
    finished = await run_command(
        ["bash", "-c", script],
        cwd=root,
        env=child_environment(os.environ),
        timeout_s=60,
        containment=Containment(sandbox=SandboxSpec("bubblewrap", zone, program=finding.program)),
    )
    assert finished.stdout == b"canarycanary"
    assert [path.name for path in root.iterdir()] == [".env"]


def test_in_a_home_as_workspace_programs_and_settings_are_sealed(home, tmp_path):
    """BX-9: a line in `.bashrc` runs outside, and so does a program in `.local/bin`; the rest is the user's work."""
    temporary = home / ".cache" / "scaffold" / "temporary"
    fill(home, ".bashrc", ".config/fish/config.fish", ".cache/scaffold/sandbox.json", ".cache/pip/x", "work/main.py")
    sealed = workspace_profile(SandboxInputs(root=home, home=home, temporary=temporary), {}).protected
    expected = {".bashrc", ".zshenv", ".config", ".cache/scaffold/sandbox.json", ".cache/pip", "bin"}
    assert {home / name for name in expected} <= set(sealed)
    assert not any(temporary.is_relative_to(path) for path in sealed)
    assert home / "work" not in sealed
    around = workspace_profile(SandboxInputs(root=tmp_path, home=home, temporary=temporary), {})
    assert {home / name for name in expected} <= set(around.protected)


def test_a_secret_created_later_is_hidden_but_not_one_known_before(zone, root):
    """RA-14, BX-9."""
    fill(root, ".env.ci", "main.py")
    before = zone()
    assert with_new_secrets(before, [".env.ci"]) is before
    fill(root, ".env", "later.py", "deep/er/.env")
    new = set(with_new_secrets(before, [".env.ci"]).hidden) - set(before.hidden)
    assert new == {root / ".env", root / "deep" / "er" / ".env"}
