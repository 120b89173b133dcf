"""`ralph login` and what it is for, by the real commands, against a stand-in for the provider."""

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from model_server.turn import Call, Turn
from support.login_server import ACCOUNT, EMAIL, USER_CODE, browse, callback_port, serve_logins
from support.scenario import COMMAND_S, Scenario, action, plan_of, wait_until, write

SUPPORT = Path(__file__).parents[1] / "support"
STORM = 20
BROWSER = """\
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(sys.argv[1], timeout=20).read()
"""
ONE_TOKEN = """\
import asyncio
from scaffold.login.subscription import connect_login
async def main():
    async with connect_login() as stored:
        print((await stored.current()).token)
asyncio.run(main())
"""


@pytest.fixture
def scenario(tmp_path):
    scenario = Scenario(tmp_path)
    scenario.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    return scenario


@pytest.fixture
def server(scenario):
    with serve_logins() as server:
        scenario.environ |= server.environ
        yield server


def begin(scenario, *args, stdin=subprocess.PIPE):
    return subprocess.Popen(
        scenario.command("ralph", *args),
        cwd=scenario.repo,
        env=scenario.environ,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def page_of(process):
    """Return the address that a login shows."""
    return next(line.strip() for line in process.stderr if line.startswith("http"))


def log_in(scenario, server):
    """Log in as on a machine without a browser; return what was printed."""
    process = begin(scenario, "login", "--headless")
    out, err = process.communicate(server.agree(page_of(process)) + "\n", timeout=COMMAND_S)
    assert process.returncode == 0, err
    return out + err


def ask(scenario, *args):
    return scenario.scaffold("ralph", *args, "--model", "codex:gpt-5")


def seen_of(scenario):
    return json.loads(scenario.scaffold("ralph", "whoami", "--json").stdout)


def files_with(scenario, server):
    """Return the files of the home and the repository that have a token in them."""
    tokens = [token.encode() for token in server.tokens]
    files = [path for top in (scenario.home, scenario.repo) for path in top.rglob("*") if path.is_file()]
    return [path for path in files if any(token in path.read_bytes() for token in tokens)]


@pytest.mark.slow
def test_a_browser_logs_in_models_answer_and_a_logout_deletes_it_for_good(scenario, server):
    """RA-17, RA-1: with the account's header; no token in any file or output, nor in the environment of a command."""
    script = scenario.home / "browser.py"
    script.write_text(BROWSER)
    scenario.environ["BROWSER"] = f"{sys.executable} {script} %s"
    with callback_port():
        done = scenario.scaffold("ralph", "login")
    assert done.returncode == 0, done.stderr
    assert f"{EMAIL} (plan plus), account {ACCOUNT}" in done.stdout
    assert "not from programs of yours" in " ".join(done.stdout.split())
    server.turns = [Turn(calls=(Call("shell", {"command": "env; true"}),)), Turn(text="here I am")]
    answer = ask(scenario, "show the environment", "--yolo", "--output-format", "stream-json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout.splitlines()[-1])["result"] == "here I am"
    assert server.asked[0]["chatgpt-account-id"] == ACCOUNT
    seen = seen_of(scenario)
    assert (seen["logged_in"], seen["login"]["email"], seen["login"]["plan"]) == (True, EMAIL, "plus")
    doctor = scenario.scaffold("doctor")
    assert f"account {ACCOUNT}" in " ".join(doctor.stdout.split())
    assert files_with(scenario, server) == []
    printed = done.stdout + done.stderr + answer.stdout + answer.stderr + doctor.stdout
    assert not any(token in printed for token in server.tokens)
    out = scenario.scaffold("ralph", "logout")
    assert (out.returncode, len(server.revoked)) == (0, 1), out.stderr
    assert not list(scenario.home.rglob("*.key"))
    assert seen_of(scenario) == {"logged_in": False, "login": None}
    assert "ralph login" in ask(scenario, "hi").stderr


@pytest.mark.slow
def test_a_login_by_a_code_needs_no_browser_on_this_machine(scenario, server):
    """RA-17: the code is shown, and entered elsewhere."""
    scenario.scaffold("ralph", "login", "--device", "--headless", code=64)
    process = begin(scenario, "login", "--device")
    assert page_of(process).endswith("/codex/device")
    assert process.stderr.readline().strip() == USER_CODE
    server.enter(USER_CODE)
    out, err = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 0, err
    assert EMAIL in out
    assert seen_of(scenario)["logged_in"]


@pytest.mark.slow
def test_strangers_at_the_port_change_nothing_and_a_second_login_says_that_it_is_taken(scenario, server):
    """RA-17"""
    with callback_port():
        process = begin(scenario, "login")
        url = page_of(process)
        there = server.agree(url)
        assert browse(re.sub("state=[^&]*", "state=stolen", there))[0] == 400
        assert browse(there, Host="evil.example:1455")[0] == 421
        second = scenario.scaffold("ralph", "login")
        assert (second.returncode, "port 1455" in second.stderr) == (64, True)
        assert browse(there)[0] == 200
        out, err = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 0, err
    assert EMAIL in out


def test_ctrl_c_ends_a_login_and_changes_nothing(scenario, server):
    """RA-17"""
    with callback_port():
        process = begin(scenario, "login")
        page_of(process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=COMMAND_S)
    assert (process.returncode, "you are not logged in" in err) == (130, True)
    assert "Traceback" not in err
    assert not seen_of(scenario)["logged_in"]


def test_a_headless_login_checks_what_is_pasted(scenario, server):
    """RA-17: the answer to another login, and none at all."""
    process = begin(scenario, "login", "--headless")
    other = re.sub("state=[^&]*", "state=stolen", server.agree(page_of(process)))
    _, err = process.communicate(f"{other}\n", timeout=COMMAND_S)
    assert (process.returncode, "not the answer to this login" in err) == (64, True)
    assert server.exchanges == 0
    process = begin(scenario, "login", "--headless")
    _, err = process.communicate("", timeout=COMMAND_S)
    assert (process.returncode, "nothing was pasted" in err) == (64, True)


@pytest.mark.slow
def test_the_keyring_of_the_system_has_the_key_and_a_locked_one_is_said(scenario, server):
    """RA-17"""
    scenario.environ |= {
        "PYTHON_KEYRING_BACKEND": "keyring_in_a_file.Keyring",
        "PYTHONPATH": str(SUPPORT),
        "FAKE_KEYRING": str(scenario.home / "keyring"),
    }
    assert "the keyring of this system" in log_in(scenario, server)
    assert not list(scenario.home.rglob("*.key"))
    assert ask(scenario, "hi").stdout.strip() == "here I am"
    (scenario.home / "keyring.locked").touch()
    locked = ask(scenario, "hi")
    assert (locked.returncode, "keyring is locked" in locked.stderr) == (1, True)
    (scenario.home / "keyring.locked").unlink()
    scenario.scaffold("ralph", "logout", code=0)
    assert json.loads((scenario.home / "keyring").read_text()) == {}


@pytest.mark.slow
def test_a_refused_token_is_renewed_and_an_ended_login_says_what_to_do(scenario, server):
    """RA-17: 401, then a login that the provider revoked."""
    log_in(scenario, server)
    server.access.clear()
    assert ask(scenario, "hi").stdout.strip() == "here I am"
    assert server.renewals == 1
    log_in(scenario, server)
    server.access.clear()
    server.refresh.clear()
    for _ in range(2):
        ended = ask(scenario, "hi")
        assert ended.returncode == 1
        assert "login has ended" in ended.stderr
        assert "ralph login" in ended.stderr
        assert not any(token in ended.stderr for token in server.tokens)
    assert server.refusals == 1
    log_in(scenario, server)
    assert ask(scenario, "hi").returncode == 0


@pytest.mark.slow
def test_a_process_killed_between_the_answer_and_the_store_loses_at_most_the_login(scenario, server):
    """RA-17: with the reason; and a kill before the server has answered loses nothing."""
    log_in(scenario, server)
    server.access.clear()
    server.fault = "slow"
    process = begin(scenario, "hi", "--model", "codex:gpt-5", stdin=subprocess.DEVNULL)
    assert wait_until(lambda: server.renewals)
    process.kill()
    process.communicate()
    server.fault = ""
    ended = ask(scenario, "hi")
    assert "interrupted while it renewed" in " ".join(ended.stderr.split())
    log_in(scenario, server)
    server.access.clear()
    server.fault = "never"
    process = begin(scenario, "hi", "--model", "codex:gpt-5", stdin=subprocess.DEVNULL)
    assert wait_until(lambda: _is_renewing(scenario))
    process.kill()
    process.communicate()
    server.fault = ""
    assert ask(scenario, "hi").stdout.strip() == "here I am"


def _is_renewing(scenario):
    with closing(sqlite3.connect(scenario.home / "scaffold" / "data" / "user.db")) as raw:
        return raw.execute("SELECT renewing_since FROM login").fetchone()[0]


@pytest.mark.slow
async def test_twenty_processes_that_need_a_token_at_once_renew_it_once(scenario, server):
    """RA-17"""
    server.lifetime_s = 1
    log_in(scenario, server)
    await asyncio.sleep(1.1)
    server.lifetime_s = 3600
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ONE_TOKEN), env=scenario.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(STORM)
    ]
    ended = [await each.communicate() for each in processes]
    assert {each.returncode for each in processes} == {0}, ended
    assert len({out for out, _ in ended}) == 1
    assert (server.renewals, server.refusals) == (1, 0)


@pytest.mark.slow
def test_the_workers_of_a_run_use_the_login_and_renew_it_while_it_lasts(scenario, server):
    """RA-17, AL-31: all processes of a run read the same tokens, here with a passphrase."""
    made = [Turn(calls=(Call(**write(f"{key}.txt", key)),)) for key in ("one", "two")]
    actions = [action(key, effects=[f"{key}_made"], check=f"test -f {key}.txt") for key in ("one", "two")]
    scenario.plan(plan_of(files=actions))
    server.turns = [made[0], Turn(text="made"), made[1], Turn(text="made")]
    server.lifetime_s = 3
    scenario.environ["SCAFFOLD_LOGIN_PASSPHRASE"] = "correct horse battery"
    assert "derived from SCAFFOLD_LOGIN_PASSPHRASE" in log_in(scenario, server)
    flags = ("--plan", str(scenario.home / "plan.yaml"), "--model", "codex:gpt-5", "--agents", "1", "--yes", "--yolo")
    scenario.call(scenario.command("run", *flags), code=0)
    assert server.refusals == 0
    assert {each["chatgpt-account-id"] for each in server.asked} == {ACCOUNT}
    assert files_with(scenario, server) == []


@pytest.mark.slow
def test_a_run_whose_login_ends_pauses_and_goes_on_after_a_new_one(scenario, server):
    """RA-17, AL-31: it counts against no action, and no work is lost."""
    scenario.plan(plan_of(files=[action("one", effects=["one_made"], check="test -f one.txt")]))
    server.turns = [Turn(calls=(Call(**write("one.txt", "one")),)), Turn(text="made")]
    log_in(scenario, server)
    server.access.clear()
    server.refresh.clear()
    flags = ("--plan", str(scenario.home / "plan.yaml"), "--model", "codex:gpt-5", "--yes", "--yolo")
    paused = scenario.call(scenario.command("run", *flags))
    assert (paused.returncode, "your login has ended" in paused.stdout) == (3, True), paused.stderr
    log_in(scenario, server)
    scenario.scaffold("resume", "--yolo", code=0)
