"""Land two features of a CooperBench task with the real command: scripted agents, the tests of each as its check."""

import json
import os
import re
import shlex
import subprocess  # noqa: TID251 - the real command is measured
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from merges_replay.features import Pair, Task, file_of, tests_of

PROGRAMS = Path(sys.executable).parent
ALONE = ("quality_gates.test", "quality_gates.lint", "quality_gates.typecheck", "quality_gates.build", "collisions")
"""Settings that are off: the checks of the features are what decides, and both begin on the same commit."""
MOST_S = 900
ENVIRONMENT = "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=src:. PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"
OPTIONS = "-q -p no:cacheprovider -W ignore --tb=no"


def landed(task: Task, data: Path, pair: tuple[str, str]) -> Pair:
    """Return what became of two features that two agents write at the same time."""
    with TemporaryDirectory() as name:
        folder, repo = Path(name), Path(name) / "repo"
        repo.mkdir()
        environ = {
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "HOME": name,
            "SCAFFOLD_HOME": f"{name}/home",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

        def run(*argv: str) -> str:
            done = subprocess.run(
                argv, check=False, cwd=repo, env=environ, capture_output=True, text=True, timeout=MOST_S
            )
            return done.stdout

        archive = ["git", "archive", f"{task.features[pair[0]]}^"]
        files = subprocess.run(archive, cwd=task.clone, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", repo], input=files, check=True)
        for words in (
            "init -q",
            "config user.name Ada",
            "config user.email a@example.org",
            "add -Af",
            "commit -qm base",
        ):
            run("git", *words.split())
        plan, replies = _plan_of(task, data, pair)
        (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
        (folder / "replies.json").write_text(json.dumps(replies))
        for setting in ALONE:
            run("scaffold", "config", setting, "off")
        given = ("--plan", f"{name}/plan.yaml", "--model", f"cassette:{name}/replies.json")
        told = run("scaffold", "run", *given, "--agents", "2", "--yes")
    how, why, failed = ending_of(told)
    return Pair(task=task.name, features=pair, how=how, why=why, failed=failed)


def _plan_of(task: Task, data: Path, pair: tuple[str, str]) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Return a plan with an action for each feature, and the replies of its agents, who apply what the data set has."""
    check = f"{ENVIRONMENT} python -m pytest {OPTIONS} {shlex.join(tests_of(task, data))}"
    contract = {"commands": [{"command": check, "timeout_s": 300}]}
    actions, replies = [], list[object]()
    for feature in pair:
        patches = [file_of(data, f"{task.folder}/{feature}/{kind}.patch") for kind in ("feature", "tests")]
        files = sorted({path for patch in patches for path in re.findall(r"^\+\+\+ b/(\S+)", patch, re.MULTILINE)})
        known = {"key": feature, "description": feature, "effects": [f"done_{feature}"]}
        actions.append(known | {"files": files, "contract": contract})
        apply = "".join(f"git apply --ignore-whitespace - <<'THE_END'\n{patch}\nTHE_END\n" for patch in patches)
        call = {"name": "shell", "args": {"command": f"set -e\n{apply}"}}
        replies.append({"when": {"action": feature, "turn": 1}, "tool_calls": [call]})
    replies.append({"when": {"role": "implementation"}, "text": "done"})
    goal = {"name": "g", "description": "g", "goal_state": [f"done_{each}" for each in pair], "actions": actions}
    return {"version": 1, "goals": [goal]}, {"version": 1, "replies": replies}


def ending_of(told: str) -> tuple[str, str, tuple[str, ...]]:
    """Return how a landing ended by what the command says, why, and the tests that fail on the merge.

    After a conflict an agent would have to change its work, and ours says nothing more: it counts as refused.
    """
    conflict = re.search(r"attempt 1: conflict: (.*(?:\n {8,}\S.*)*)", told)
    if conflict is None:
        return ("queue" if re.search(r"^✓ run \w+ completed", told, re.MULTILINE) else "refused"), "", ()
    return "refused", conflict[1].split("\n")[0], tuple(re.findall(r"FAILED (\S+)", conflict[1]))
