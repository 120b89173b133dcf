"""A repository with baselines and candidates of it, judged by real pytest."""

import sys

from scaffold.core.gates import CheckEnvironment, Gate
from scaffold.git import refs, worktree
from scaffold.host.slots import Slots
from scaffold.verify.contract.checks import Tree
from scaffold.verify.gates.detection import DetectedGates
from scaffold.verify.regression.baseline import BaselineInputs, capture_baseline
from scaffold.verify.regression.gate_results import RegressionRequest, judge_gates

PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"
TEST = Gate(kind="test", command=PYTEST, runner="pytest")
FINGERPRINT = "env"
QUICK = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

CALC = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"
TEST_CALC = """\
from calc import add, sub


def test_add():
    assert add(1, 2) == 3


def test_sub():
    assert sub(3, 1) == 2


def test_known_to_fail():
    assert add(1, 1) == 3
"""


class Bench:
    """A repository, and trees of its commits."""

    def __init__(self, house, folder):
        self.house = house
        self.folder = folder
        self.told = []
        self.kept = {}
        self.slots = Slots(folder / "slots", 1)

    async def commit(self, files):
        """Commit files; None removes one."""
        for name, text in files.items():
            path = self.house.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        await self.house.sh("git add --all; git commit -qm change")
        return await refs.resolve(self.house.site.git, "HEAD")

    async def tree(self, base, commit):
        git = await worktree.add(self.house.site.repository, self.folder / f"tree-{commit[:8]}", commit)
        environ = dict(self.house.site.environ) | QUICK
        return Tree(git=git, base=base, commit=commit, environ=environ)

    async def capture(self, base, *gates, given=frozenset(), left_out=()):
        def told(run, reused):
            self.told.append((run.gate.name, reused))
            self.keep(run)

        means = BaselineInputs(find=self.find, slots=self.slots, on_gate_run=told)
        detection = DetectedGates(kind="python", gates=gates or (TEST,), given=given)
        tree = await self.tree(base, base)
        return await capture_baseline(
            detection, tree, CheckEnvironment(fingerprint=FINGERPRINT), means, left_out=left_out
        )

    def find(self, gate, commit, environment):
        return self.kept.get((gate.name, commit, environment))

    def keep(self, run):
        self.kept[(run.gate.name, run.commit, run.environment)] = run

    async def judge(self, captured, base, head, **terms):
        terms = {"focused": True} | terms
        held = RegressionRequest(baseline=captured.baseline, **terms)
        return {each.gate.name: each for each in await judge_gates(held, await self.tree(base, head), self.slots)}

    async def judge_in(self, tree, captured, **terms):
        """Return how the one gate does in a tree that is there already."""
        (result,) = await judge_gates(
            RegressionRequest(baseline=captured.baseline, focused=True, **terms), tree, self.slots
        )
        return result
