"""The confinement of an agent's commands."""

import os

import pytest

from builders import bubblewrap_or_skip
from scaffold.host.environment import child_environment
from scaffold.host.process.command import Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.path.protected_files import protected_entry
from scaffold.policy.sandbox import SandboxInputs, with_new_secrets, workspace_profile
from scaffold.policy.secret.files import SECRET_FILES
from scaffold.policy.trust import ACTIVE_FILES


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

    def make(**options):
        return workspace_profile(SandboxInputs(root=root, home=home, temporary=tmp_path / "temporary", **options))

    return make


def fill(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("canary")


def test_paths_with_an_automatic_effect_are_sealed_even_if_absent(zone, root):
    """BX-9, AL-18."""
    sealed = zone().protected
    assert {root / ".git", root / ".scaffold", root / ".husky"} | {root / name for name in ACTIVE_FILES} <= set(sealed)
    assert all(path.is_relative_to(root) for path in sealed)


@pytest.mark.parametrize("value", ["tools/hooks", '"tools/hooks"', "./tools/hooks", " tools/../tools/hooks/ "])
def test_a_hooks_folder_in_the_workspace_is_sealed(zone, root, value):
    """BX-9"""
    fill(root, ".git/config")
    (root / ".git" / "config").write_text(f"[core]\n\tbare = false\n\thooksPath = {value}\n")
    assert root / "tools" / "hooks" in zone().protected


def test_a_hooks_folder_is_sealed_in_a_worktree_as_well(zone, root, tmp_path):
    """BX-9: its settings are those of the repository."""
    fill(tmp_path, "main/config", "main/worktrees/root/commondir")
    (tmp_path / "main" / "config").write_text("[core]\n\thooksPath = .githooks\n")
    (tmp_path / "main" / "worktrees" / "root" / "commondir").write_text("../..\n")
    (root / ".git").write_text(f"gitdir: {tmp_path}/main/worktrees/root\n")
    assert root / ".githooks" in zone().protected


@pytest.mark.parametrize("rubbish", [b"", b"gitdir: ", b"gitdir: /nowhere\n", b"\xff\xfe", b"gitdir: .\n"])
def test_a_broken_worktree_still_has_a_confinement(zone, root, rubbish):
    (root / ".git").write_bytes(rubbish)
    assert root / ".git" in zone().protected


@pytest.mark.parametrize("value", ["", ".", "..", "/etc", "~/hooks", "../elsewhere"])
def test_a_hooks_folder_elsewhere_adds_no_seal(zone, root, value):
    plain = zone().protected
    fill(root, ".git/config")
    (root / ".git" / "config").write_text(f"[core]\n\thooksPath = {value}\n[x]\n\thookspathological = tools\n")
    assert len(zone().protected) == len(plain)


SECRETS_OF_A_HOME = (
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".docker/run/docker.sock",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".cargo/credentials.toml",
    ".config/google-chrome/Default/Cookies",
    ".config/BraveSoftware/x",
    ".gnupg/S.gpg-agent",
    ".bash_history",
    "key.pem",
    ".SSH/id_rsa",
)
NO_SECRETS_OF_A_HOME = (
    ".cargo/bin/cargo",
    ".config/git/ignore",
    ".docker/cli-plugins/x",
    ".claude/CLAUDE.md",
    "work/x",
)


def test_only_the_secrets_of_a_home_are_hidden(zone, home):
    """BX-9"""
    fill(home, *SECRETS_OF_A_HOME, *NO_SECRETS_OF_A_HOME)
    hidden = zone().hidden
    covered = [name for name in SECRETS_OF_A_HOME if any((home / name).is_relative_to(path) for path in hidden)]
    assert covered == list(SECRETS_OF_A_HOME)
    assert not [name for name in NO_SECRETS_OF_A_HOME if any((home / name).is_relative_to(path) for path in hidden)]


def test_unreadable_paths_of_the_policy_are_hidden_in_a_home(zone, home):
    """BX-9: each entry of the list that has a place in a home."""
    names = [entry.replace("*", "x") for entry in SECRET_FILES if not entry.startswith("/")]
    fill(home, *names)
    hidden = zone().hidden
    assert [name for name in names if not any((home / name).is_relative_to(each) for each in hidden)] == []


def test_secrets_at_the_top_of_a_workspace_are_hidden_unless_git_tracks_them(zone, root):
    """BX-9"""
    fill(root, ".env", ".env.local", ".env.example", "server.pem", "main.py", "sub/.env")
    hidden = {path for path in zone().hidden if path.is_relative_to(root)}
    assert hidden == {root / ".env", root / ".env.local", root / "server.pem"}
    assert root / ".env" not in zone(tracked=(".env", "server.pem")).hidden


def test_paths_are_resolved(zone, root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    zone = workspace_profile(
        SandboxInputs(root=tmp_path / "link", home=tmp_path / "link", temporary=tmp_path / "link" / "t")
    )
    assert zone.writable == (root,)
    assert zone.temporary == root / "t"


def test_sealed_paths_cannot_be_written_by_tools_either(zone, root):
    """BX-9, AL-18: what no command may create or change, no tool may."""
    free = {str(path.relative_to(root)) for path in zone().protected if protected_entry(str(path)) is None}
    assert free <= {".husky", ".claude/hooks", ".claude/plugins", ".worktreeinclude"}


LOOT = "find {0} -type f -not -path '*/skills/*' -exec cat {{}} +"
PLANT = "mkdir .git .husky; echo x > .scaffold.yaml"


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
    zone = zone(private=(private,), shown=(private / "skills", home))
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
    sealed = workspace_profile(SandboxInputs(root=home, home=home, temporary=temporary)).protected
    expected = {".bashrc", ".zshenv", ".config", ".cache/scaffold/sandbox.json", ".cache/pip", "bin"}
    assert {home / name for name in expected} <= set(sealed)
    assert not any(temporary.is_relative_to(path) for path in sealed)
    assert home / "work" not in sealed
    around = workspace_profile(SandboxInputs(root=tmp_path, home=home, temporary=temporary))
    assert {home / name for name in expected} <= set(around.protected)


def test_outside_a_home_nothing_of_it_is_sealed(zone, home, root):
    """BX-9: it cannot be written anyway."""
    fill(home, ".bashrc")
    assert all(path.is_relative_to(root) for path in zone().protected)


def test_a_secret_created_later_is_hidden_but_not_one_known_before(zone, root):
    """RA-14, BX-9."""
    fill(root, ".env.ci", "main.py")
    before = zone(tracked=[".env.ci"])
    assert with_new_secrets(before, [".env.ci", "main.py"]) is before
    fill(root, ".env", "later.py")
    assert set(with_new_secrets(before, [".env.ci", "main.py"]).hidden) - set(before.hidden) == {root / ".env"}
