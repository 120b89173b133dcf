"""List the Python modules and packages that a repository contains, by import name."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
"""Files that mark a folder as a Python project."""
SRC_FOLDER = "src"
NOT_IMPORTABLE = frozenset(
    {"setup", "conftest", "noxfile", "fabfile", "tasks", "test", "tests", "testing", "docs", "doc"}
)
"""Names at the top of a repository that are not imported from elsewhere."""


def python_modules(paths: Collection[str]) -> Mapping[str, str]:
    """Return the source folder of each importable name, `""` for the top; namespace packages by their contents."""
    homes = {"", *(_parent(path) for path in paths if PurePosixPath(path).name in PROJECT_FILES)}
    roots = sorted({*homes, *(_joined(home, SRC_FOLDER) for home in homes)}, key=len, reverse=True)
    found: dict[str, str] = {}
    for path in sorted(paths):
        root = next((root for root in roots if not root or path.startswith(f"{root}/")), None)
        if root is not None and path.endswith(".py"):
            inner = path.removeprefix(f"{root}/" if root else "")
            for name in _names(inner, paths, root, spaces=PurePosixPath(root).name == SRC_FOLDER):
                found.setdefault(name, root)
    return found


def _names(inner: str, paths: Collection[str], root: str, *, spaces: bool) -> Iterator[str]:
    """Yield the import name that the file `inner` of a root provides, if any; `spaces` allows namespace packages."""
    parts = PurePosixPath(inner).parts
    if not all(part.isidentifier() for part in (*parts[:-1], parts[-1].removesuffix(".py"))):
        return
    if len(parts) == 1 and parts[0] != "__init__.py":
        names = [parts[0].removesuffix(".py")]
    elif parts[-1] == "__init__.py" and len(parts) > 1:
        names = list(parts[:-1])
    else:
        return
    if len(names) > 1 and (not spaces or _within_package(names[:-1], paths, root)):
        return
    if spaces or not (names[0] in NOT_IMPORTABLE or names[0].startswith("test_")):
        yield ".".join(names)


def _within_package(names: list[str], paths: Collection[str], root: str) -> bool:
    """Return True if an enclosing folder is a package, whose name then covers everything in it."""
    around = (_joined(root, "/".join(names[:length])) for length in range(1, len(names) + 1))
    return any(f"{folder}/__init__.py" in paths for folder in around)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
