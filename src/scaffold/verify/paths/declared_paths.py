"""Match paths against an action's declared `files`: the paths, folders and globs in its plan.

An action without any declares the existing tests that its task names.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from scaffold.core.plan import ActionSpec, is_review_role
from scaffold.policy.path.globs import matches
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.verify.paths.conventions import TEST_NAME, is_test_file, tested_module

_NAME = re.compile(r"(?<![\w./@+=-])(?:\./)?([\w@+][\w./@+-]*)")
"""A word that may be a path or a module; an option and its value are not."""
_UNITTEST = re.compile(r"\bunittest\b")
_WILD = re.compile(r"\[[^\]]*\]|[*?]")


def is_declared_path(path: str, files: Sequence[str]) -> bool:
    """Return True if `path` is one of `files`, is in a folder of them, or matches a glob; False if `files` is empty."""
    return any(covers(entry, path) for entry in files)


def is_declared_specifically(path: str, files: Sequence[str]) -> bool:
    """Return True if `path` is declared by an entry that names more than a file type.

    `**`, `.` and `*.py` cover everything, so they do not show that the plan meant to change a test.
    """
    return any(covers(entry, path) and (normalized(entry) == path or is_specific(entry)) for entry in files)


def is_declared_by_name(path: str, files: Sequence[str]) -> bool:
    """Return True if `path` is declared by its own file name, not only by a folder."""
    name = path.rpartition("/")[2]
    return any(
        normalized(entry) == path
        or (
            covers(entry, path)
            and is_specific(last := normalized(entry).rpartition("/")[2])
            and fnmatchcase(name, last)
        )
        for entry in files
    )


def normalized(entry: str) -> str:
    """Return an entry of `files` as a path or glob, without `./` and a slash at its end."""
    return entry.removeprefix("./").rstrip("/")


def covers(entry: str, path: str) -> bool:
    """Return True if an entry of `files` is the path, a folder of it, or a glob that matches it."""
    plain = normalized(entry)
    return path == plain or path.startswith(f"{plain}/") or matches(entry, path)


def is_specific(entry: str) -> bool:
    """Return True if a segment of a glob names more than a file type."""
    parts = [(segment, _WILD.sub("", segment)) for segment in entry.split("/") if segment not in {"", "."}]
    # What is left of `*.py` is a file type, what is left of `test_*.py` names something.
    return any(left and (left == segment or not left.startswith(".")) for segment, left in parts)


def named_tests(task: ActionSpec, paths: Collection[str], areas: ProtectedAreas) -> tuple[str, ...]:
    """Return the existing test files that a task without `files` declares: those it names, and those of what it names.

    A name is a path, or the end of only one of the `paths` of the repository; with unittest also a module. The tests of
    a named file are called after it, if no other file has its name. What is protected stays so.
    """
    if task.files or is_review_role(task.role):
        return ()
    by_name = defaultdict[str, list[str]](list)
    for path in paths:
        by_name[path.rpartition("/")[2]].append(path)
    named = frozenset(_named_paths(task, by_name))
    modules = {
        (tested_module(path), path.rpartition(".")[2])
        for path in named
        if not _is_test_module(path) and len(by_name[path.rpartition("/")[2]]) == 1
    }
    kept = task.contract.must_not_change if task.contract else ()
    return tuple(
        path
        for path in sorted(paths)
        if _is_test_module(path)
        and (path in named or (tested_module(path), path.rpartition(".")[2]) in modules)
        and not areas.area_of(path)
        and not any(matches(glob, path) for glob in kept)
    )


def _is_test_module(path: str) -> bool:
    name = path.rpartition("/")[2]
    is_named_so = is_test_file(path) or TEST_NAME.fullmatch(name) is not None
    return is_named_so and name != "conftest.py" and not name.endswith(".snap")


def _named_paths(task: ActionSpec, by_name: Mapping[str, Sequence[str]]) -> Iterator[str]:
    def meant(name: str) -> Sequence[str]:
        same = by_name.get(name.rpartition("/")[2], ())
        ending = [name] if name in same else [path for path in same if path.endswith(f"/{name}")]
        return ending if len(ending) == 1 else ()

    commands = [check.command for check in task.contract.commands] if task.contract else []
    for text in (task.title, task.description, *task.acceptance, task.notes, *commands):
        for word in _NAME.findall(text):
            yield from meant(word.rstrip("."))
    for command in filter(_UNITTEST.search, commands):
        for parts in (word.split(".") for word in _NAME.findall(command)):
            # A module's name does not say where it ends and the class begins.
            names = ("/".join(parts[:length]) + ".py" for length in range(len(parts), 0, -1))
            yield from next(filter(None, map(meant, names)), ())
