"""Conflicts that take time to resolve, by a merge agent or by the tool of a lock file, while others land."""

import asyncio
import json
import shutil

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import StaleFence
from scaffold.core.landing.conflict import MergedCode
from scaffold.landing.integration import IntegrationConflict
from scaffold.landing.proving.checkout import Checkouts
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.order import QueueOrder
from scaffold.landing.queue.step_result import BatchLanded, CandidateRefused, QueueIdle
from scaffold.landing.resolving.background_merges import BackgroundMerges
from support.conflict_race import ScriptedMerger, race, told
from support.harness import UNSANDBOXED, act, goal, poll_until

LOCK = 'version = 1\n\n[[package]]\nname = "m"\nversion = "1"\n\n'
ENTRY = '[[package]]\\nname = "{0}"\\nversion = "1"\\n\\n'


def add(name):
    """Return a command that adds a package to the lock file, where both sides do."""
    return f"printf '{ENTRY.format(name)}' >> uv.lock"


@pytest.fixture
def lock_tool(tmp_path, monkeypatch):
    """Install a program `uv` that runs a shell script; without one there is none."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("git", "python3", "sh"):
        (folder / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def install(script):
        (folder / "uv").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "uv").chmod(0o755)

    return install


@pytest.mark.slow
async def test_candidates_in_conflict_in_a_lock_file_alone_both_land(lock_tool, harness):
    """AL-13: its own tool makes it from the packages of both sides, all tests run, and it is told which command did."""
    lock_tool('test "$*" = "lock --offline" && sed -i "s/^version = 1$/version = 2/" uv.lock')
    files = {"uv.lock": LOCK}
    run, step = await race(harness, files, add("a"), add("z"), **UNSANDBOXED)
    assert isinstance(step, BatchLanded), step
    landed = await harness.show(f"{run.session_branch}:uv.lock")
    names = [line for line in landed.splitlines() if line.startswith("name")]
    assert names == ['name = "a"', 'name = "m"', 'name = "z"']
    assert landed.startswith("version = 2\n")
    assert told(harness, run) == {"uv.lock": "resolved"}
    facts = harness.store.facts.for_goal(harness.action(run, "b").goal_id)
    merges = [each.detail for fact in facts for each in fact.evidence if each.kind == "merge"]
    assert any("`uv lock --offline`" in each for each in merges)


FAILURES = {
    "not installed": (None, "only uv can regenerate uv.lock, and it is not installed"),
    "a failure": ("echo 'error: no index' >&2; exit 2", "`uv lock --offline` could not regenerate uv.lock: error: no"),
    "another file": ("echo >> list; touch new", "`uv lock --offline` also changed list, new"),
    "another version": ('sed -i \'s/^version = "1"/version = "2"/\' uv.lock', "does not count: it would have a 2"),
    "a link": ("ln -sf /etc/passwd uv.lock", "cannot be read: the file cannot be opened"),
    "no file": ("rm uv.lock", "cannot be read: the file is missing"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("script", "why"), FAILURES.values(), ids=FAILURES)
async def test_what_a_tool_does_not_make_as_it_must_is_left_to_a_new_attempt(lock_tool, harness, script, why):
    """AL-13: with the tool's message; neither its commits nor an agent merge such a file."""
    if script is not None:
        lock_tool(script)
    merger = ScriptedMerger(MergedCode({"uv.lock": LOCK}))
    work = (add("b"), add("c"))
    run, step = await race(harness, {"uv.lock": LOCK}, add("a"), work, merger=merger, **UNSANDBOXED)
    assert isinstance(step, CandidateRefused)
    assert step.outcome == "conflict"
    assert why in step.why
    assert told(harness, run) == {"uv.lock": "refused"}
    assert merger.questions == []
    assert harness.statuses(run) == {"a": "completed", "b": "pending"}


HOSTILE = {
    "another form": ("uv.lock", LOCK, add("a"), "echo 'package = [\"x\"]' > uv.lock", "a package is not a table"),
    "no text": (
        "package-lock.json",
        '{"packages": {"": {"name": "x"}}}\n',
        """echo '{"packages": {"": {"name": "y"}}}' > package-lock.json""",
        """printf '%s\\n' '{"packages": {"": {"name": "x", "license": "\\ud800"}}}' > package-lock.json""",
        "UTF-8 cannot write",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "before", "left", "right", "why"), HOSTILE.values(), ids=HOSTILE)
async def test_a_file_that_an_agent_wrote_by_hand_costs_its_candidate_and_not_the_run(
    lock_tool, harness, path, before, left, right, why
):
    """AL-13: whatever it has instead of a lock file."""
    lock_tool("true")
    run, step = await race(harness, {path: before}, left, right, **UNSANDBOXED)
    assert isinstance(step, CandidateRefused)
    assert (step.outcome, harness.statuses(run)) == ("conflict", {"a": "completed", "b": "pending"})
    assert why in step.why


NPM_ADD = """\
import json
for path in ("package.json", "package-lock.json"):
    text = json.load(open(path))
    entry = text["packages"][""] if "packages" in text else text
    entry["dependencies"] = dict(sorted({**entry["dependencies"], "NAME": "^1.0.0"}.items()))
    if "packages" in text:
        text["packages"]["node_modules/NAME"] = {"version": "1.2.0", "integrity": "sha512-NAME"}
        text["packages"] = dict(sorted(text["packages"].items()))
    open(path, "w").write(json.dumps(text, indent=2) + "\\n")
"""
SHOP = {"name": "shop", "version": "1.0.0", "dependencies": {"m": "^1.0.0"}}
NPM_LOCK = {
    "name": "shop",
    "version": "1.0.0",
    "lockfileVersion": 3,
    "requires": True,
    "packages": {"": SHOP, "node_modules/m": {"version": "1.0.0", "integrity": "sha512-m"}},
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
async def test_npm_makes_its_lock_file_in_the_sandbox_without_a_network(harness):
    """AL-13: the manifest is merged by its entries, and npm takes the packages of both sides as they are."""
    files = {"package.json": json.dumps(SHOP, indent=2), "package-lock.json": json.dumps(NPM_LOCK, indent=2)}
    files |= {f"{name}.py": NPM_ADD.replace("NAME", name) for name in "ab"}
    run, step = await race(harness, files, "python3 a.py", "python3 b.py")
    assert isinstance(step, BatchLanded), step
    assert told(harness, run) == {"package.json": "resolved", "package-lock.json": "resolved"}
    landed = json.loads(await harness.show(f"{run.session_branch}:package-lock.json"))
    assert {name: each.get("integrity") for name, each in landed["packages"].items()} == {
        "": None,
        **{f"node_modules/{name}": f"sha512-{name}" for name in "abm"},
    }
    assert landed["packages"][""]["dependencies"] == dict.fromkeys("abm", "^1.0.0")


APART = "# \f\ndef buy():\n    return 1\ndef sell():\n    return 2\n"
"""Two functions on adjacent lines, and a character that keeps this file from being taken apart."""
BUY, SELL = "sed -i 's/return 1/return 1 + 2/' shop.py", "sed -i 's/sell()/sell(n=0)/' shop.py"
ANSWER = MergedCode({"shop.py": APART.replace("return 1", "return 1 + 2").replace("sell()", "sell(n=0)")})


class FailingMerger:
    """A merge agent that fails."""

    def __init__(self, error):
        self.error = error

    async def merge(self, question, check):
        raise self.error


@pytest.mark.slow
async def test_a_merge_agent_that_fails_over_the_files_costs_their_candidate_and_not_the_run(harness):
    """AL-13: the candidate is left to the next step, with the reason."""
    _, step = await race(harness, {"shop.py": APART}, BUY, SELL, merger=FailingMerger(KeyError("shop")))
    assert isinstance(step, CandidateRefused)
    assert "KeyError: 'shop'" in step.why


class SlowMerger(ScriptedMerger):
    """A merge agent that answers once it may."""

    def __init__(self, answer):
        super().__init__(answer)
        self.may_answer = asyncio.Event()
        self.cancelled = 0

    async def merge(self, question, check):
        self.questions.append(question)
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.answer


@pytest.fixture
async def asked(harness):
    """A queue whose merge agent is asked about the work of `b`, while that of `c` waits, too."""
    (harness.repo / "shop.py").write_text(APART)
    await harness.sh("git add --all; git commit -qm before")
    run = await harness.own(goal("g", *(act(key) for key in "abcdefg")), agents=3)
    merger = SlowMerger(ANSWER)
    queue = MergeQueue(harness.context, run, merger=merger)
    for key in "ab":
        await harness.queue(run, key)
    attempts = {key: harness.attempts(run, key)[-1] for key in "ab"}
    await harness.run_attempt(attempts["a"], {"a": [BUY]})
    await harness.run_attempt(attempts["b"], {"b": [SELL]})
    assert isinstance(await queue.step(), BatchLanded)
    attempts["c"] = await harness.queue(run, "c")
    await harness.run_attempt(attempts["c"], {"c": ["echo other > other"]})
    yield run, queue, merger, attempts
    await queue.close()


@pytest.mark.slow
async def test_others_land_while_a_merge_agent_is_asked_and_its_answer_counts_on_the_tip_alone(harness, asked):
    """AL-13, BX-6: the queue tells what a candidate waits for; what is merged for an older tip is merged again."""
    run, queue, merger, attempts = asked
    assert await queue.step() == BatchLanded(await harness.tip(run), (attempts["c"].id,))
    step = asyncio.create_task(queue.step())
    await poll_until(lambda: merger.questions and len(harness.store.merge_queues.for_run(run.id)) == 1)
    (place,) = harness.store.merge_queues.for_run(run.id)
    merger.may_answer.set()
    assert await step == BatchLanded(await harness.tip(run), (attempts["b"].id,))
    assert (place.attempt_id, place.state) == (attempts["b"].id, "merging")
    assert place.detail == snapshot("a merge agent merges shop.py")
    # That about the older tip was the same, and its answer is known to a merge agent.
    assert merger.questions[0] == merger.questions[1]
    assert await harness.show(f"{run.session_branch}:shop.py") + "\n" == ANSWER.texts["shop.py"]
    assert await harness.show(f"{run.session_branch}:other") == "other"


@pytest.mark.slow
async def test_a_queue_that_ends_cancels_what_is_asked_and_the_next_one_asks_again(harness, asked):
    """AL-13: nothing but the answer is lost."""
    run, queue, merger, attempts = asked
    assert isinstance(await queue.step(), BatchLanded)
    await poll_until(lambda: merger.questions)
    await queue.close()
    assert merger.cancelled == 1
    assert harness.attempt(attempts["b"].id).phase == "candidate"
    merger.may_answer.set()
    later = MergeQueue(harness.context, run, merger=merger)
    assert await later.step() == BatchLanded(await harness.tip(run), (attempts["b"].id,))
    await later.close()


@pytest.mark.slow
async def test_nobody_is_asked_any_more_about_a_candidate_that_was_cancelled(harness, asked):
    """AL-13: and the queue goes on."""
    _, queue, merger, attempts = asked
    assert isinstance(await queue.step(), BatchLanded)
    await poll_until(lambda: merger.questions)
    with harness.store.transaction():
        harness.store.attempts.end(attempts["b"].id, outcome="cancelled", fence=attempts["b"].fence)
    assert await queue.step() == QueueIdle()
    assert merger.cancelled == 1


@pytest.mark.slow
async def test_a_candidate_that_is_merged_with_help_is_not_overtaken_for_ever(harness, asked):
    """BX-6: each landing makes the answer useless, so that no other joins the line once it was overtaken too often."""
    run, _, _, attempts = asked
    order, tip = QueueOrder(harness.context, run), await harness.tip(run)
    waiting = harness.store.attempts.waiting_to_land(run.id)
    aside = {"merging": [attempts["b"].id]}
    for landed in range(5):
        chosen = await order.next_to_prove(waiting, [], tip, **aside)
        assert [attempt.id for _, attempt in chosen] == ([attempts["c"].id] if landed < 4 else [])
        order.count_overtaken([attempts["c"].id])
    chosen = await order.next_to_prove(waiting, [], tip)
    assert chosen[0][1].id == attempts["b"].id


@pytest.mark.slow
async def test_an_error_of_a_merge_with_help_is_raised_whatever_the_tip_is_now(harness, asked):
    """AL-13, SC-16: an owner whose lease is gone must stop."""
    run, _, _, attempts = asked
    merger = FailingMerger(StaleFence("the run has another owner", "stop"))
    merges = BackgroundMerges(harness.context, run, Checkouts(harness.context, run, ["x"]), merger)
    action, attempt = harness.action(run, "b"), harness.attempt(attempts["b"].id)
    tip, older = await harness.tip(run), run.base_sha
    conflict = await merges.merge(action, attempt, tip)
    assert isinstance(conflict, IntegrationConflict)
    assert merges.begin(action, attempt, tip, conflict, first=True)
    await asyncio.wait(merges.tasks)
    with pytest.raises(StaleFence):
        await merges.merge(action, attempt, older)
    await merges.close()


@pytest.mark.slow
async def test_a_merge_with_help_that_is_proven_behind_another_does_not_break_its_facts(lock_tool, harness, tmp_path):
    """AL-13, BX-6: the facts of others are checked on the tree that lands, once what is ahead has landed."""
    places = {name: tmp_path / name for name in ("asked", "go", "proving")}
    until = "for i in $(seq 400); do test -e '{0}' && break; sleep 0.02; done"
    lock_tool(f"test -e {places['asked']} && exit 0; touch {places['asked']}; {until.format(places['go'])}")
    (harness.repo / "uv.lock").write_text(LOCK)
    (harness.repo / "list").write_text("".join(f"{number}\n" for number in range(20)))
    await harness.sh("git add --all; git commit -qm before")
    in_work = 'test -n "$SCAFFOLD_ATTEMPT"'
    checks = {
        "b": f"{in_work} || touch {places['proving']}",
        # Its proof lets the tool of `b` end, and ends once `b` is proven behind it.
        "c": f"! grep -q B list && {{ {in_work} || {{ touch {places['go']}; {until.format(places['proving'])}; }}; }}",
    }
    actions = (act("a"), act("b", check=checks["b"]), act("c", check=checks["c"]))
    run = await harness.own(goal("g", *actions), agents=3, **UNSANDBOXED)
    arrived = asyncio.Event()
    queue = MergeQueue(harness.context, run, lambda: arrived)
    attempts = {key: await harness.queue(run, key) for key in "abc"}
    await harness.run_attempt(attempts["a"], {"a": [add("a")]})
    await harness.run_attempt(attempts["b"], {"b": [f"{add('z')}; sed -i 's/^1$/B/' list"]})
    assert isinstance(await queue.step(), BatchLanded)
    step = asyncio.create_task(queue.step())
    await poll_until(places["asked"].exists)
    await harness.run_attempt(attempts["c"], {"c": ["sed -i 's/^19$/C/' list"]})
    arrived.set()
    assert (await step).attempts == (attempts["c"].id,)
    assert places["proving"].exists(), "it was proven behind the other one"
    refused = await queue.step()
    await queue.close()
    assert isinstance(refused, CandidateRefused)
    assert "c_done" in refused.why
    assert harness.facts(run) == {"a_done", "c_done"}


@pytest.mark.slow
async def test_what_was_overtaken_too_often_lands_before_what_arrives_while_it_is_merged_again(harness, asked):
    """BX-6: its answer was for an older tip, and none joins the line while helpers are asked about the new one."""
    run, queue, merger, attempts = asked
    assert (await queue.step()).attempts == (attempts["c"].id,)
    for key in "def":
        attempts[key] = await harness.queue(run, key)
        await harness.run_attempt(attempts[key], {key: [f"echo x > {key}"]})
        assert (await queue.step()).attempts == (attempts[key].id,)
    attempts["g"] = await harness.queue(run, "g")
    await harness.run_attempt(attempts["g"], {"g": ["echo x > g"]})
    merger.may_answer.set()
    assert (await queue.step()).attempts == (attempts["b"].id, attempts["g"].id)
