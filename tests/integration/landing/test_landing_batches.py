"""Candidates that are proven side by side and land together: real git, real checks, real gates."""

import asyncio
import sys

import pytest

from scaffold.core.events import AttemptEnded
from scaffold.core.proof.gates import Gate
from scaffold.core.states import Cancelled, Pending
from scaffold.git import commits
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded, CandidateRefused, QueueIdle
from scaffold.orchestrator.owner.run_baseline import ensure_baseline
from scaffold.orchestrator.supervisor.wakeup import Wakeup
from support.harness import UNSANDBOXED, act, goal, poll_until

GATE = Gate(kind="test", command="sh gate.sh", runner="exit")
IN_WORK = 'test -n "$SCAFFOLD_ATTEMPT"'
"""True in the checks of a worker; what must be seen by the merge queue alone is left out there."""


class Landing:
    """A run whose candidates are handed in before the queue looks, and the queue."""

    def __init__(self, harness, run, folder, arrivals):
        self.harness, self.run, self._folder = harness, run, folder
        self.queue = MergeQueue(harness.context, run, arrivals)

    @property
    def gate_runs(self):
        """The numbers of files that each run of the gate saw in the queue."""
        log = self._folder / "gates"
        return log.read_text().split() if log.exists() else []

    async def hand_in(self, *keys, **commands):
        """Let agents work at the same time; each makes a file with the name of its action unless a command is given."""
        attempts = [await self.harness.queue(self.run, key) for key in keys]
        for key, attempt in zip(keys, attempts, strict=True):
            await self.harness.run_attempt(attempt, {key: [commands.get(key, f"echo x > {key}")]})
        return attempts

    async def until_idle(self):
        """Step until nothing can land; return what happened."""
        steps = []
        while not isinstance(step := await self.queue.step(), QueueIdle):
            steps.append(step)
        return steps

    def cancel(self, key):
        """Cancel an action as its user does."""
        store = self.harness.store
        with store.transaction():
            for attempt in self.harness.attempts(self.run, key):
                if attempt.status != "ended":
                    store.attempts.end(attempt.id, outcome="cancelled", head_sha=attempt.head_sha)
            store.actions.move(self.harness.action(self.run, key).id, Cancelled())

    def ended(self, outcome):
        """The actions whose attempts ended so, in that order."""
        return [each.action for each in self.harness.events(self.run, AttemptEnded) if each.outcome == outcome]


@pytest.fixture
async def landing(harness, tmp_path):
    """Begin a run of these actions, whose gate is a script that counts its runs in the queue."""
    made = []

    async def begin(*actions, gate="true", arrivals=asyncio.Event, at_work=0):
        script = f'{IN_WORK} && exit {at_work}\nset -- *\necho $# >> "{tmp_path}/gates"\n{gate}\n'
        (harness.repo / "gate.sh").write_text(script)
        await harness.sh("git add -A; git commit -qm gate")
        settings = {
            "given_gates": (GATE,),
            "slots": 2,
            "agents": len(actions),
            "goal_agents": len(actions),
            **UNSANDBOXED,
        }
        run = await harness.own(goal("g", *actions), **settings)
        await ensure_baseline(harness.context, run)
        (tmp_path / "gates").unlink()
        made.append(Landing(harness, run, tmp_path, arrivals))
        return made[-1]

    yield begin
    for each in made:
        await each.queue.close()


@pytest.mark.slow
async def test_candidates_of_other_files_are_proven_side_by_side_and_land_at_once(harness, landing):
    """AL-13, BX-2, BX-6: the gates run once, the branch moves once, and the facts name its new tip."""
    # Each of them ends only once the other two have begun.
    meet = 'touch "$0/$1"; until test -e "$0/a" && test -e "$0/b"; do sleep 0.02; done'
    place = harness.repo.parent / "meeting"
    place.mkdir()
    checks = {key: f"{IN_WORK} || sh -c '{meet}' '{place}' {key}" for key in "ab"}
    made = await landing(*(act(key, check=checks[key]) for key in "ab"), act("c", check="test -f c"))
    attempts = await made.hand_in("a", "b", "c")
    (landed,) = await made.until_idle()
    assert landed == BatchLanded(await harness.tip(made.run), tuple(each.id for each in attempts))
    assert made.gate_runs == ["6"]
    assert await harness.landed(made.run) == ["a", "b", "c"]
    reflog = await harness.sh(f"git reflog show --format=%H {made.run.session_branch} --")
    assert len(reflog.split()) == 2, "it was created, and moved once"
    facts = harness.store.facts.for_goal(harness.action(made.run, "a").goal_id)
    assert {fact.commit for fact in facts} == {landed.commit}
    for fact, attempt in zip(facts, attempts, strict=True):
        own = harness.store.attempts.get(attempt.id).head_sha
        assert {each.kind: each.commit for each in fact.evidence} == {"contract": own, "gate": landed.commit}
        assert await commits.changed_paths(harness.context.git, f"{own}^", own) == fact.paths


@pytest.mark.slow
async def test_candidates_with_one_doubt_about_a_blind_gate_land_at_once_and_keep_it(harness, landing):
    """BX-4, BX-6: a gate that was red before is as blind in a batch; nobody waits for a run of it alone."""
    made = await landing(*(act(key, check=f"test -f {key}") for key in "ab"), gate="false", at_work=1)
    attempts = await made.hand_in("a", "b")
    (landed,) = await made.until_idle()
    assert landed == BatchLanded(await harness.tip(made.run), tuple(each.id for each in attempts))
    assert made.gate_runs == ["5"]
    facts = harness.store.facts.for_goal(harness.action(made.run, "a").goal_id)
    assert [[doubt.code for doubt in fact.doubts] for fact in facts] == [["gates_blind"], ["gates_blind"]]


@pytest.mark.slow
async def test_candidates_of_one_file_are_proven_side_by_side_and_land_one_after_another(harness, landing):
    """AL-13, BX-6: git alone would conflict; it is forecast as the queue merges, and the first is checked again."""
    meet = 'touch "$0/$1"; until test -e "$0/a" && test -e "$0/b"; do sleep 0.02; done'
    place = harness.repo.parent / "meeting"
    place.mkdir()
    (harness.repo / "shop.py").write_text("def old():\n    return 0\n")
    checks = {key: f"grep {key} shop.py && {{ {IN_WORK} || sh -c '{meet}' '{place}' {key}; }}" for key in "ab"}
    made = await landing(*(act(key, check=checks[key]) for key in "ab"))
    added = {key: f"printf '\\n\\ndef {key}():\\n    return 1\\n' >> shop.py" for key in "ab"}
    one, two = await made.hand_in("a", "b", **added)
    steps = await made.until_idle()
    assert [each.attempts for each in steps] == [(one.id,), (two.id,)]
    assert len(made.gate_runs) == 2
    facts = harness.store.facts.for_goal(harness.action(made.run, "a").goal_id)
    assert len(harness.facts(made.run)) == 2
    assert {fact.commit for fact in facts} == {steps[1].commit}


@pytest.mark.slow
async def test_of_candidates_that_fail_together_the_one_that_fails_is_found(harness, landing):
    """BX-6: by halving; the others land, in their order."""
    made = await landing(*map(act, "abcdefgh"), gate="test ! -e f")
    await made.hand_in(*"abcdefgh")
    steps = await made.until_idle()
    assert [len(step.attempts) for step in steps if isinstance(step, BatchLanded)] == [4, 1, 2]
    assert [step.outcome for step in steps if isinstance(step, CandidateRefused)] == ["gate_failed"]
    assert made.ended("gate_failed") == ["f"]
    assert await harness.landed(made.run) == list("abcdegh")
    # All eight, which fail again when they are repeated; the first four; the next two, which fail as well; each of
    # these; and the last two without the one that fails.
    assert made.gate_runs == ["11", "11", "7", "9", "9", "8", "9", "10"]
    assert await harness.sh(f"git ls-tree --name-only {made.run.session_branch} f") == ""


@pytest.mark.slow
async def test_a_candidate_that_fails_behind_others_is_judged_once_these_have_landed(harness, landing):
    """BX-6: they might have been refused; those behind it do not wait for it."""
    made = await landing(act("a"), act("b", check=f"{IN_WORK} || test ! -e a"), act("c"))
    await made.hand_in("a", "b", "c")
    first, second = await made.until_idle()
    assert len(first.attempts) == 2
    assert isinstance(second, CandidateRefused)
    assert (second.outcome, made.ended("contract_failed")) == ("contract_failed", ["b"])
    assert await harness.landed(made.run) == ["a", "c"]


@pytest.mark.slow
async def test_of_candidates_that_all_conflict_each_but_the_first_is_done_again_once(harness, landing):
    """BX-6: three re-resolutions for four, counted by the attempts that ended so."""
    keys = ("a", "b", "c", "d")
    made = await landing(*map(act, keys))
    await made.hand_in(*keys, **{key: f"sed -i s/two/{key}/ list" for key in keys})
    steps = await made.until_idle()
    assert [type(step) for step in steps] == [BatchLanded, CandidateRefused]
    assert made.ended("conflict") == ["b"]
    places = harness.store.merge_queues.for_run(made.run.id)
    assert [(place.state, place.waits_for) for place in places] == [("held", ("b",)), ("held", ("b",))]
    for key, next_one in zip("bcd", ("c", "d", None), strict=True):
        await made.hand_in(key, **{key: f"sed -i s/$(sed -n 2p list)/{key}/ list"})
        landed, *refused = await made.until_idle()
        assert isinstance(landed, BatchLanded)
        assert [each.outcome for each in refused] == (["conflict"] if next_one else [])
    assert made.ended("conflict") == ["b", "c", "d"]
    assert await harness.landed(made.run) == ["a", "b", "c", "d"]
    assert await harness.show(f"{made.run.session_branch}:list") == "one\nd\nthree"


@pytest.mark.slow
async def test_a_held_candidate_is_done_again_at_once_if_nobody_works_on_the_other(harness, landing):
    """BX-6: it would wait for ever."""
    made = await landing(*map(act, "abc"))
    await made.hand_in(*"abc", **{key: f"sed -i s/two/{key}/ list" for key in "abc"})
    await made.until_idle()
    assert made.ended("conflict") == ["b"]
    made.cancel("b")
    (refused,) = await made.until_idle()
    assert (refused.outcome, made.ended("conflict")) == ("conflict", ["b", "c"])


@pytest.mark.slow
async def test_what_is_handed_in_while_gates_run_is_proven_meanwhile(harness, landing):
    """BX-6: a gate that takes long keeps its place; those behind it are tested on the predicted tree."""
    wakeup = Wakeup()
    place = harness.repo.parent / "tested"
    waits = f'test -e a || exit 0; for i in $(seq 500); do test -e "{place}" && exit 0; sleep 0.02; done; exit 1'
    made = await landing(
        act("a"), act("b"), act("late", check=f'{IN_WORK} || {{ test -f a && touch "{place}"; }}'),
        gate=waits, arrivals=wakeup.next_event,
    )  # fmt: skip
    await made.hand_in("a", "b")
    step = asyncio.create_task(made.queue.step())
    await poll_until(lambda: made.gate_runs)
    await made.hand_in("late")
    wakeup.notify_all()
    landed = await step
    assert len(landed.attempts) == 2
    assert len((await made.queue.step()).attempts) == 1
    assert await harness.landed(made.run) == ["a", "b", "late"]


@pytest.mark.slow
async def test_a_candidate_that_is_cancelled_while_it_is_proven_keeps_no_other_from_landing(harness, landing):
    """BX-2: the rest is proven without it."""
    made = await landing(*map(act, "abc"), gate=f"test ! -e b || touch '{harness.repo.parent}/seen'; sleep 0.3")
    await made.hand_in("a", "b", "c")
    step = asyncio.create_task(made.queue.step())
    await poll_until(lambda: made.gate_runs)
    made.cancel("b")
    steps = [await step, *await made.until_idle()]
    assert [len(step.attempts) for step in steps if isinstance(step, BatchLanded)] == [2]
    assert await harness.landed(made.run) == ["a", "c"]


@pytest.mark.slow
async def test_people_see_the_lanes_and_what_each_candidate_waits_for(harness, landing):
    """BX-6: with the conflicts that are forecast."""
    made = await landing(*map(act, "abcd"), gate="sleep 0.3")
    await made.hand_in(*"abcd", c="sed -i s/two/C/ list", d="sed -i s/two/D/ list")
    step = asyncio.create_task(made.queue.step())
    await poll_until(lambda: made.gate_runs)
    keys = {attempt.id: key for key in "abcd" for attempt in harness.attempts(made.run, key)}
    places = harness.store.merge_queues.for_run(made.run.id)
    shown = [(keys[each.attempt_id], each.state, each.lane, each.waits_for, each.conflicts) for each in places]
    assert shown == [
        ("a", "gates", 1, (), {}),
        ("b", "gates", 2, (), {}),
        ("c", "gates", 3, (), {"d": ("list",)}),
        ("d", "waiting", None, ("c",), {"c": ("list",)}),
    ]
    await step


@pytest.mark.slow
async def test_a_candidate_waits_for_one_that_proves_what_it_builds_on(harness, landing):
    """SC-4, BX-6: beside it, it would be refused."""
    made = await landing(act("a"), act("b", needs=["a_done"]))
    await made.hand_in("a")
    await made.until_idle()
    begun, a = await harness.queue(made.run, "b"), harness.action(made.run, "a")
    with harness.store.transaction():
        harness.store.facts.invalidate(a.goal_id, "a_done", "refuted")
        harness.store.actions.move(a.id, Pending())
    await made.hand_in("a", a="echo y > other")
    await harness.run_attempt(begun, {"b": ["echo x > b"]})
    assert [type(step) for step in await made.until_idle()] == [BatchLanded, BatchLanded]
    assert harness.facts(made.run) == {"a_done", "b_done"}


@pytest.mark.slow
async def test_a_candidate_whose_work_ref_is_gone_takes_no_other_with_it(harness, landing):
    """BX-2, BX-3: the branch does not move without all refs, so the others are proven without it."""
    made = await landing(*map(act, "abc"))
    _, _, last = await made.hand_in("a", "b", "c")
    await harness.sh(f"git update-ref -d refs/scaffold/work/{last.id}")
    steps = await made.until_idle()
    assert [step.outcome for step in steps if isinstance(step, CandidateRefused)] == ["lost"]
    assert await harness.landed(made.run) == ["a", "b"]


@pytest.mark.slow
async def test_what_fails_only_beside_others_is_proven_once_more_alone(harness, landing):
    """AL-13, BX-6: honest work must not be refused because the checks of others used the same port, or the like."""
    # The lock goes with its process, as a port does.
    hold = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    port = harness.repo.parent / "port"
    check = f"{IN_WORK} || {sys.executable} -c \"{hold}; time.sleep(0.5)\" '{port}'"
    made = await landing(*(act(key, check=f"{check} # {key}") for key in "ab"))
    await made.hand_in("a", "b")
    assert [type(step) for step in await made.until_idle()] == [BatchLanded, BatchLanded]
    assert made.ended("contract_failed") == []
