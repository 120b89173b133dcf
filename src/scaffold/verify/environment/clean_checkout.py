"""Whether a checkout is still clean after commands ran in it, and how to clean it again."""

import asyncio
import tempfile
from pathlib import Path

from msgspec import structs

from scaffold.core.proof.gates import CheckEnvironment
from scaffold.git.checkouts import worktree
from scaffold.verify.contract.check_runs import Tree, restore_tracked_files
from scaffold.verify.environment.provisioning import provisions_unchanged, reprovision

NOT_TRACKED = ("?? ", "!! ")


async def is_clean(environment: CheckEnvironment, tree: Tree) -> bool:
    """Return True if the checkout has nothing but the commit's files and what was provisioned, all of it unchanged."""
    targets = (
        *(copied.target for copied in environment.copies),
        *(file.target for file in (*environment.files, *environment.built)),
    )

    def is_provisioned(line: str) -> bool:
        path = line[3:].rstrip("/")
        return line.startswith(NOT_TRACKED) and any(path == each or path.startswith(f"{each}/") for each in targets)

    if not all(map(is_provisioned, (await tree.git(*worktree.STATUS)).records)):
        return False
    return await asyncio.to_thread(provisions_unchanged, environment, tree.git.cwd)


async def clean_again(environment: CheckEnvironment, tree: Tree) -> None:
    """Make the checkout clean again after commands ran in it; does nothing to one that still is."""
    if await is_clean(environment, tree):
        return
    # Often a tracked file is all that changed, and then what was provisioned can stay.
    await restore_tracked_files(tree)
    if not await is_clean(environment, tree):
        async with reprovision(environment, tree.git.cwd):
            await worktree.reset_and_clean(tree.git, tree.commit)


def with_new_temporary_folder(tree: Tree) -> Tree:
    """Return the tree with another temporary folder for its commands, which is empty; without a sandbox the same tree.

    What an earlier run left in the other one, it does not find.
    """
    if tree.sandbox is None:
        return tree
    confinement = tree.sandbox.confinement
    folder = Path(tempfile.mkdtemp(prefix="", dir=confinement.temporary.parent)).resolve()
    sandbox = structs.replace(tree.sandbox, confinement=structs.replace(confinement, temporary=folder))
    return structs.replace(tree, sandbox=sandbox)
