"""What a repository can be asked for by name: the modules and packages whose source it holds."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath

MARKS = ("pyproject.toml", "setup.py", "setup.cfg")
"""What a folder with Python packages has."""
SOURCES = "src"
ASIDE = frozenset({"setup", "conftest", "noxfile", "fabfile", "tasks", "test", "tests", "testing", "docs", "doc"})
"""At the top of a flat repository: nobody imports these by name from elsewhere."""


def python_modules(paths: Collection[str]) -> Mapping[str, str]:
    """Return for each importable name the folder with its source, `""` for the top; of a namespace what is in it."""
    homes = {"", *(_parent(path) for path in paths if PurePosixPath(path).name in MARKS)}
    roots = sorted({*homes, *(_joined(home, SOURCES) for home in homes)}, key=len, reverse=True)
    found: dict[str, str] = {}
    for path in sorted(paths):
        root = next((root for root in roots if not root or path.startswith(f"{root}/")), None)
        if root is not None and path.endswith(".py"):
            inner = path.removeprefix(f"{root}/" if root else "")
            for name in _names(inner, paths, root, spaces=PurePosixPath(root).name == SOURCES):
                found.setdefault(name, root)
    return found


def _names(inner: str, paths: Collection[str], root: str, *, spaces: bool) -> Iterator[str]:
    """Yield the name by which the file `inner` of a root makes something importable, if it does."""
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
    if spaces or not (names[0] in ASIDE or names[0].startswith("test_")):
        yield ".".join(names)


def _within_package(names: list[str], paths: Collection[str], root: str) -> bool:
    """Whether a folder around is a package itself: its name leads to all that is in it."""
    around = (_joined(root, "/".join(names[:length])) for length in range(1, len(names) + 1))
    return any(f"{folder}/__init__.py" in paths for folder in around)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
