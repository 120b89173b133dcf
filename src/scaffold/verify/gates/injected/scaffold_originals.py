"""Remember the functions of a test runner before any project code runs, to notice which of them were replaced.

Assertions that never fail make every test pass, and no report shows it.
"""

import os
import sys
from types import FunctionType, ModuleType
from typing import Any, Callable, Iterable  # noqa: UP035 - those of collections.abc have no parameters before 3.9

ASSERTING = frozenset(
    {
        *("pytest", "unittest", "unittest.case", "unittest.async_case"),
        *("_pytest.python_api", "_pytest.raises", "_pytest.recwarn", "_pytest.outcomes"),
    }
)
RUNNERS = ("pytest", "_pytest", "pluggy", "unittest")
MOST_NAMED = 100

# Taken now, because a test may change the directory.
_TOP = os.path.join(os.path.realpath(os.getcwd()), "")  # noqa: PTH109, PTH118 - few imports


def never(_: Any) -> bool:
    """Return False."""
    return False


def is_installed(value: Any) -> bool:
    """Return True for a function of an installed module: plugins replace parts of their runner on purpose."""
    if not isinstance(value, FunctionType):
        return False
    module = sys.modules.get(value.__globals__.get("__name__", ""))
    file = getattr(module, "__file__", None)
    if file is None or vars(module) is not value.__globals__ or value.__code__.co_filename != file:
        return False
    return not os.path.realpath(file).startswith(_TOP) or f"{os.sep}site-packages{os.sep}" in file


class Originals:
    """The functions and classes of some modules, and the functions of these classes."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        # (attributes of a module or class, one of their names, its value, the function behind it, its code), called
        self._places: list[tuple[tuple[Any, str, Any, Any, Any], str]] = []
        self._classes: dict[type, frozenset[str]] = {}
        for module in modules:
            self._remember(vars(module), module.__name__)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == module.__name__:
                    self._remember(vars(value), f"{module.__name__}.{value.__qualname__}")
                    self._classes[value] = frozenset(vars(value))

    def replaced(self, *, excused: Callable[[Any], bool] = never) -> "list[str]":
        """Return the names of what is now another function or class, or has other code."""
        changed = [
            called
            for (attributes, name, value, function, code), called in self._places
            if (attributes.get(name) is not value and not excused(attributes.get(name)))
            or (function is not None and function.__code__ is not code)
        ]
        for each, known in self._classes.items():
            if len(vars(each)) != len(known):
                # Such as a `__getattribute__` that finds other functions than those of the class.
                added = [name for name in vars(each) if name not in known and name.startswith("__")]
                found = [name for name in added if callable(vars(each)[name])]
                changed += [f"{each.__module__}.{each.__qualname__}.{name}" for name in found]
        return changed

    def _remember(self, attributes: Any, holder: str) -> None:
        for name, value in list(attributes.items()):
            function = getattr(value, "__func__", getattr(value, "fget", value))
            code = function.__code__ if isinstance(function, FunctionType) else None
            if code is not None or callable(value):
                place = (attributes, name, value, None if code is None else function, code)
                self._places.append((place, f"{holder}.{name}"))


def asserting() -> Originals:
    """Return the functions that tests call to compare, which are few enough to look at after each test."""
    return Originals(_loaded(lambda name: name in ASSERTING))


def whole_runner() -> Originals:
    """Return all functions of the runner's modules that are loaded."""
    return Originals(_loaded(lambda name: name.partition(".")[0] in RUNNERS))


def _loaded(wanted: Callable[[str], bool]) -> "list[ModuleType]":
    return [module for name, module in list(sys.modules.items()) if wanted(name) and isinstance(module, ModuleType)]


class ReplacedFunctions:
    """Collects what a run replaced: of the assertions after each test, of the whole runner at its end."""

    def __init__(self) -> None:
        self._asserting, self._whole = asserting(), whole_runner()
        self._found: dict[str, None] = {}

    def look(self) -> None:
        """Look at the assertions, after a test and its teardown."""
        self._found.update(dict.fromkeys(self._asserting.replaced()))

    def all(self) -> "list[str]":
        """Look at everything, and return all names found so far.

        Of what is not an assertion, parts that an installed plugin replaced are left out.
        """
        self._found.update(dict.fromkeys(self._whole.replaced(excused=is_installed)))
        return list(self._found)[:MOST_NAMED]
