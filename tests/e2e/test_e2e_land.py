"""`land`: the work of a run comes to its base branch, or nothing changes."""

import subprocess

import pexpect
import pytest
from inline_snapshot import snapshot

from support.crash_points import SHARES, CrashPoint, try_every_point
from support.landed_run import checkout_bytes, landed_run, session_branch, tree
from support.terminal import Screen

pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path):
    return landed_run(tmp_path)


def landed(scenario, *flags):
    """Return what `land --json` prints."""
    return scenario.json("land", *flags)


def refused(scenario, *flags):
    """Return why `land` refuses; neither the checkout nor a branch changes."""
    before = checkout_bytes(scenario.repo), scenario.git("for-each-ref", "refs/heads")
    done = scenario.scaffold("land", *flags, code=1)
    assert (checkout_bytes(scenario.repo), scenario.git("for-each-ref", "refs/heads")) == before
    return done.stderr


def test_land_fast_forwards_the_branch_that_is_checked_out_clean_and_keeps_every_other_file(scenario):
    """AL-12, BX-2: the one way in which a checkout is written; the same commits, once, and told by `status`."""
    (scenario.repo / "notes.txt").write_text("mine\n")
    (scenario.repo / "x.cache").write_text("mine, too\n")
    before, session = checkout_bytes(scenario.repo), session_branch(scenario)
    work = landed(scenario)
    assert (work["how"], work["branch"], work["taken"], work["proven"]) == ("ff", "main", True, True)
    assert all(each["old"] == each["new"] for each in work["commits"])
    assert scenario.git("rev-parse", "main") == scenario.git("rev-parse", session)
    assert scenario.git("status", "--porcelain").split() == ["??", "notes.txt"]
    after = checkout_bytes(scenario.repo)
    assert {path: after[path] for path in before if path != ".git/index"} == {
        path: before[path] for path in before if path != ".git/index"
    }
    assert after.keys() - before.keys() == {"model.py", "api.py", "GUIDE.md"}
    again = scenario.scaffold("land", code=0)
    assert "has everything" in again.stdout
    (taken,) = scenario.status()["run"]["taken"]
    assert (taken["how"], taken["branch"], len(taken["commits"])) == ("ff", "main", 3)
    shown = scenario.scaffold("status").stdout
    assert "work was taken to main" in shown
    assert "scaffold land" not in shown


def test_land_moves_a_branch_that_is_checked_out_nowhere_and_no_file(scenario):
    """AL-12: by compare-and-swap; the checkout stays byte-identical."""
    scenario.git("switch", "-q", "-c", "other")
    (scenario.repo / "README.md").write_text("half done\n")
    before = checkout_bytes(scenario.repo)
    landed(scenario)
    assert checkout_bytes(scenario.repo) == before
    assert scenario.git("rev-parse", "main") == scenario.git("rev-parse", session_branch(scenario))


def test_land_refuses_what_would_touch_a_users_work_and_says_what_to_do(scenario):
    """AL-12, BX-3: a dirty checkout, a file in the way (an ignored one, too), an unfinished merge, another worktree."""
    (scenario.repo / "README.md").write_text("half done\n")
    assert "README.md" in refused(scenario)
    assert "git stash" in refused(scenario)
    scenario.git("checkout", "-q", "README.md")
    (scenario.repo / "api.py").write_text("mine\n")
    assert "api.py" in refused(scenario)
    (scenario.repo / ".git" / "info" / "exclude").write_text("api.py\n")
    assert "api.py" in refused(scenario)
    (scenario.repo / "api.py").unlink()
    other = scenario.home / "other"
    scenario.git("switch", "-q", "--detach")
    scenario.git("worktree", "add", "-q", str(other), "main")
    assert f"git -C {other} merge --ff-only session-" in refused(scenario)


def test_a_base_branch_with_other_commits_stays_as_it_is(scenario):
    """BX-2: nothing was checked together with them, so nothing is merged on the quiet; `--only` is proven there."""
    scenario.git("commit", "-q", "--allow-empty", "-m", "theirs")
    (scenario.repo / "x").write_text("x\n")
    scenario.commit("more of theirs")
    for how in ("--ff", "--squash"):
        assert "main has moved on: 2 commits" in refused(scenario, how)
    work = landed(scenario, "--only", "guide")
    assert work["proven"]
    assert [each["action"] for each in work["commits"]] == ["guide"]


def test_one_action_comes_with_what_it_needs_and_the_rest_follows(scenario):
    """BX-2: `--only` takes the actions whose facts it builds on, and says so; at the end the proven tree is there."""
    scenario.git("switch", "-q", "-c", "other")
    alone = landed(scenario, "--only", "guide")
    assert ([each["action"] for each in alone["commits"]], alone["proven"]) == (["guide"], True)
    both = landed(scenario, "--only", "api")
    assert [each["action"] for each in both["commits"]] == ["model", "api"]
    assert both["commits"][0]["because"] == snapshot("api builds on model_works")
    assert both["proven"]
    assert tree(scenario, "main") == tree(scenario, session_branch(scenario))
    assert landed(scenario)["commits"] == []


def test_a_squashed_commit_has_the_proven_tree_and_the_users_message(scenario):
    """BX-2, AL-14: one commit by the user with the same tree id, signed off, after a template; old and new are kept."""
    scenario.configure(publish="squash", land={"sign_off": True, "message": "Shop: {request}\n\n{actions}"})
    work = landed(scenario)
    assert work["how"] == "squash"
    assert work["proven"]
    assert tree(scenario, "main") == tree(scenario, session_branch(scenario))
    assert scenario.git("rev-parse", "main^").strip() == scenario.status()["run"]["base_sha"]
    subject, _, *body = scenario.git("log", "-1", "--format=%B", "main").split("\n")
    assert subject == "Shop: store, docs"
    assert "- make api" in body
    assert "Signed-off-by: Ada <ada@example.invalid>" in body
    assert scenario.git("log", "-1", "--format=%an <%ae>", "main").strip() == "Ada <ada@example.invalid>"
    (taken,) = scenario.status()["run"]["taken"]
    assert {each["new"] for each in taken["commits"]} == {work["new"]}
    assert landed(scenario)["commits"] == []


def test_commits_are_signed_once_at_land_as_the_users_git_is_configured(scenario):
    """BX-2: with `commit.gpgSign` and an SSH key, each commit is made again with its tree, and git verifies it."""
    key = scenario.home / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    allowed = scenario.home / "allowed"
    allowed.write_text(f"ada@example.invalid {key.with_suffix('.pub').read_text()}")
    for name, value in (
        ("gpg.format", "ssh"),
        ("user.signingkey", key),
        ("commit.gpgSign", "true"),
        ("gpg.ssh.allowedSignersFile", allowed),
    ):
        scenario.git("config", name, str(value))
    work = landed(scenario)
    assert len(work["commits"]) == 3
    for each in work["commits"]:
        assert each["old"] != each["new"]
        assert tree(scenario, each["old"]) == tree(scenario, each["new"])
        scenario.git("verify-commit", each["new"])
    key.unlink()
    scenario.git("reset", "-q", "--hard", work["old"])
    assert "could not sign" in refused(scenario, "--squash")


def test_a_terminal_is_asked_before_a_protected_branch_moves(scenario):
    """AL-12: main, master and dev move only after a yes; `--yes`, or a command without a terminal, is one."""
    before = scenario.git("rev-parse", "main")
    screen = Screen(scenario.command("land"), cwd=scenario.repo, env={**scenario.environ, "TERM": "xterm"})
    screen.child.expect("main is a protected branch. Move it")
    screen.child.sendline("n")
    screen.child.expect_exact(pexpect.EOF)
    screen.child.close()
    assert screen.child.exitstatus == 3
    assert scenario.git("rev-parse", "main") == before
    assert landed(scenario, "--yes")["taken"]


@pytest.mark.parametrize("share", SHARES)
def test_a_kill_at_any_point_leaves_the_branch_where_it_was_or_where_it_goes(tmp_path, share):
    """BX-15, BX-2: after a kill -9 the same command takes the work, once, and the store knows what was taken."""

    def trial(number):
        scenario = landed_run(tmp_path / str(number))
        before, session = scenario.git("rev-parse", "main"), session_branch(scenario)
        point = CrashPoint(scenario, number)
        with point.armed():
            first = scenario.scaffold("land", "--squash")
        assert first.returncode in {0, -9}, first.stderr
        assert scenario.git("status", "--porcelain") == ""
        assert scenario.git("rev-parse", "main") == before or tree(scenario, "main") == tree(scenario, session)
        scenario.scaffold("land", "--squash", code=0)
        assert tree(scenario, "main") == tree(scenario, session)
        assert scenario.git("rev-list", "--count", f"{before.strip()}..main").strip() == "1"
        assert len(scenario.status()["run"]["taken"]) == 1
        return point.passed()

    try_every_point(share, trial)
