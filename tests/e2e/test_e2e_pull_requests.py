"""`land --pr`: the work is pushed, and one pull request shows it; with a stand-in for `gh`, and with `gh` itself."""

import json
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from support.crash_points import SAMPLE, CrashPoint, try_every_point
from support.landed_run import checkout_bytes, landed_run, session_branch, stand_in
from support.scenario import action, plan_of, write

pytestmark = pytest.mark.slow

URL = "http://github.localhost/ada/shop/pull/1"
GH = f"""#!{sys.executable}
import json, os, pathlib, subprocess, sys
state = pathlib.Path(os.environ["HOME"], "pulls.json")
pulls = json.loads(state.read_text()) if state.exists() else []
args = dict(zip(sys.argv[3::2], sys.argv[4::2]))
match sys.argv[2]:
    case "list":
        states = ["OPEN", "CLOSED", "MERGED"] if args["--state"] == "all" else [args["--state"].upper()]
        found = [each for each in pulls if each["head"] == args["--head"] and each["state"] in states]
        print(json.dumps([{{k: each[k] for k in args["--json"].split(",")}} for each in found]))
    case "create":
        url = f"https://example.invalid/pull/{{len(pulls) + 1}}"
        pulls.append({{"number": len(pulls) + 1, "url": url, "head": args["--head"], "baseRefName": args["--base"],
                      "state": "OPEN", "title": args["--title"], "body": sys.stdin.read(), "isCrossRepository": False,
                      "headRepositoryOwner": {{"login": "ada"}}, "headRepository": {{"name": "shop"}},
                      "headRefOid": subprocess.getoutput("git ls-remote origin " + args["--head"])[:40]}})
        state.write_text(json.dumps(pulls))
        print(url)
    case "--method":
        pulls[int(sys.argv[4].rpartition("/")[2]) - 1] |= json.load(sys.stdin)
        state.write_text(json.dumps(pulls))
"""
KILL = f"""#!{sys.executable}
import os, pathlib, signal, subprocess, sys
here, when = pathlib.Path(__file__).parent, pathlib.Path(os.environ["HOME"], "kill")
at = when.read_text() if when.exists() else ""
if at == "before " + sys.argv[2]:
    when.unlink()
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit(1)
done = subprocess.run([here / "real-gh", *sys.argv[1:]]).returncode
if at == "after " + sys.argv[2]:
    when.unlink()
    os.kill(os.getppid(), signal.SIGKILL)
sys.exit(done)
"""
"""Runs the stand-in, and kills the process that called it before or after a subcommand that is named in a file."""


class Api(BaseHTTPRequestHandler):
    """As much of GitHub's API as `gh` asks for, with the pull requests of one repository; reached as a proxy."""

    pulls: ClassVar[list[dict]] = []

    def do_POST(self):
        asked = json.loads(self._body())
        query = asked.get("query", "")
        repository = {"id": "R", "name": "shop", "owner": {"login": "ada"}, "defaultBranchRef": {"name": "main"}}
        head = {"headRepositoryOwner": {"id": "U", "login": "ada"}, "headRepository": {"id": "R", "name": "shop"}}
        listed = [
            {"number": 1, "url": URL, "state": "OPEN", "isCrossRepository": False, "headRefOid": "0" * 40, **head}
            for _ in self.pulls
        ]
        if "createPullRequest" in query:
            self.pulls.append(asked["variables"]["input"])
            data = {"createPullRequest": {"pullRequest": {"id": "P", "url": URL}}}
        elif "PullRequestList" in query:
            pages = {"hasNextPage": False, "endCursor": ""}
            data = {"repository": {"pullRequests": {"totalCount": len(listed), "nodes": listed, "pageInfo": pages}}}
        else:
            data = {"repository": {**repository, "viewerPermission": "WRITE", "pullRequests": {"nodes": []}}}
        self._answer({"data": data})

    def do_PATCH(self):
        self.pulls[0] |= json.loads(self._body())
        self._answer({})

    def _body(self):
        if length := self.headers["content-length"]:
            return self.rfile.read(int(length))
        body = b""
        while size := int(self.rfile.readline(), 16):  # in chunks, each with its size before it
            body += self.rfile.read(size)
            self.rfile.readline()
        return body + self.rfile.readline().strip()

    def _answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def scenario(tmp_path):
    return with_remote(tmp_path)


def with_remote(folder):
    """Return a landed run whose repository has an empty remote with the base branch."""
    made = landed_run(folder)
    made.git("init", "-q", "--bare", str(made.home / "remote.git"))
    made.git("remote", "add", "origin", str(made.home / "remote.git"))
    made.git("push", "-q", "origin", "main")
    return made


def pulls(scenario):
    return json.loads((scenario.home / "pulls.json").read_text())


def pushed(scenario):
    return scenario.git("ls-remote", "origin", f"refs/heads/{session_branch(scenario)}").split("\t")[0]


def test_a_pull_request_is_opened_once_and_its_text_is_the_evidence(scenario):
    """AL-14: the session branch is pushed, nothing else; a repeat brings the same pull request up to date."""
    stand_in(scenario, "gh", GH)
    before = checkout_bytes(scenario.repo), scenario.git("for-each-ref", "refs/heads")
    for _ in range(2):
        done = scenario.scaffold("land", "--pr", "--json", code=0)
        assert json.loads(done.stdout)["url"] == "https://example.invalid/pull/1"
    (pull,) = pulls(scenario)
    assert (pull["baseRefName"], pull["title"]) == ("main", "store, docs")
    assert pull["body"].startswith("```text\nstore, docs\n```\n")
    assert "- `make api`" in pull["body"]
    assert "`grep -q model api.py` exited with 0" in pull["body"]
    assert pushed(scenario) == scenario.git("rev-parse", session_branch(scenario)).strip()
    assert (checkout_bytes(scenario.repo), scenario.git("for-each-ref", "refs/heads")) == before
    assert "pull request https://example.invalid/pull/1" in scenario.scaffold("status").stdout


def test_without_gh_or_a_remote_or_with_a_failed_push_nothing_is_claimed(scenario):
    """AL-14: each failure says what to do, and the same command works once it is done."""
    tools = scenario.home / "tools"
    tools.mkdir()
    for name in ("git", "ssh", "sh", "env"):
        tools.joinpath(name).symlink_to(shutil.which(name))
    whole, scenario.environ["PATH"] = scenario.environ["PATH"], str(tools)
    done = scenario.scaffold("land", "--pr")
    assert (done.returncode, "`gh` is not installed" in done.stderr, pushed(scenario)) == (1, True, "")
    scenario.environ["PATH"] = whole
    stand_in(scenario, "gh", GH)
    hook = scenario.home / "remote.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    done = scenario.scaffold("land", "--pr")
    assert (done.returncode, "not today" in done.stderr, pushed(scenario)) == (1, True, "")
    hook.unlink()
    scenario.git("remote", "rename", "origin", "elsewhere")
    scenario.git("remote", "set-url", "elsewhere", str(scenario.home / "missing.git"))
    done = scenario.scaffold("land", "--pr")
    assert (done.returncode, "elsewhere cannot be reached" in done.stderr) == (1, True)
    scenario.git("remote", "remove", "elsewhere")
    done = scenario.scaffold("land", "--pr")
    assert (done.returncode, "no remote to push to" in done.stderr) == (64, True)
    assert scenario.status()["run"]["taken"] == []


def test_only_the_pull_request_of_the_pushed_commit_is_changed_and_never_its_base(scenario):
    """AL-14: one of a fork, with a branch of the same name, stays as it is; the user's choice of a base, too."""
    stand_in(scenario, "gh", GH)
    fork = {"number": 1, "url": "u", "head": session_branch(scenario), "body": "theirs", "headRefOid": "0" * 40}
    head = {"isCrossRepository": True, "headRepositoryOwner": {"login": "eve"}, "headRepository": {"name": "shop"}}
    head["state"] = "OPEN"
    (scenario.home / "pulls.json").write_text(json.dumps([fork | head]))
    scenario.scaffold("land", "--pr", code=0)
    theirs, ours = pulls(scenario)
    assert theirs == fork | head
    (scenario.home / "pulls.json").write_text(json.dumps([theirs, ours | {"baseRefName": "dev", "body": ""}]))
    scenario.scaffold("land", "--pr", code=0)
    (theirs, again) = pulls(scenario)
    assert (theirs, again) == (fork | head, ours | {"baseRefName": "dev"})


def test_hooks_of_a_repository_in_an_untrusted_folder_do_not_run(scenario):
    """TR-1: the folder's own configuration leads a push to a repository that came with it."""
    stand_in(scenario, "gh", GH)
    inner, ran = scenario.repo / "vendored.git", scenario.home / "ran"
    scenario.git("init", "-q", "--bare", str(inner))
    (inner / "hooks" / "pre-receive").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (inner / "hooks" / "pre-receive").chmod(0o755)
    for address in ("vendored.git", inner.as_uri()):
        scenario.git("remote", "set-url", "--push", "origin", address)
        done = scenario.scaffold("land", "--pr")
        assert (done.returncode, "a repository inside of it" in done.stderr) == (1, True), done.stderr
    assert not ran.exists()


def test_it_is_pushed_where_git_pushes_and_gh_is_told_both_repositories(scenario):
    """AL-14: a fork of the user's (`remote.pushDefault`), and the upstream that has the base branch."""
    log = scenario.home / "gh.log"
    stand_in(scenario, "gh", f'#!/bin/sh\necho "$@" >> {log}\ncase $2 in list) echo "[]";; *) echo made;; esac\n')
    scenario.git("remote", "set-url", "origin", "https://example.invalid/ada/shop.git")
    scenario.git("init", "-q", "--bare", str(scenario.home / "fork.git"))
    scenario.git("remote", "add", "mine", "https://example.invalid/bob/shop.git")
    scenario.git("remote", "set-url", "--push", "mine", str(scenario.home / "fork.git"))
    scenario.git("config", "remote.pushDefault", "mine")
    scenario.git("config", "branch.main.remote", "origin")
    scenario.git("config", "branch.main.merge", "refs/heads/main")
    scenario.scaffold("land", "--pr", code=0)
    assert scenario.git("ls-remote", str(scenario.home / "fork.git"), f"refs/heads/{session_branch(scenario)}")
    listed, created = log.read_text().splitlines()
    assert all("--repo example.invalid/ada/shop" in each for each in (listed, created))
    assert f"--head bob:{session_branch(scenario)}" in created


def test_other_commits_on_the_pushed_branch_are_never_replaced_without_a_question(scenario):
    """AL-14: no force without a terminal that agreed."""
    stand_in(scenario, "gh", GH)
    theirs = scenario.git("commit-tree", "-m", "theirs", "-p", "main", "main^{tree}").strip()
    scenario.git("push", "-q", "origin", f"{theirs}:refs/heads/{session_branch(scenario)}")
    done = scenario.scaffold("land", "--pr", "--yes")
    assert (done.returncode, "has other commits" in done.stderr) == (1, True)
    assert pushed(scenario) == theirs


@pytest.mark.parametrize("share", SAMPLE)
def test_a_kill_at_any_point_is_made_up_for_and_opens_one_pull_request(tmp_path, share):
    """AL-14, BX-15: also between the push, the pull request and what is stored; with commits made for the push."""

    def trial(number):
        scenario = with_remote(tmp_path / str(number))
        stand_in(scenario, "gh", GH)
        scenario.configure(land={"sign_off": True})
        before = checkout_bytes(scenario.repo), scenario.git("for-each-ref", "refs/heads")
        point = CrashPoint(scenario, number)
        with point.armed():
            first = scenario.scaffold("land", "--pr")
        assert first.returncode in {0, -9}, first.stderr
        assert len(scenario.status()["run"]["taken"]) == (
            first.returncode == 0 or "after commit" in point.passed()[-1:]
        )
        done = scenario.scaffold("land", "--pr", "--json", code=0)
        (pull,) = pulls(scenario)
        assert json.loads(done.stdout)["url"] == pull["url"]
        assert pushed(scenario) == json.loads(done.stdout)["new"]
        assert [each["how"] for each in scenario.status()["run"]["taken"]][-1:] == ["pr"]
        assert (checkout_bytes(scenario.repo), scenario.git("for-each-ref", "refs/heads")) == before
        return point.passed()

    try_every_point(share, trial)


def kill_at(scenario, when):
    """Let the next call of a subcommand of gh kill its caller, e.g. `after create`."""
    stand_in(scenario, "real-gh", GH)
    stand_in(scenario, "gh", KILL)
    (scenario.home / "kill").write_text(when)


@pytest.mark.parametrize("state", ["CLOSED", "MERGED"])
def test_a_pull_request_that_was_opened_before_a_kill_and_is_no_longer_open_is_not_opened_again(scenario, state):
    """AL-14, BX-15: whoever merged or closed it has decided about this work."""
    kill_at(scenario, "after create")
    assert scenario.scaffold("land", "--pr").returncode == -9
    (pull,) = pulls(scenario)
    (scenario.home / "pulls.json").write_text(json.dumps([pull | {"state": state}]))
    done = scenario.scaffold("land", "--pr", "--json")
    assert (done.returncode, json.loads(done.stdout)["url"], len(pulls(scenario))) == (0, pull["url"], 1)


def small_run(scenario, *flags, code=0):
    """Run a plan of one action to its end."""
    scenario.plan(plan_of(docs=[action("page", effects=["page_written"], check="test -s page.md")]))
    scenario.cassette(page=[write("page.md", "# Page\n")])
    done = scenario.run("--yes", *flags)
    assert done.returncode == code, done.stderr
    return done


def test_a_run_with_pr_opens_its_pull_request_and_only_the_users_configuration_may_ask_for_that(scenario):
    """AL-14: `run --pr`, and `publish: pr` of the user; in a project's file, even if trusted, it has no effect."""
    stand_in(scenario, "gh", GH)
    (scenario.repo / ".scaffold.yaml").write_text("publish: pr\n")
    scenario.commit("a project's configuration")
    scenario.scaffold("trust", "--yes", code=0)
    assert "`publish` is ignored" in small_run(scenario).stderr
    assert not (scenario.home / "pulls.json").exists()
    assert "pull request https://example.invalid/pull/1" in small_run(scenario, "--pr").stderr
    scenario.configure(publish="pr")
    small_run(scenario)
    assert [each["baseRefName"] for each in pulls(scenario)] == ["main", "main"]


def test_greenfield_fast_forwards_the_main_branch_at_the_end_only_when_it_is_clean(scenario):
    """AL-12: ff-only; with uncommitted changes nothing is touched, and the run says how to take it."""
    small_run(scenario, "--greenfield")
    assert scenario.git("rev-parse", "main") == scenario.git("rev-parse", session_branch(scenario))
    assert scenario.git("status", "--porcelain") == ""
    scenario.git("reset", "-q", "--hard", "main^")
    (scenario.repo / "README.md").write_text("half done\n")
    before = checkout_bytes(scenario.repo)
    told = small_run(scenario, "--greenfield", code=1).stderr
    assert "the work was not taken: main is checked out" in told
    assert checkout_bytes(scenario.repo) == before
    assert "exclude each other" in scenario.run("--yes", "--greenfield", "--pr").stderr


@pytest.mark.skipif(shutil.which("gh") is None, reason="gh is not installed")
def test_gh_itself_opens_a_pull_request_and_brings_it_up_to_date(scenario):
    """AL-14: Debian's `gh` against an API on this machine."""
    scenario.git("remote", "set-url", "--push", "origin", str(scenario.home / "remote.git"))
    scenario.git("remote", "set-url", "origin", "http://github.localhost/ada/shop.git")
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = {"HTTP_PROXY": f"http://127.0.0.1:{server.server_port}", "GH_HOST": "github.localhost"}
        scenario.environ |= {**proxy, "GH_ENTERPRISE_TOKEN": "t", "GH_TOKEN": "t"}
        for _ in range(2):
            done = scenario.scaffold("land", "--pr", "--json", code=0)
            assert json.loads(done.stdout)["url"] == URL
        server.shutdown()
    (pull,) = Api.pulls
    assert (pull["baseRefName"], pull["title"]) == ("main", "store, docs")
    assert "base" not in pull
    assert "exited with 0" in pull["body"]


def test_a_repeat_pushes_the_same_commits_although_they_are_made_for_it(scenario):
    """AL-14: signed off, or one action alone; otherwise each repeat would need force."""
    stand_in(scenario, "gh", GH)
    scenario.configure(land={"sign_off": "on"})
    for flags in ((), ("--only", "guide")):
        news = []
        for _ in range(2):
            done = scenario.scaffold("land", "--pr", "--json", *flags, code=0)
            news.append(json.loads(done.stdout)["new"])
        assert news[0] == news[1]
    assert [each["head"].removeprefix(session_branch(scenario)) for each in pulls(scenario)] == ["", "-guide"]
