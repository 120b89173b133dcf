"""All programs at work on one plan: each asks, is killed in its work, goes on, and lands."""

import json
import os
import re
import signal
import subprocess  # noqa: TID251 - the real command is tried
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from executor_table.measure import with_files
from executor_table.model_server import Call, Request, reply_to, serve_models, shell_call
from executor_table.programs import setup_of

ASKED = re.compile(r"shell commands: (sh (?:refused|make)_(\w+)\.sh)")
DONE = re.compile(r"it_ran_(\w+)")
LONGEST_S = 900
POLL_S = 1


class RunRow(Struct, frozen=True, kw_only=True):
    """What became of one program's action."""

    version: str
    landed: bool
    attempts: Sequence[str]
    """How each attempt ended."""
    asked: int
    """Questions that reached the inbox."""
    continued: bool
    """Whether its first request after the kill had the conversation of before."""
    requests: int
    at: str


class _Player:
    """Answers requests of all programs; holds those whose command has run until it may go on."""

    def __init__(self) -> None:
        self.is_refused = False
        self.goes_on = threading.Event()
        self.killed = False
        self.held: set[str] = set()
        self.continued: dict[str, bool] = {}
        self.requests: dict[str, int] = {}

    def reply(self, request: Request) -> Call | str:
        asked = dict.fromkeys(ASKED.findall(request.text))
        if not asked or not request.tools:
            return reply_to(request)
        name = next(iter(asked))[1]
        self.requests[name] = self.requests.get(name, 0) + 1
        ran = name in DONE.findall(request.text)
        if self.killed:
            self.continued.setdefault(name, ran)
        elif ran:
            self.held.add(name)
            self.goes_on.wait(LONGEST_S)
        left = [command for command, _ in asked if not (self.is_refused and "refused" in command)]
        return "It is done." if ran else shell_call(request, left[0])


def try_all(names: Sequence[str], path: str, home: Path) -> Mapping[str, RunRow]:
    """Carry out one plan with an action for each program, the first of which is refused a command.

    Raises RuntimeError if one of them does not get as far as its command.
    """
    player = _Player()
    with serve_models(player.reply) as (port, _):
        trial = _Trial(names, port, path, home)
        owner = trial.start("run", "--plan", str(home / "plan.yaml"), "--yes", "--agents", str(len(names)))
        try:
            asked = []
            deadline = time.monotonic() + LONGEST_S
            while not player.held >= {*names}:
                if time.monotonic() > deadline:
                    held = ", ".join(sorted(player.held)) or "none"
                    raise RuntimeError(f"only {held} ran their command: {home}/output.txt")
                asked += trial.answer_questions(player)
                with suppress(subprocess.TimeoutExpired):
                    owner.wait(POLL_S)
                    owner = trial.start("resume")
        finally:
            trial.kill(owner)
            player.killed = True
            player.goes_on.set()
        trial.start("resume").wait(LONGEST_S)
        actions = trial.json("status")["actions"]
    return {each["key"]: _row(each, player, asked) for each in actions}


def _row(action: Mapping[str, Any], player: "_Player", asked: Sequence[str]) -> RunRow:
    name = action["key"]
    return RunRow(
        version=action["attempts"][-1]["executor_version"],
        landed=action["status"] == "completed",
        attempts=[each["outcome"] for each in action["attempts"]],
        asked=asked.count(name),
        continued=player.continued.get(name, False),
        requests=player.requests.get(name, 0),
        at=time.strftime("%Y-%m-%d"),
    )


class _Trial:
    """A repository, a home in which each program is logged in, and the real command."""

    def __init__(self, names: Sequence[str], port: int, path: str, home: Path) -> None:
        self.repository = home / "project"
        self.repository.mkdir(parents=True)
        self.environ = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "SCAFFOLD_HOME": str(home / "scaffold")}
        executors = {}
        for name in names:
            setup = with_files(setup_of(name, port, home))
            self.environ |= setup.environ
            executors[name] = {"env": [*setup.spec.env], "hosts": [*setup.spec.hosts]}
            (self.repository / f"make_{name}.sh").write_text(f"echo made > {name}.txt && echo it_ran_$(echo {name})\n")
            (self.repository / f"refused_{name}.sh").write_text(f"echo refused > {name}.txt\n")
        settings: dict[str, Any] = {"approvals": {"shell": "ask"}, "collisions": "off", "inbox": {"wait_s": 0.2}}
        settings |= {"max_workers_per_goal": len(names), "executors": {"default": names[0], **executors}}
        config = home / "scaffold" / "config" / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(yaml.safe_dump(settings))
        (home / "plan.yaml").write_text(yaml.safe_dump({"version": 1, "goals": [_goal(names)]}))
        for words in (
            "init -q",
            "config user.name Ada",
            "config user.email ada@example.org",
            "add -A",
            "commit -qm start",
        ):
            subprocess.run(["git", *words.split()], cwd=self.repository, env=self.environ, check=True)

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        log = (self.repository.parent / "output.txt").open("ab")
        return subprocess.Popen(
            [sys.executable, "-m", "scaffold", *words],
            cwd=self.repository,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    def json(self, *words: str) -> Any:
        command = [sys.executable, "-m", "scaffold", *words, "--json"]
        return json.loads(
            subprocess.run(command, cwd=self.repository, env=self.environ, check=True, capture_output=True).stdout
        )

    def answer_questions(self, player: _Player) -> list[str]:
        """Approve what waits, and refuse one command; return whose questions they were."""
        asked = []
        for item in self.json("inbox")["inbox"]:
            subject = item["detail"]["subject"]
            _, name = re.findall(r"(refused|make)_(\w+)\.sh", subject)[0]
            asked.append(name)
            is_refused = "refused_" in subject
            if is_refused:
                player.is_refused = True
            self.start("reject" if is_refused else "approve", item["id"]).wait(LONGEST_S)
        return asked

    def kill(self, owner: "subprocess.Popen[bytes]") -> None:
        workers = [each["pid"] for each in self.json("agents")["agents"] if each["pid"]]
        owner.kill()
        owner.wait()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _goal(names: Sequence[str]) -> Mapping[str, Any]:
    return {
        "name": "all",
        "goal_state": [f"{name}_made" for name in names],
        "actions": [_action(name, names) for name in names],
    }


def _action(name: str, names: Sequence[str]) -> Mapping[str, Any]:
    by_shell = "Run this command in this folder, with your tool for shell commands:"
    first = f"{by_shell} sh refused_{name}.sh\n" if name == names[0] else ""
    return {
        "key": name,
        "executor": name,
        "description": f"{first}{by_shell} sh make_{name}.sh",
        "effects": [f"{name}_made"],
        "files": [f"{name}.txt"],
        "contract": {"commands": [f"grep -q made {name}.txt"]},
    }
