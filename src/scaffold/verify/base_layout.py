"""Find the files of the base that decide checks: files that commands run, load or name, and files named in turn."""

import posixpath
from collections.abc import Collection, Sequence

from scaffold.core.ids import Commit
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.verify.locate_tests import files_with_tests
from scaffold.verify.paths.check_inputs import BaseLayout, launched_commands
from scaffold.verify.paths.loaded_files import (
    MAX_CONFIGURATIONS,
    files_configured_by,
    files_named_by,
    is_configuration,
    reached_commands,
)
from scaffold.verify.proof_request import ProofRequest

MAX_TASK_FILES = 20
"""Most task files (Makefile, package.json, ...) read for the scripts that they run."""


async def base_layout_of(
    request: ProofRequest, git: Git, base: Commit, before: frozenset[str], *, judging: Sequence[str] | None = None
) -> BaseLayout:
    """Return the layout of the base. Commands in its task files and check scripts count, too.

    `judging` are the commands that count, run at the top; None for all commands of the contract and the gates.
    """
    if judging is None:
        reached = [("", check.command) for check in (request.contract.commands if request.contract else ())]
        reached += [(run.gate.folder, run.gate.command) for run in request.baseline_runs]
    else:
        reached = [("", command) for command in judging]
    commands = [command for _, command in reached]
    tests = files_with_tests(request.baseline_runs, before)
    base_layout = BaseLayout(before, commands, tests=tests)
    read: set[str] = set()
    # A script may run another one, which is also a check input; each round goes one step further.
    while more := sorted(filter(base_layout.is_executed, before - read))[: MAX_TASK_FILES - len(read)]:
        for path in more:
            # Read at the base: the candidate could remove the line that names the next script.
            text = (await commits.file_contents(git, base, path) or b"").decode(errors="replace")
            words = base_layout.command_words
            commands += launched_commands(path, text)
            reached += [(posixpath.dirname(path), each) for each in reached_commands(path, text, words)]
        read |= set(more)
        base_layout = BaseLayout(before, commands, tests=tests)
    named = [files_named_by(folder, command, before) for folder, command in reached]
    loaded = await _with_configured(git, base, before, {path for each in named for path in each.loaded})
    tests = tests.union(*(each.tests for each in named))
    return BaseLayout(before, commands, tests=tests, loaded=loaded)


async def _with_configured(git: Git, base: Commit, before: Collection[str], loaded: Collection[str]) -> frozenset[str]:
    found, read = set(loaded), set[str]()
    pending = sorted(found.union(filter(is_configuration, before)))
    while pending and len(read) < MAX_CONFIGURATIONS:
        read.update(pending)
        contents = await commits.batch_contents(git, [f"{base}:{path}" for path in pending[:MAX_CONFIGURATIONS]])
        texts = [(data or b"").decode(errors="replace") for data in contents]
        for path, text in zip(pending, texts, strict=False):
            found |= files_configured_by(path, text, before)
        pending = sorted(found - read)
    return frozenset(found)
