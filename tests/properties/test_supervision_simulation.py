"""Whole runs on virtual time, with all faults drawn from a seed.

`SCAFFOLD_SEED=123 pytest tests/properties/test_supervision_simulation.py` replays one; docs/design/012-simulator.md.
"""

import os
import re
import shutil
import subprocess  # noqa: TID251 - planted bugs run in a separate process
import sys
from pathlib import Path

import pytest

from simulator.focus import FOCUSES, NO_FOCUS, Focus
from simulator.world import Outcome, simulate

ROOT = Path(__file__).parents[2]
REPLAYED = os.environ.get("SCAFFOLD_SEED")
QUICK = [range(int(REPLAYED), int(REPLAYED) + 1)] if REPLAYED else [range(n, n + 4) for n in range(0, 8, 4)]
MANY = [range(n, n + 100) for n in range(1000, 1500, 100)]
FAILED_ONCE = (
    "a goal cancelled while its candidate moves the branch",
    "a revert killed after the run had ended",
    "a rebase after the last goal",
    "a step that the user cancelled, and a change of the steps before it",
    "a step that the user stopped in a shared worktree",
)
MAX_SEEDS = 300
"""How many seeds may pass before a planted bug is found."""


def run_seed(seed: int, folder: Path, focus: Focus = NO_FOCUS) -> Outcome:
    place = (folder / f"{seed}").resolve()
    outcome = simulate(seed, place, focus)
    shutil.rmtree(place)  # noqa: TID251
    return outcome


def expect_no_violations(seeds: range, folder: Path, focus: Focus = NO_FOCUS) -> None:
    """Simulate the seeds and fail at the first violation, with all events of the run."""
    for seed in seeds:
        outcome = run_seed(seed, folder, focus)
        trace = "\n".join(outcome.trace)
        found = "\n".join(outcome.violations)
        assert not outcome.violations, f"{trace}\n\nSCAFFOLD_SEED={seed} reproduces this:\n{found}"


@pytest.mark.parametrize("seeds", QUICK, ids=lambda seeds: f"from-{seeds.start}")
def test_a_simulated_run_ends_and_loses_no_landed_work_whatever_fails(seeds, tmp_path):
    """BX-15, BX-8, BX-2, BX-17, SC-15, SC-16, SC-20, OR-3, AL-4: crashes, stalls, lost wake-ups, people."""
    expect_no_violations(seeds, tmp_path)


@pytest.mark.parametrize("seed", [2231, 1362, 1928, 668, 750], ids=FAILED_ONCE)
def test_seeds_that_failed_once_pass(seed, tmp_path):
    """BX-15, SC-17: each of these failed before it was fixed."""
    expect_no_violations(range(seed, seed + 1), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", MANY, ids=lambda seeds: f"from-{seeds.start}")
def test_many_faulty_runs_pass_too(seeds, tmp_path):
    """BX-15: the same, with many more seeds."""
    expect_no_violations(seeds, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("focus", [name for name in FOCUSES if name])
def test_runs_that_are_about_one_thing_pass_too(focus, tmp_path):
    """BX-15: what is rare in others."""
    expect_no_violations(range(60), tmp_path, FOCUSES[focus])


@pytest.mark.slow
def test_the_same_seed_replays_the_same_run(tmp_path):
    """BX-15: a failure can be examined again, event by event."""
    for seed in range(40, 42):
        first, second = run_seed(seed, tmp_path), run_seed(seed, tmp_path)
        assert first.violations == ()
        assert first.trace, f"no event happened with seed {seed}"
        assert first == second, f"seed {seed} gave two different runs"


FAULT_PATTERNS = {
    "an owner took the run over": r"RunClaimed\(pid=owner, fence=[2-9]",
    "an owner took it over many times": r"RunClaimed\(pid=owner, fence=1\d",
    "a supervisor was killed": r"SupervisorEnded\(goal='\w+', code=-9\)",
    "a worker was lost": r"AttemptEnded\(.*outcome='lost'",
    "a worker hung": r"AttemptEnded\(.*outcome='timeout'|signal 9 in phase executing",
    "work conflicted": r"AttemptEnded\(.*outcome='conflict'",
    "a candidate violated its contract": r"AttemptEnded\(.*outcome='contract_failed'",
    "an action was done already": r"AttemptEnded\(.*outcome='recorded'",
    "an action failed for good": r"ActionStatusChanged\(action='\w+', status='failed', reason='\w+ in attempt \d",
    "the budget was spent": r"RunStatusChanged\(status='paused', reason='the budget is used up'",
    "a user set a goal aside": r"GoalStatusChanged\(goal='\w+', status='paused', reason='set aside",
    "a user cancelled an action": r"ActionStatusChanged\(action='\w+', status='cancelled'",
    "a compound was broken down": r"PlanExtended\(goal='\w+', under='",
    "another way was found": r"PlanningTurnEnded\(event='replan'.*outcome='done'",
    "a proposal was refused": r"PlanningTurnEnded\(event='\w+'.*outcome='refused'",
    "a planner was killed": r"PlanningTurnEnded\(event='\w+'.*outcome='lost'",
    "a worker waited for a human and went on": r"AttemptWaitChanged\(.*item=None",
    "a worker that waited for a human ended": r"AttemptEnded\(.*outcome='waiting'",
    "a user undid the work of an action": r"ActionReverted\(",
    "a user rebased the run": r"carried over to a new base by the user",
    "a step was recorded": r"AttemptEnded\(action='US-\d/[^)]*outcome='recorded'",
    "a step began again": r"AttemptEnded\(action='US-\d/[^)]*outcome='restarted'",
    "a step was lost": r"AttemptEnded\(action='US-\d/[^)]*outcome='lost'",
    "the steps of a story were changed": r"The steps of US-\d were changed: \w+, \w+",
    "changes of steps were rejected": r"changes of its story's steps that were rejected",
    "a story conflicted": r"AttemptEnded\(action='US-\d/[^)]*outcome='conflict'",
    "a story failed": r"ActionStatusChanged\(action='US-\d', status='failed'",
    "a story landed": r"ActionLanded\(action='US-\d",
    "a story was undone": r"ActionReverted\(action='US-\d",
    "an undone action was done again": r"(?s)ActionReverted\(action='(\w+)'.*ActionLanded\(action='\1'",
    "a goal was reached": r"GoalStatusChanged\(goal='\w+', status='completed'",
    "a goal failed": r"GoalStatusChanged\(goal='\w+', status='failed'",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_faults_of_the_simulation_are_of_every_kind(tmp_path):
    """BX-15: a simulation without failures would prove nothing."""
    unseen = dict(FAULT_PATTERNS)
    for seed in range(MAX_SEEDS):
        trace = "\n".join(run_seed(seed, tmp_path).trace)
        unseen = {kind: sign for kind, sign in unseen.items() if not re.search(sign, trace)}
        if not unseen:
            break
    assert not unseen, f"{MAX_SEEDS} seeds did not cause this"


PLANTED = {
    "what builds on undone work holds on": (
        "landing/taking/revert.py",
        "    groups |= {each.action.id: each for each in dependent_facts(store, action)}\n",
        "",
    ),
    "an action that was reverted counts as done": (
        "landing/facts/stale_facts.py",
        "facts=()), undone=True)",
        "facts=()))",
    ),
    "what no check can show again holds at a commit that a rebase left behind": (
        "landing/taking/rebase.py",
        'if group.recheck == "nothing" and',
        "if False and",
    ),
    "a revert whose process died is forgotten": (
        "orchestrator/owner/recovery/interrupted_run.py",
        "    await record_interrupted_moves(context, run)\n",
        "",
    ),
    "end_attempt does not check the fence": (
        "run/failures/attempt_end.py",
        "    if fence is None:\n        store.runs.check(run.id, fence=run.fence)\n",
        "    fence = None\n",
    ),
    "an attempt is queued without counting the slots in its transaction": (
        "orchestrator/dispatch.py",
        "if not slots.by_goal.get(goal_id) or not isinstance",
        "if not isinstance",
    ),
    "what runs is not in the way of what is ready": (
        "run/collision_board.py",
        "return Board(self.limits, self._running, self._reserved)",
        "return Board(self.limits, (), self._reserved)",
    ),
    "what is handed in is no longer in the way": (
        "store/run/plan/scheduling.py",
        "AND attempt.status IN ('queued', 'claimed') AND attempt.kind <> 'review'",
        "AND attempt.phase IN ('workspace', 'executing', 'verifying', 'critiquing') AND attempt.status <> 'ended'",
    ),
    "the first goal that asks gets every slot": (
        "plan/slot_shares.py",
        "[(each.working, each.served, place, each)",
        "[(0, 0, place, each)",
    ),
    "a worker that waited goes on without a slot": (
        "store/run/attempts.py",
        "return sum(held.values()) < agents and",
        "return",
    ),
    "the slot of a worker that was answered is given away": (
        "store/run/attempts.py",
        "COUNT(works) - COUNT(CASE WHEN inbox.state = 'open' THEN 1 END) AS taken",
        "COUNT(works) - COUNT(CASE WHEN works = 1 THEN waits_for END) AS taken",
    ),
    "any number of workers wait": ("store/run/attempts.py", 'row["waits_for"] is None and waiting >= most', "False"),
    "attempts start however many candidates wait": (
        "plan/slot_shares.py",
        "CANDIDATES_PER_AGENT = 2",
        "CANDIDATES_PER_AGENT = 99",
    ),
    "a recorded landing leaves its intent open": (
        "landing/facts/landing_record.py",
        "            store.intents.settle(intent.id, done=intent.new == head)\n",
        "            pass\n",
    ),
    "of what lands together, only the first is recorded": (
        "landing/facts/landing_record.py",
        "for landing in landings]\n",
        "for landing in landings[:1]]\n",
    ),
    "effects are facts when a candidate is submitted": (
        "worker/attempt_records.py",
        "            store.actions.move(attempt.action_id, Landing())\n",
        (
            "            store.actions.move(attempt.action_id, Landing())\n"
            "            action = store.actions.get(attempt.action_id)\n"
            "            shown = {'commit': head, 'paths': (), 'evidence': ()}\n"
            "            store.facts.record_all(action.goal_id, action.effects, **shown)\n"
        ),
    ),
    "a step begins where its story did": (
        "orchestrator/dispatch.py",
        "_Placement(kind, base, parent.id, last.head_sha)",
        "_Placement(kind, base, parent.id)",
    ),
    "a step that was added after an ended one is not the next": (
        "plan/story/actions.py",
        "sorted(record.steps, key=lambda each: order.get(each.status, len(order)))",
        "record.steps",
    ),
    "what a step began again with stays in its story": (
        "store/run/attempts.py",
        "workspace <> '' AND outcome = 'recorded'",
        "workspace <> '' AND outcome IN ('recorded', 'restarted')",
    ),
    "the pins of steps are deleted before their story has landed": (
        "landing/facts/story_steps.py",
        "if recorded_here or pin == last",
        "if True or pin == last",
    ),
    "a lost attempt counts as a failure": (
        "core/states.py",
        '"executor_failed", "timeout"}',
        '"executor_failed", "timeout", "lost"}',
    ),
}
"""A file below src/scaffold, its correct text, and the text with the bug."""
FOCUS_OF = {"a revert whose process died is forgotten": "reverts", "any number of workers wait": "questions"}
"""What the runs are about in which a bug is looked for that is rare otherwise."""


def _planted(bug: str) -> tuple[str, str]:
    """Return the file of a planted bug, and its text with the bug."""
    file, correct, wrong = PLANTED[bug]
    text = (ROOT / "src" / "scaffold" / file).read_text()
    assert text.count(correct) == 1, f"{file} has changed: adapt the planted bug"
    return file, text.replace(correct, wrong)


def test_every_bug_can_still_be_planted():
    """BX-15: asked of every change to these files, not only when all seeds are tried."""
    texts = {bug: (ROOT / "src" / "scaffold" / file).read_text() for bug, (file, _, _) in PLANTED.items()}
    changed = [
        bug for bug, (_, correct, wrong) in PLANTED.items() if texts[bug].count(correct) != 1 or wrong == correct
    ]
    assert changed == [], "adapt the planted bug to its file"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug, tmp_path):
    """BX-15: a simulator counts once it has found something."""
    file, text = _planted(bug)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", ".mypy_cache"))
    (tmp_path / "src" / "scaffold" / file).write_text(text)
    found = subprocess.run(
        [sys.executable, "-m", "simulator", "0", str(MAX_SEEDS), FOCUS_OF.get(bug, "")],
        env={
            "PYTHONPATH": f"{tmp_path / 'src'}:{ROOT / 'tests'}",
            "PATH": os.environ["PATH"],
            "SCAFFOLD_HOME": str(tmp_path / "home"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1, f"{MAX_SEEDS} seeds did not find it; {found.stderr}"
    assert found.stdout.startswith("seed "), found.stderr
