"""Remember the functions of a test runner before any project code runs, to notice which of them were replaced.

Assertions that never fail make every test pass, and no report shows it. Functions of the language and the standard
library count only if code of the checkout replaced them: installed packages replace some for good reasons.
"""

import os
import sys
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Callable, Iterable  # noqa: UP035 - those of collections.abc have no parameters before 3.9

ASSERTING = frozenset(
    {
        *("pytest", "unittest", "unittest.case", "unittest.async_case"),
        *("_pytest.python_api", "_pytest.raises", "_pytest.recwarn", "_pytest.outcomes"),
    }
)
RUNNERS = ("pytest", "_pytest", "pluggy", "unittest")
LEFT_TO_PROGRAMS = frozenset({"sys", "warnings", "site", "sitecustomize", "usercustomize", "__main__"})
"""Modules of the standard library whose functions programs may replace."""
MOST_NAMED = 100

# Taken now, because a test may change the directory.
_TOP = os.path.join(os.path.realpath(os.getcwd()), "")  # noqa: PTH109, PTH118 - few imports
_LIBRARY = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "")  # noqa: PTH118, PTH120
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


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


def is_elsewhere(value: Any) -> bool:
    """Return False for a function, class or object whose code is in the checkout, and not installed there."""
    while isinstance(value, (MethodType, partial, staticmethod, classmethod, property)):
        value = getattr(value, "__func__", None) or getattr(value, "func", None) or getattr(value, "fget", None)
    if isinstance(value, FunctionType):
        file = value.__code__.co_filename
    else:
        kind = value if isinstance(value, type) else type(value)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    path = os.path.realpath(file)
    return not path.startswith(_TOP) or any(each in path for each in _INSTALLED)


class Originals:
    """The functions and classes of some modules, and the functions of these classes."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        # (attributes of a module or class, one of their names, its value, the function behind it, its code), called
        self._places: list[tuple[tuple[Any, str, Any, Any, Any], str]] = []
        self._classes: dict[type, frozenset[str]] = {}
        for module in modules:
            self._remember_functions(vars(module), module.__name__)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == module.__name__:
                    self._remember_functions(vars(value), f"{module.__name__}.{value.__qualname__}")
                    self._classes[value] = frozenset(vars(value))

    def replaced(self, *, excused: Callable[[Any], bool] = never) -> "list[str]":
        """Return the names of functions and classes that were replaced, or whose code was."""
        changed = [
            called
            for (attributes, name, value, function, code), called in self._places
            if (attributes.get(name) is not value and not excused(attributes.get(name)))
            or (function is not None and function.__code__ is not code)
        ]
        for each, known in self._classes.items():
            if len(vars(each)) != len(known):
                # Such as a `__getattribute__` that returns other functions than the class has.
                added = [name for name in vars(each) if name not in known and name.startswith("__")]
                found = [name for name in added if callable(vars(each)[name]) and not excused(vars(each)[name])]
                changed += [f"{each.__module__}.{each.__qualname__}.{name}" for name in found]
        return changed

    def _remember_functions(self, attributes: Any, holder: str) -> None:
        for name, value in list(attributes.items()):
            function = getattr(value, "__func__", getattr(value, "fget", value))
            code = function.__code__ if isinstance(function, FunctionType) else None
            if code is not None or callable(value):
                place = (attributes, name, value, None if code is None else function, code)
                self._places.append((place, f"{holder}.{name}"))


def asserting() -> Originals:
    """Return the functions that tests call to compare, which are few enough to look at after each test."""
    return Originals(_loaded_modules(lambda name: name in ASSERTING))


def whole_runner() -> Originals:
    """Return all functions of the runner's modules that are loaded."""
    return Originals(_loaded_modules(lambda name: name.partition(".")[0] in RUNNERS))


def library() -> Originals:
    """Return the builtin functions, and the functions of loaded modules of the standard library."""
    return Originals(
        module
        for module in _loaded_modules(lambda name: name.partition(".")[0] not in LEFT_TO_PROGRAMS.union(RUNNERS))
        if _is_library(module)
    )


def _is_library(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return module.__name__ in sys.builtin_module_names
    return file.startswith(_LIBRARY) and not any(each in file for each in _INSTALLED)


def tracers() -> "list[str]":
    """Return the names of Python's trace and profile hooks that are set to code of the checkout."""
    found = (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile()))
    return [name for name, function in found if function is not None and not is_elsewhere(function)]


def _is_public(name: str) -> bool:
    """Return False for an internal name, behind which a module may keep what a program gives it."""
    last = name.rpartition(".")[2]
    return last.startswith("__") or not last.startswith("_")


def _loaded_modules(wanted: Callable[[str], bool]) -> "list[ModuleType]":
    return [module for name, module in list(sys.modules.items()) if wanted(name) and isinstance(module, ModuleType)]


class ReplacedFunctions:
    """Collects what a run replaced: of the assertions after each test, of the whole runner at its end."""

    def __init__(self) -> None:
        self._asserting, self._whole, self._library = asserting(), whole_runner(), library()
        self._found: dict[str, None] = {}

    def look(self) -> None:
        """Look at the assertions, after a test and its teardown."""
        self._found.update(dict.fromkeys(self._asserting.replaced() + tracers()))

    def all(self) -> "list[str]":
        """Look at everything, and return all names found so far.

        Functions other than assertions that an installed plugin replaced are left out.
        """
        self._found.update(dict.fromkeys(self._whole.replaced(excused=is_installed)))
        self._found.update(dict.fromkeys(filter(_is_public, self._library.replaced(excused=is_elsewhere))))
        return list(self._found)[:MOST_NAMED]
