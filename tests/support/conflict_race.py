"""Two attempts that work at once and meet in the same files."""

from scaffold.core.events import CandidateMerged
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from support.harness import act, goal


class ScriptedMerger:
    """A merge agent that gives one answer."""

    def __init__(self, answer):
        self.answer = answer
        self.questions = []

    async def merge(self, question, check):
        self.questions.append(question)
        return self.answer


async def race(harness, files, left, right, *, merger=None, checks=(None, None), **settings):
    """Commit `files`, work on them in two attempts at once, and land both; return the run and the second step.

    `right` may be several turns.
    """
    for path, content in files.items():
        (harness.repo / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    await harness.sh("git add --all; git commit -qm before --allow-empty")
    run = await harness.own(goal("g", act("a", check=checks[0]), act("b", check=checks[1])), **settings)
    queue = MergeQueue(harness.context, run, merger=merger)
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    await harness.run_attempt(first, {"a": [left]})
    await harness.run_attempt(second, {"b": [right] if isinstance(right, str) else right})
    assert isinstance(await queue.step(), BatchLanded)
    step = await queue.step()
    await queue.close()
    return run, step


def told(harness, run):
    """Return what was told of each file, by path."""
    events = [each.event for each in harness.store.events.since(run.id, 0)]
    (merged,) = [each for each in events if isinstance(each, CandidateMerged)]
    assert merged.action == "b"
    return {each.path: each.status for each in merged.files}
