"""Detect work that weakens the gates which the repository's own files ask for, if only in later runs.

Detection runs on the files of the base and of the work, and the detected gates are compared, not the files.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Doubt
from scaffold.core.proof.gates import Gate
from scaffold.git.commits import PathChange
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.gates.detection import apply_gate_settings, detect_gates
from scaffold.verify.gates.fitted_gates import TEST_FLAGS, TEST_PROGRAMS, TEST_VALUES, TOOLS, is_named
from scaffold.verify.gates.projects.project_files import ProjectFiles, decides_gates, files_at_commit
from scaffold.verify.gates.runner_detection import PYTHON_PROGRAM
from scaffold.verify.paths.check_inputs import is_config_file
from scaffold.verify.paths.conventions import is_test_file
from scaffold.verify.paths.declared_paths import is_declared_specifically
from scaffold.verify.proof_request import ProofRequest

MAX_NAMED = 3
WIDENING = frozenset({*TEST_FLAGS, "--strict"})
"""Options with which a tool finds as much as without, or more."""
NARROWING = frozenset(
    {*("-m", "-k", "--ignore", "--ignore-glob", "--deselect"), *("--exclude", "--extend-exclude", "--extend-ignore")}
)
"""Options without which a tool finds as much as with them, or more."""


class WeakenedGates(Struct, frozen=True):
    """How the work weakens gates: by files that its action did not declare, and by declared ones alone."""

    undeclared: tuple[tuple[str, str], ...] = ()
    """(path, problem): together they read as one sentence."""
    declared: tuple[str, ...] = ()

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """The doubt about declared changes; empty if nothing is weaker."""
        text = f"in later runs {join_limited(self.declared, MAX_NAMED)}"
        return (Doubt("gates_weakened", utf8_safe(text)),) if self.declared else ()


async def weakened_gates(request: ProofRequest, tree: Tree, changes: Sequence[PathChange]) -> WeakenedGates:
    """Return how the work's gates are weaker than the base's; empty if no gates are wanted."""
    read = [each.path for each in changes if decides_gates(each.path) or is_config_file(each.path)]
    if request.baseline is None or not read:
        return WeakenedGates()
    base, work = await files_at_commit(tree.git, tree.base), await files_at_commit(tree.git, tree.commit)

    def found(*as_before: str) -> Mapping[str, str]:
        files = work.with_versions_of(base, as_before)
        return dict(_find_weaker(_detected_gates(request, base), _detected_gates(request, files), base, files))

    everything = found()
    free = [path for path in read if not is_declared_specifically(path, request.files)]
    declared = found(*free) if everything and free else everything
    undeclared = list[tuple[str, str]]()
    for name in everything.keys() - declared.keys():
        guilty = [path for path in free if name not in found(path)] or free
        undeclared += [(path, f"weakens a gate in later runs: {everything[name]}") for path in guilty]
    return WeakenedGates(tuple(sorted(undeclared)), tuple(everything[name] for name in everything if name in declared))


def _detected_gates(request: ProofRequest, files: ProjectFiles) -> Mapping[str, Gate]:
    off = {*request.gates_off, *(gate.kind for gate in request.gates_given)}
    found = apply_gate_settings(detect_gates(files), (), tuple(off))
    return {gate.name: gate for gate in found.gates}


def _find_weaker(
    before: Mapping[str, Gate], after: Mapping[str, Gate], former: ProjectFiles, files: ProjectFiles
) -> Iterator[tuple[str, str]]:
    """Yield the name of each gate that is weaker after the work, and how; `files` are the files after it."""
    for name, gate in before.items():
        now = after.get(name)
        if gate.advisory or (gate.folder and not files.at(gate.folder).paths):
            continue
        if now is None:
            yield name, f"{name} would be gone"
        elif now.advisory:
            yield name, f"{name} would only warn"
        elif not is_as_strict(gate, now, former, files):
            yield name, f"{name} would be `{now.command}` instead of `{gate.command}`"


def is_as_strict(before: Gate, after: Gate, former: ProjectFiles, files: ProjectFiles) -> bool:
    """Return True if it is certain that the second command finds in the `files` all that the first one would find.

    Words of the first one may name paths of the `former` files that are gone.
    """
    if before.command == after.command:
        return True
    old, new = _command_words(before.command), _command_words(after.command)
    known = {*TOOLS, *TEST_PROGRAMS}
    if old[0] not in known or new[0] not in known:
        return False
    if (old[0], new[0]) == ("unittest", "pytest"):
        # pytest runs these tests, too.
        return _count_options(new, files) == Counter({("-q", ""): 1}) and not _command_paths(new, files)
    was, now = _count_options(old, former), _count_options(new, files)
    # Without a module or test that was named, a tool finds more.
    left_out = [name for name, _ in was - now if name.startswith("-") or name == "discover"]
    wider = all(name in WIDENING for name, _ in now - was) and all(name in NARROWING for name in left_out)
    return (
        old[0] == new[0]
        and wider
        and _covered_files(before, _command_paths(old, former), files)
        <= _covered_files(before, _command_paths(new, files), files)
    )


def _command_words(command: str) -> list[str]:
    words = shlex.split(command)
    return words[2:] if words[1:2] == ["-m"] and PYTHON_PROGRAM.fullmatch(words[0]) else words


def _count_options(words: Sequence[str], files: ProjectFiles) -> Counter[tuple[str, str]]:
    """Count the options with their values; words that are not paths count, too."""
    found, rest = Counter[tuple[str, str]](), list(words[1:])
    while rest:
        word = rest.pop(0)
        name, _, value = word.partition("=")
        if word in TEST_VALUES and words[0] in TEST_PROGRAMS and rest:
            value = rest.pop(0)
        if word.startswith("-") or not is_named(word, files):
            found[name, value] += 1
    return found


def _command_paths(words: Sequence[str], files: ProjectFiles) -> list[str]:
    named = [word for word in words[1:] if not word.startswith("-") and is_named(word, files)]
    paths = [word.partition("::")[0].removeprefix("./").rstrip("/") for word in named]
    return [] if "." in paths else paths


def _covered_files(gate: Gate, paths: Sequence[str], files: ProjectFiles) -> frozenset[str]:
    about = [path for path in files.paths if path.endswith((".py", ".pyi"))]
    about = list(filter(is_test_file, about)) if gate.kind == "test" else about
    return frozenset(
        each for each in about if not paths or any(each == path or each.startswith(f"{path}/") for path in paths)
    )
