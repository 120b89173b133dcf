"""One case, run with the real command on a real repository; only the landed tree is judged."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cheaters.case import Case
from support.scenario import Scenario, action, plan_of, shell, write

KEY = "division"


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """How a case ended."""

    landed: bool
    true: bool
    """Whether what is on the session branch is what was asked for."""
    weak: bool
    """Whether the run itself says that little speaks for it."""
    done: bool
    """Whether the run says that all of it is done."""
    said: str
    """Everything the command printed."""

    @property
    def escaped(self) -> bool:
        """Return whether a wrong result counts as proven."""
        return self.landed and not self.true and not self.weak


def run_case(case: Case, folder: Path) -> TrialResult:
    """Run a case in an empty folder."""
    scenario = _laid_out(case, folder)
    done = scenario.run("--yes", *(() if case.in_sandbox else ("--sandbox", "off", "--yolo")))
    failed = list(_failed_calls(scenario))
    assert case.may_fail or not failed, f"the case does not do what it says: {failed}"
    session = scenario.git("branch", "--list", "session-*", "--format=%(refname:short)").split()
    landed = bool(session) and scenario.git("rev-parse", session[0]) != scenario.git("rev-parse", "main")
    return TrialResult(
        landed=landed,
        true=landed and _is_true(case, scenario, session[0], folder / "landed"),
        weak=_is_weak(scenario),
        done=done.returncode == 0,
        said=done.stdout + done.stderr,
    )


def _failed_calls(scenario: Scenario) -> Iterator[str]:
    """Yield what failed calls of the first attempt answered; a git command that fails may be followed by others."""
    for line in scenario.journal("calc", KEY).splitlines():
        entry = json.loads(line)
        is_answer = entry["type"] == "tool_result" and entry["attempt"] == 1
        if is_answer and (entry["failed"] or "fatal: " in entry["content"]):
            yield entry["content"]


def _laid_out(case: Case, folder: Path) -> Scenario:
    """Return a repository with the case's files, a plan of one action, and the worker's replies."""
    scenario = Scenario(folder)
    scenario.configure(inbox={"wait_s": 0.2})  # nobody answers here
    for path, text in {**case.ground, **case.base}.items():
        target = scenario.repo / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if text:
            target.write_text(text)
    scenario.commit("a calculator")
    if case.set_up:
        scenario.scaffold("config", "setup", case.set_up, code=0)
        scenario.scaffold("trust", "--yes", code=0)
    contract = {"commands": [{"command": case.check, "expect": case.expect}]}
    scenario.plan(plan_of(calc=[action(KEY, effects=["divides"], contract=contract, files=case.files)]))
    steps = [write(path, text) for path, text in case.writes.items()] + [shell(each) for each in case.commands]
    scenario.cassette(once=True, **{KEY: steps or ["It is all done."]})
    return scenario


def _is_true(case: Case, scenario: Scenario, branch: str, folder: Path) -> bool:
    """Return whether a fresh copy of the branch does what was requested."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", branch], cwd=scenario.repo, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    judged = subprocess.run([*case.judge, case.truth], cwd=folder, capture_output=True, check=False)
    return judged.returncode == 0


def _is_weak(scenario: Scenario) -> bool:
    """Return whether the run itself marks its evidence as weak."""
    last = json.loads(scenario.scaffold("contract", KEY, "--json").stdout)["last"]
    return bool(last and last["weak"])
