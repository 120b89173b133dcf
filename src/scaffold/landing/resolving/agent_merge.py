"""Let a merge agent resolve what no program can; its answer counts only if it is certified and can be tested."""

import asyncio
import re
from collections.abc import Mapping, Sequence

from scaffold.core.landing.conflict import (
    ConflictExplanation,
    FileMerge,
    FileStatus,
    FileVersions,
    MergeQuestion,
    NotMerged,
)
from scaffold.core.model import Action, Run
from scaffold.core.plan import full_text
from scaffold.core.ports import Merger
from scaffold.landing.conflicts.certificate import changed_scopes, require_complete
from scaffold.landing.conflicts.merge_ladder import HelpersAnswer
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_entities import require_python
from scaffold.landing.conflicts.resolution import ReadFile, resolved
from scaffold.run.attempts.contracts import contract_in_force
from scaffold.run.context import RunContext

MAX_CHARS = 48_000
"""Limit for the files that an agent is asked about, in total, because it writes them out again."""
_MARKERS = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)


async def ask_merger(
    merger: Merger, context: RunContext, run: Run, action: Action, left: Sequence[ReadFile]
) -> HelpersAnswer:
    """Return the agent's certified merge of all files, or why each is refused."""
    files = tuple(each.versions for each in left)
    if why := _why_not_asked(context, run, action, files):
        return _refuse_all(files, f"no merge agent was asked, because {why}")
    question = MergeQuestion(action=action.key, task=full_text(action), files=files)
    answer = await merger.merge(question, lambda texts: problem_with(files, texts))
    if isinstance(answer, ConflictExplanation):
        return _refuse_all(files, f"the merge agent left it: {answer.why}", "explained")
    if isinstance(answer, NotMerged):
        return _refuse_all(files, f"no merge agent merged it: {answer.why}")
    # The agent may have skipped the check, so only what is certified here counts.
    if problem := await asyncio.to_thread(problem_with, files, answer.texts):
        return _refuse_all(files, f"the merge agent's answer does not count: {problem}")
    return HelpersAnswer(
        {each.path: each.written(answer.texts[each.path]) for each in left},
        tuple(resolved(each.path, "agent") for each in left),
    )


def problem_with(files: Sequence[FileVersions], texts: Mapping[str, str]) -> str:
    """Return why the texts are not a valid merge of the files; empty if they are."""
    for file in files:
        text = texts.get(file.path)
        if text is None:
            return f"{file.path} is missing"
        if _MARKERS.search(text):
            return f"{file.path}: it has conflict markers"
        try:
            if file.path.endswith((".py", ".pyi")):
                require_python(text)
            require_complete(file, text, by_words=not changes_are_apart(file))
        except NotMergeable as refused:
            return f"{file.path}: {refused}"
    return ""


def changes_are_apart(file: FileVersions) -> bool:
    """Return whether the sides change different functions or classes, and nothing outside of them."""
    ours, theirs = changed_scopes(file, file.ours), changed_scopes(file, file.theirs)
    return None not in {*ours, *theirs} and not ours & theirs


def _why_not_asked(context: RunContext, run: Run, action: Action, files: Sequence[FileVersions]) -> str:
    if sum(len(each.ours) + len(each.theirs) for each in files) > MAX_CHARS:
        return "the files are too large for it"
    # The certificate alone is enough if the changes do not touch each other; otherwise tests have to show the result.
    if all(map(changes_are_apart, files)):
        return ""
    contract = contract_in_force(context.store, action.id)
    if contract is None or not any(check.required for check in contract.commands):
        return "no check of the action could show that its work still holds"
    baseline = context.store.baselines.for_run(run.id)
    if baseline is None or not any(each.gate.kind == "test" for each in baseline.runs):
        return "the repository has no tests that could show that both sides still hold"
    return ""


def _refuse_all(files: Sequence[FileVersions], why: str, status: FileStatus = "refused") -> HelpersAnswer:
    return HelpersAnswer({}, tuple(FileMerge(each.path, status, why) for each in files))
