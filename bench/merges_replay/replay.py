"""Merge the parents of one merge commit again, as the queue merges a candidate into a tip."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from merges_replay.comparison import lost_lines, meaning_of, out_of_order, parts_of
from scaffold.core.ids import Commit
from scaffold.core.run_settings import Signature
from scaffold.git.client.command_line import Git
from scaffold.git.commits import batch_contents
from scaffold.git.trees.merge import Conflicted, merge_commits
from scaffold.git.trees.tree_file import private_index
from scaffold.landing.conflicts.merge_ladder import Integration, TreeMerged, merge_candidate
from scaffold.landing.conflicts.resolution import resolve_files

NOBODY = Signature("Nobody", "nobody@example.org")


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of one file of a merge commit that was in conflict."""

    repository: str
    merge: Commit
    path: str
    status: str
    """`resolved` or `refused`."""
    detail: str
    equal: bool = False
    """Whether the result means the same as the human's."""
    same_parts: bool = False
    """Whether it has the same statements, entries or lines as the human's, in whatever order."""
    lost: tuple[str, ...] = ()
    """The lines that the result lost."""
    out_of_order: tuple[str, ...] = ()
    """A line of each side that the result has in another place than the side, if there is one."""
    human_lost: tuple[str, ...] = ()
    """The lines that the human's version lost by the same count: then it is more than a merge."""


class Replayed(Struct, frozen=True, kw_only=True):
    """What became of one merge commit."""

    conflicted: bool
    landed: bool = True
    files: tuple[Verdict, ...] = ()


async def replay(git: Git, name: str, merge: Commit, folder: Path, *, unions: frozenset[str]) -> Replayed:
    """Merge the parents of `merge` and compare each file that was in conflict."""
    parents = (await git("rev-list", "--parents", "--max-count=1", merge)).line.split()[1:]
    tip, head = map(Commit, parents)
    if not (await git("merge-base", tip, head, ok=frozenset({0, 1}))).line:
        return Replayed(conflicted=False)
    plain = await merge_commits(git, tip, head)
    if not isinstance(plain, Conflicted):
        return Replayed(conflicted=False)
    integration = Integration(git=git, folder=folder, identity=NOBODY, is_union=lambda path: _name(path) in unions)
    found = await merge_candidate(integration, tip=tip, head=head)
    results = await _results(integration, plain, found.tree if isinstance(found, TreeMerged) else None, tip)
    verdicts = []
    staged = {each.path: each for each in plain.files}
    for told in found.told:
        if told.status == "merged":
            continue
        verdict = Verdict(repository=name, merge=merge, path=told.path, status=told.status, detail=told.detail)
        if told.path in results:
            stages = [staged[told.path].stages.get(stage) for stage in ("base", "ours", "theirs")]
            ids = [stage.object_id if stage else "0" * 40 for stage in stages]
            texts = [_decoded(data) for data in await batch_contents(git, [*ids, f"{merge}:{told.path}"])]
            verdict = _compared(verdict, texts, results[told.path])
        verdicts.append(verdict)
    return Replayed(conflicted=True, landed=isinstance(found, TreeMerged), files=tuple(verdicts))


def _compared(verdict: Verdict, texts: list[str], result: str) -> Verdict:
    *versions, human = texts
    try:
        human_lost = tuple(lost_lines(verdict.path, *versions, human))
    except (SyntaxError, ValueError) as error:
        human_lost = (str(error),)
    return structs.replace(
        verdict,
        equal=meaning_of(verdict.path, human) == meaning_of(verdict.path, result),
        same_parts=parts_of(verdict.path, human) == parts_of(verdict.path, result),
        lost=tuple(lost_lines(verdict.path, *versions, result)),
        out_of_order=tuple(out_of_order(verdict.path, *versions, result)),
        human_lost=human_lost,
    )


async def _results(integration: Integration, plain: Conflicted, tree: str | None, tip: Commit) -> Mapping[str, str]:
    """Return the text of each file that was resolved, of those in merges that did not land, too."""
    if tree is not None:
        contents = await batch_contents(integration.git, [f"{tree}:{path}" for path in plain.paths])
        return {path: _decoded(data) for path, data in zip(plain.paths, contents, strict=True)}
    async with private_index(integration.git, integration.folder) as index:
        found = await resolve_files(integration.git, index, plain, tip=tip, is_union=integration.is_union)
    return {path: _decoded(file.data) for path, file in found.files.items()}


def _decoded(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


def _name(path: str) -> str:
    return path.rpartition("/")[2]
