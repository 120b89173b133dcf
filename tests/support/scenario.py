"""A repository, a plan and a cassette, and the real command run on them."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import yaml

from builders import machine_sandbox
from support.run_folder import processes_with
from support.samples import folder_until_exit, sample_environ

BARE = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
PATIENCE_S = 120.0
"""The longest wait for what has to happen: it only ends tests that hang, on a machine however busy."""
COMMAND_S = 240.0
"""The longest wait for the end of a whole command."""
TO_END_S = 40.0
"""How long processes may take to end: shorter than the commands that tests leave to be ended."""


def action(key, *, effects, needs=(), check=None, contract=None, files=()):
    """Return a primitive action whose contract is one command, or `contract`."""
    contract = contract or {"commands": [{"command": check}]}
    return {
        "key": key,
        "description": f"make {key}",
        "preconditions": list(needs),
        "effects": list(effects),
        "files": list(files),
        "contract": contract,
    }


def plan_of(**goals):
    """Return a plan: goals by name, each desiring every effect of its actions."""
    return {
        "version": 1,
        "goals": [
            {
                "name": name,
                "description": f"have {name}",
                "goal_state": sorted({effect for each in actions for effect in each["effects"]}),
                "actions": actions,
            }
            for name, actions in goals.items()
        ],
    }


def write(path, content):
    return {"name": "write_file", "args": {"path": path, "content": content}}


def create_actions(goal, *actions, parent=None):
    """Return the call that adds actions to a goal."""
    under = {"parent": parent} if parent else {}
    return {"name": "goap_create_actions", "args": {"goal": goal, "actions": list(actions), **under}}


def text_entry(role, text="done", **when):
    """Return the entry that answers with text."""
    return {"when": {"role": role, **when}, "text": text}


def calls_entry(role, *calls, **when):
    """Return the entry that answers with tool calls."""
    return {"when": {"role": role, **when}, "tool_calls": list(calls)}


def shell(command):
    return {"name": "shell", "args": {"command": command, "timeout_s": 60}}


def meeting(folder: Path, *keys: str) -> dict[str, str]:
    """Return a command for each agent that ends once all of them have begun; without a sandbox."""
    others = " && ".join(f"test -e {folder}/{key}" for key in keys)
    return {key: f"touch {folder}/{key}; until {others}; do sleep 0.05; done" for key in keys}


def put_before(cassette, *entries):
    """Put entries before all others of the cassette at this path."""
    content = yaml.safe_load(cassette.read_text())
    cassette.write_text(yaml.safe_dump({**content, "replies": [*entries, *content["replies"]]}))


def programs_in(*folders):
    """Return the command lines of the Python programs of these folders that are running, on the whole machine."""
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    ours = [line for line in listed.splitlines() if "python" in line and "bwrap" not in line]
    return [line for line in ours if any(str(folder) in line for folder in folders)]


def wait_until(condition, seconds=PATIENCE_S):
    """Return whether `condition` came true within `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@cache
def _sample() -> Path:
    """Return the repository that each scenario copies."""
    whole = folder_until_exit()
    repo = whole / "repo"
    repo.mkdir()
    environ = sample_environ(whole)
    (repo / "README.md").write_text("# Sample\n")
    _git(repo, environ, "init", "-q", "-b", "main")
    _git(repo, environ, "config", "user.name", "Ada")
    _git(repo, environ, "config", "user.email", "ada@example.invalid")
    _git(repo, environ, "add", "-A")
    _git(repo, environ, "commit", "-q", "-m", "start")
    return repo


def _git(repo: Path, environ: Mapping[str, str], *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=repo, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Scenario:
    """A fresh repository in `folder`, with its own home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.repo = folder / "repo"
        self.cache = self.home / "scaffold" / "cache"
        self.out = self.repo / "out"
        self._background = folder / "background.txt"
        self._background.touch()
        if sys.version_info < (3, 12):
            # `run_async` of an earlier test leaves a watcher that works in the main thread only.
            asyncio.set_child_watcher(None)
        with ThreadPoolExecutor(1) as pool:  # a test that makes one may have a loop of its own
            self.unheld = pool.submit(lambda: asyncio.run(machine_sandbox())).result().level == "none"
        self.home.mkdir()
        self.environ = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "VIRTUAL_ENV": sys.prefix,  # our programs are on the PATH of commands only if it is activated
            "HOME": str(self.home),
            "SCAFFOLD_HOME": str(self.home / "scaffold"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
            "TMPDIR": tempfile.gettempdir(),
        }
        shutil.copytree(_sample(), self.repo, symlinks=True)
        self.git("update-index", "--refresh", "-q")
        if self.unheld:
            self.configure()
        self.out.mkdir()  # here commands can make files even where the sandbox is Landlock's

    def git(self, *args: str) -> str:
        return _git(self.repo, self.environ, *args)

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def configure(self, **settings) -> None:
        """Write the user's configuration; it replaces what was written before.

        Gates then run pytest without the plugins that happen to be installed beside us, which take longer to load than
        the tests take to run. On a machine without a sandbox the user has turned it off: nobody would answer.
        """
        if self.unheld:
            settings = {"sandbox": {"mode": "off"}, **settings}
        self.environ[BARE] = "1"
        folder = self.home / "scaffold" / "config"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump({"environment": [BARE], **settings}))

    def plan(self, plan) -> None:
        (self.home / "plan.yaml").write_text(yaml.safe_dump(plan))

    def cassette(self, *, name="cassette.yaml", cost=0.0, once=False, **by_action) -> Path:
        """Write the replies: for each action its tool calls, each in a reply of its own, then `done with KEY`.

        A text among them ends the agent's turn there. Who does so `once` does nothing in later attempts.
        """
        attempt = {"attempt": 1} if once else {}
        replies = []
        for key, steps in by_action.items():
            closed = [*steps] if isinstance(steps[-1], str) else [*steps, f"done with {key}"]
            for turn, step in enumerate(closed, start=1):
                text_entry = {"text": step} if isinstance(step, str) else {"tool_calls": [step]}
                usage = {"input_tokens": 1_000_000 if cost else 100, "output_tokens": 0 if cost else 10}
                replies.append({"when": {"action": key, "turn": turn, **attempt}, "usage": usage, **text_entry})
            replies.append({"when": {"action": key}, "text": "nothing more to do"})
        path = self.home / name
        prices = {"input_per_mtok": cost, "output_per_mtok": cost}
        path.write_text(yaml.safe_dump({"version": 1, "replies": replies, "prices": prices}))
        return path

    def replies(self, *replies, name="cassette.yaml") -> Path:
        """Write a cassette of these entries unchanged."""
        path = self.home / name
        path.write_text(yaml.safe_dump({"version": 1, "replies": list(replies)}))
        return path

    def request_command(self, task: str, *flags: str) -> list[str]:
        """Return the command that plans and executes a request with the cassette."""
        return self._run_with_cassette(task, *flags)

    def request(self, task: str, *flags: str, code: int | None = None) -> subprocess.CompletedProcess:
        return self.call(self.request_command(task, *flags), code=code)

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "scaffold", *args]

    def run_command(self, *flags: str) -> list[str]:
        return self._run_with_cassette("--plan", str(self.home / "plan.yaml"), *flags)

    def _run_with_cassette(self, *args: str) -> list[str]:
        """Return a `run` that asks nothing on a machine without a sandbox, unless `args` say which to use."""
        unheld = self.unheld and "--sandbox" not in args
        model = f"cassette:{self.home / 'cassette.yaml'}"
        return self.command("run", *args, "--model", model, *(["--yolo"] if unheld else []))

    def scaffold(self, *args: str, code: int | None = None) -> subprocess.CompletedProcess:
        return self.call(self.command(*args), code=code)

    def run(self, *flags: str, code: int | None = None) -> subprocess.CompletedProcess:
        return self.call(self.run_command(*flags), code=code)

    def start(self, argv: list[str]) -> subprocess.Popen:
        """Start a command in the background; `said` returns what it printed."""
        with self._background.open("a") as log:
            return subprocess.Popen(
                argv,
                cwd=self.repo,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def said(self) -> str:
        """Return what the commands in the background have printed so far."""
        return self._background.read_text(errors="replace")

    def call(
        self, argv: list[str], words: str = "", *, code: int | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess:
        """Run a command to its end, with these words on standard input.

        AssertionError with its output if its exit code is not `code`, if given.
        """
        done = subprocess.run(
            argv,
            cwd=cwd or self.repo,
            env=self.environ,
            **({"input": words} if words else {"stdin": subprocess.DEVNULL}),
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert code in {None, done.returncode}, f"exit code {done.returncode}:\n{done.stdout}{done.stderr}"
        return done

    async def spawn(self, *args: str, environ: Mapping[str, str] = {}, **options) -> asyncio.subprocess.Process:
        """Start a command while servers of the test answer; `environ` has their keys."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return await asyncio.create_subprocess_exec(
            *self.command(*args), cwd=self.repo, env=self.environ | environ, **(streams | options)
        )

    def json(self, *args: str):
        """Return what a command prints as JSON."""
        return json.loads(self.scaffold(*args, "--json", code=0).stdout)

    def stored(self, query: str) -> list[tuple]:
        """Return the rows of a query of the state of runs."""
        with closing(sqlite3.connect(self.repo / ".git" / "scaffold" / "state.db")) as database:
            return database.execute(query).fetchall()

    def landed_keys(self) -> list[str]:
        """Return the keys of the actions whose commits are on the session branch, in the order of landing."""
        run = self.status()["run"]
        span = f"{run['base_sha']}..{run['session_branch']}"
        return self.git("log", "--reverse", "--format=%(trailers:key=Scaffold-Action,valueonly)", span).split()

    def status(self, *args: str):
        return self.json("status", *args)

    def inbox(self, *flags: str):
        return self.json("inbox", *flags)["inbox"]

    def outcomes(self, key: str | None = None) -> list[str | None]:
        """Return those of an action's attempts, in order; of the only action without a key."""
        (found,) = (each for each in self.status()["actions"] if key in {None, each["key"]})
        return [each["outcome"] for each in found["attempts"]]

    def facts(self) -> dict[str, str]:
        """Return the state of each fact by its name."""
        return {fact["name"]: fact["state"] for goal in self.status()["goals"] for fact in goal["facts"]}

    def journal(self, goal: str, key: str) -> str:
        return (self.repo / ".scaffold" / "logs" / goal / f"{key}.jsonl").read_text()

    def checkout(self):
        """Return everything of the user's checkout that must not change: files, index, head, branches."""
        git = self.repo / ".git"
        files = {
            str(path.relative_to(self.repo)): (path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in sorted(self.repo.rglob("*"))
            if path.is_file() and git not in path.parents and ".scaffold" not in path.parts
        }
        index = (git / "index").read_bytes()
        return files, index, (git / "HEAD").read_text(), self.git("rev-parse", "main")

    def processes(self) -> list[int]:
        """Return every living process that was started with this scenario's home."""
        return processes_with(f"HOME={self.home}")

    def wait_for_end(self) -> None:
        """Wait for the end of all its processes; AssertionError if one has to be killed."""
        gone = wait_until(lambda: not self.processes(), TO_END_S)
        self.kill_all_but()
        assert gone, "a process was left behind"

    def kill_all_but(self, *folders: Path) -> None:
        """Kill the scenario's processes, except those whose command line names one of these folders."""
        for pid in self.processes():
            with suppress(OSError):  # it may end meanwhile
                words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
                if not any(str(each) in words for each in folders):
                    os.kill(pid, signal.SIGKILL)

    def commands(self) -> list[int]:
        """Return the living commands that agents of this scenario started."""
        return sorted({*processes_with("SCAFFOLD_ATTEMPT=")} & {*self.processes()})
