"""A small project of random names, in which models make their mistakes."""

from collections.abc import Mapping
from random import Random  # noqa: TID251 - seeded

from msgspec import Struct

from self_check.intention import Wish

NAMES = (
    "store",
    "reader",
    "queue",
    "client",
    "report",
    "worker",
    "index",
    "cache",
    "parser",
    "router",
    "ledger",
    "mailer",
)
PACKAGES = ("shop", "bank", "library", "garden")
LAYOUTS = ("src/{}", "{}", "lib/{}/core", "packages/{}/src")
MODULE = '''"""The {name} of the {package}."""

import json

LIMIT = {limit}


def load_{name}(path):
    timeout = 30
    with open(path, timeout) as file:
        return json.load(file)


class {title}:
    def save(self, path):
        if path:
{more}            timeout = 30
            return self.write(path, timeout)

    def write(self, path, timeout):
        retries = {retries}
        return (path, retries, timeout)
'''
CHECK = """import sys

sys.path.insert(0, {folder!r})
from {name} import {title}

found = {title}().save("here")
print("result:", found)
assert found[1] == {wanted}, "wrong number of retries, see write() in {folder}/{name}.py"
print("all passed, code=OK{wanted}")
"""


class Module(Struct, frozen=True, kw_only=True):
    """One module: where it is, and the numbers in it."""

    name: str
    folder: str
    limit: int
    retries: int
    more: int
    """Further lines between the head of a method and the line in it that occurs twice in the file."""

    @property
    def path(self) -> str:
        """Its path in the project."""
        return f"{self.folder}/{self.name}.py"

    @property
    def text(self) -> str:
        """What it contains."""
        package = self.folder.split("/")[-1]
        title = self.name.title()
        more = "".join(f"            self.step_{n} = {n}\n" for n in range(self.more))
        return MODULE.format(
            name=self.name, title=title, package=package, limit=self.limit, retries=self.retries, more=more
        )

    @property
    def more_retries(self) -> Wish:
        """A change of one line that occurs once."""
        return Wish(key=rf"retries = {self.retries}\b", put=f"retries = {self.retries + 1}")

    @property
    def longer_timeout(self) -> Wish:
        """A change of the second of two equal lines."""
        return Wish(key=r"timeout = 30", put="timeout = 60", within=r"def save\(")

    @property
    def other_name(self) -> Wish:
        """A change of the refactoring: a method gets another name."""
        return Wish(key=r"def save\(self, path\)", put="def store(self, path)")

    def lines(self) -> Mapping[int, str]:
        """Return its lines by number."""
        return dict(enumerate(self.text.splitlines(), 1))


class Project(Struct, frozen=True):
    """Twelve modules in one folder, and a few other files."""

    modules: tuple[Module, ...]
    others: Mapping[str, str]
    """Files that are alike by name: what they contain, by their paths."""
    rng: Random

    @property
    def files(self) -> dict[str, str]:
        """Every file by its path."""
        return {module.path: module.text for module in self.modules} | dict(self.others)

    @property
    def module(self) -> Module:
        """The module that most tasks are about."""
        return self.modules[0]


def make_project(seed: int) -> Project:
    """Return the project of a seed."""
    rng = Random(seed)
    folder = rng.choice(LAYOUTS).format(rng.choice(PACKAGES))
    names = rng.sample(NAMES, len(NAMES))
    modules = (
        Module(
            name=name, folder=folder, limit=rng.randrange(100, 999), retries=rng.randrange(2, 8), more=rng.randrange(5)
        )
        for name in names
    )
    others = {"README.md": "# A project\n", "setup.cfg": "[metadata]\nname = project\n", "tests/__init__.py": ""}
    others |= {f"tests/test_{name}.py": f"def test_{name}():\n    assert True\n" for name in names}
    others |= {f"legacy/{name}.py": f"LIMIT = {rng.randrange(100)}\n" for name in rng.sample(names, 3)}
    return Project(tuple(modules), others, rng)
