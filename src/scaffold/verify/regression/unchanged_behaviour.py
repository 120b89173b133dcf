"""Answer the doubts about a change that means nothing to the program: nothing can show that such work is right."""

import asyncio
import re
from collections.abc import Sequence

from msgspec import structs

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited
from scaffold.core.proof.contract import DoubtCode, Verification
from scaffold.core.proof.gates import GateResult
from scaffold.git.client.command_line import Git
from scaffold.git.commits import PathChange, batch_contents, path_changes
from scaffold.git.trees.links import linked_files
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.regression.meaning import Sameness, is_document, is_read_in, sameness, used_text
from scaffold.verify.regression.selection.mentions import files_holding

ANSWERED: frozenset[DoubtCode] = frozenset({"no_contract", "passes_without_work", "not_executed", "gates_blind"})
"""Doubts about whether checks could see the change; there is nothing to see."""
MOST_READERS = 500
"""The most files in which a reader is looked for."""
MAX_FILE_BYTES = 1_000_000
_METADATA = re.compile(
    r"docs?/.*|(?:.*/)?(?:setup\.(?:py|cfg)|MANIFEST\.in|tox\.ini|pyproject\.toml|Cargo\.toml|package(?:-lock)?\.json|\..*)"
)
"""Files that name documents for people: on the page of a package, in a template of a pull request."""


async def with_unchanged_behaviour(
    found: Verification, git: Git, base: Commit, gates: Sequence[GateResult]
) -> Verification:
    """Return the verification with its doubts answered if the work changes no behaviour; `gates` are those that ran."""
    judged = found.passed and any(doubt.code in ANSWERED for doubt in found.doubts)
    kinds = await unchanged_kinds(git, base, found.commit) if judged else ()
    answer = f"no executed line changed meaning: {join_limited(kinds, len(kinds))}" if kinds else ""
    # Without a contract, only a gate can have passed before and after.
    ran = any(gate.counts_for_work and (gate.verdict == "pass" or gate.counts.get("pass")) for gate in gates)
    doubts = tuple(
        structs.replace(doubt, answer=answer if doubt.code in ANSWERED and (ran or doubt.code != "no_contract") else "")
        for doubt in found.doubts
    )
    return structs.replace(found, doubts=doubts)


async def unchanged_kinds(git: Git, base: Commit, commit: Commit) -> tuple[str, ...]:
    """Return what a change consists of, sorted, if none of it means anything to the program; else empty."""
    changes = await path_changes(git, base, commit)
    modes = [{each.former_mode, each.mode} - {"000000"} for each in changes]
    if any(each not in ({"100644"}, {"100755"}) for each in modes):
        return ()
    # Most work adds code: then nothing needs to be read.
    if any(each.kind in "TAD" and not is_document(each.path) for each in changes):
        return ()
    linked = await linked_files(git, commit)
    # A document may run, or be loaded, under another name.
    elsewhere = {linked[path] for path in linked if not is_document(path)}
    if any(each.kind == "T" or each.path in elsewhere for each in changes):
        return ()
    names = [name for change in changes for name in (change.former_id, change.object_id) if name.strip("0")]
    contents = dict(zip(names, await batch_contents(git, names), strict=True))
    if any(data is None or len(data) > MAX_FILE_BYTES for data in contents.values()):
        return ()
    found = await asyncio.to_thread(
        lambda: [sameness(each.path, contents.get(each.former_id), contents.get(each.object_id)) for each in changes]
    )
    same = [each for each in found if each is not None]
    if len(same) < len(changes) or await _has_reader(git, commit, changes, same):
        return ()
    return tuple(sorted({each.kind for each in same}))


async def _has_reader(git: Git, commit: Commit, changes: Sequence[PathChange], same: Sequence[Sameness]) -> bool:
    """Return whether the program at the commit may read what changed."""
    documents = {each.path.rpartition("/")[2] for each in changes if is_document(each.path)}
    wanted = sorted(documents | {f".{name.rpartition('.')[2]}" for name in documents if "." in name})
    # `*.md` and `name + ".md"` may be any document, `guide.md` is that one.
    named = re.compile("|".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in wanted))
    found = await files_holding(git, wanted, commit=commit) if wanted else ()
    programs = [path for path in found if not (is_document(path) or is_test(path) or _METADATA.fullmatch(path))]
    texts = zip(programs, await batch_contents(git, [f"{commit}:{path}" for path in programs]), strict=True)
    if await asyncio.to_thread(lambda: any(named.search(used_text(path, data or b"")) for path, data in texts)):
        return True
    names, imported, readers = (
        frozenset[str]().union(*(getattr(each, kind) for each in same)) for kind in ("names", "imported", "readers")
    )
    read = sorted(names | imported | readers)
    found = await files_holding(git, read, "-w", within=":/*.py", commit=commit) if read else ()
    modules = [path for path in found if not is_test(path)]
    if len(modules) > MOST_READERS:
        return True
    sources = zip(modules, await batch_contents(git, [f"{commit}:{path}" for path in modules]), strict=True)
    whole, changed = Sameness("", names, imported, readers), {each.path for each in changes}
    return await asyncio.to_thread(
        lambda: any(is_read_in(source or b"", whole, changed=path in changed) for path, source in sources)
    )
