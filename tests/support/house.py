"""How hard the source is to find one's way in: figures, and lists of what to mend.

    python tests/support/house.py [REPOSITORY]           the figures, per package and in all
    python tests/support/house.py --list NAME [PATH...]  the places behind a figure, below these paths

Counts what `docs/design/062-house.md` reports and `tests/architecture/test_house.py` limits. Reads files as text only.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PACKAGE = "src/scaffold/"
NAMED = re.compile(r"scaffold(\.\w+)+(:\w+)?")
ONE_WORD = re.compile(r"_[a-z0-9]+")
SHORT_MODULE = 60
"""Lines of a module that is worth folding into its only importer."""
SHORT_BODY = 2
"""Lines of a helper that is worth writing where it is used."""
MANY_FILES = 20


@dataclass(frozen=True)
class Room:
    """A Python file below src/, by its path in the repository."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def module(self) -> str:
        """The dotted name."""
        return self.path.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    @property
    def lines(self) -> int:
        """All lines, blank ones and comments too."""
        return self.text.count("\n")

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    @cached_property
    def comments(self) -> int:
        """Lines that are, or end in, a comment; directives for tools do not count."""
        return len(re.findall(r"(?:^|  )[ \t]*# (?!noqa|type:|pragma)", self.text, re.MULTILINE))


@dataclass
class House:
    """The rooms of a repository, and what ties them."""

    rooms: list[Room]
    importers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        """Read the imports, late ones too."""
        known = {room.module: room for room in self.rooms}
        for room in self.rooms:
            for name in _imported(room):
                target = name if name in known else name.rpartition(".")[0]
                if target in known and target != room.module:
                    self.importers[target].add(room.path)

    def large_folders(self) -> Iterator[str]:
        """Yield folders of more than 20 Python files, `__init__.py` counted."""
        folders = Counter(str(PurePosixPath(room.path).parent) for room in self.rooms)
        yield from (f"{folder}: {count}" for folder, count in sorted(folders.items()) if count > MANY_FILES)

    def repeated(self) -> Iterator[str]:
        """Yield module names that stand for several modules."""
        names: dict[str, list[str]] = defaultdict(list)
        for room in self.rooms:
            if (name := PurePosixPath(room.path).stem) not in {"__init__", "__main__"}:
                names[name].append(room.path)
        yield from (f"{name}: {' '.join(paths)}" for name, paths in sorted(names.items()) if len(paths) > 1)

    def one_word(self) -> Iterator[str]:
        """Yield private functions with a name of one word, which says too little."""
        for room in self.rooms:
            yield from (
                f"{room.path}:{node.lineno} {node.name}" for node in room.functions if ONE_WORD.fullmatch(node.name)
            )

    def foldable(self) -> Iterator[str]:
        """Yield short modules with one importer, and the importer."""
        for room in self.rooms:
            users = self.importers.get(room.module, set())
            is_face = room.path.endswith(("__init__.py", "__main__.py"))
            if not is_face and len(users) == 1 and room.lines < SHORT_MODULE:
                yield f"{room.path} ({room.lines}) -> {next(iter(users))}"

    def inlinable(self) -> Iterator[str]:
        """Yield private functions of one or two lines that one place calls; one that a table names has to be one."""
        for room in self.rooms:
            names = Counter(re.findall(r"\b_\w+", room.text))
            for node in room.functions:
                if not node.name.startswith("_") or node.name.startswith("__") or node.decorator_list:
                    continue
                body = [each for each in node.body if not _is_text(each)]
                length = sum((each.end_lineno or each.lineno) - each.lineno + 1 for each in body)
                called = len(re.findall(rf"\b{node.name}\(", room.text)) == 2
                if names[node.name] == 2 and called and length <= SHORT_BODY:
                    yield f"{room.path}:{node.lineno} {node.name}"


def _imported(room: Room) -> Iterator[str]:
    for node in ast.walk(room.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMED.fullmatch(node.value):
            yield node.value.replace(":", ".")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def read_house(root: Path = ROOT) -> House:
    """Read all Python files below src/ of a repository."""
    paths = sorted((root / "src").rglob("*.py"))
    return House([Room(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths])


LISTS = {
    "large_folders": House.large_folders,
    "repeated": House.repeated,
    "one_word": House.one_word,
    "foldable": House.foldable,
    "inlinable": House.inlinable,
}


def figures(house: House) -> str:
    """Return a table: a row for each package, and one for all."""
    packages: dict[str, list[Room]] = defaultdict(list)
    for room in house.rooms:
        packages[room.path.removeprefix(PACKAGE).split("/")[0]].append(room)
        packages["all"].append(room)
    places = {name: list(find(house)) for name, find in LISTS.items()}
    heads = ("functions", "comments/1000", *LISTS)
    rows = [f"{'':14}{'files':>7}{'lines':>9}" + "".join(f"{head:>15}" for head in heads)]
    for name, rooms in sorted(packages.items(), key=lambda item: len(item[1])):
        lines, functions = sum(room.lines for room in rooms), sum(len(room.functions) for room in rooms)
        comments = 1000 * sum(room.comments for room in rooms) / max(lines, 1)
        row = f"{name:14}{len(rooms):7}{lines:9,}{functions:15,}{comments:15.1f}"
        for found in places.values():
            row += f"{len(found) if name == 'all' else sum(PACKAGE + name in each for each in found):15}"
        rows.append(row)
    every = sum(len(room.functions) for room in house.rooms)
    rows.append(f"private one-word names: {100 * len(places['one_word']) / every:.1f} % of {every:,} functions")
    return "\n".join(rows)


def main(words: list[str]) -> None:
    """Print the figures, or one of the lists."""
    if words[:1] == ["--list"]:
        for line in LISTS[words[1]](read_house()):
            if not words[2:] or any(path in line for path in words[2:]):
                print(line)
    else:
        print(figures(read_house(Path(words[0]) if words else ROOT)))


if __name__ == "__main__":
    main(sys.argv[1:])
