"""Run tests of an older version on newer code: names that the newer code no longer has are stood in for.

A file of tests imports all it needs at its top. If one of these names is gone, none of its tests could run, and nothing
would be known of the others. So an import in a test file that finds no such name gets a stand-in, which raises
`RemovedName` when it is used. What fails because of it tested something that is gone.
"""

import builtins
import os
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any, Iterator  # noqa: UP035 - that of collections.abc has no parameters before 3.9

PACKAGES = ("site-packages", "dist-packages")
MOST_CALLS = 3
"""How many functions deep a test is searched for uses of stand-ins."""
MOST_ERRORS = 20

Unresolved = Any
"""(name, owners): the name that could not be resolved, and the classes, by file and qualified name, that lack it."""


_used_now: "list[str]" = []
"""The removed names that the current test used so far; it may have caught the errors."""


class RemovedName(AttributeError):
    """A name that the code under test no longer has was used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        _used_now.append(name)


class _StandInType(type):
    """Its classes stand in for functions, classes and exceptions; almost any use of one raises `RemovedName`."""

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise RemovedName(cls.__qualname__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RemovedName(cls.__qualname__)

    def __instancecheck__(cls, _: Any) -> bool:
        raise RemovedName(cls.__qualname__)


def stand_in(name: str) -> Any:
    """Return the stand-in for a removed function, class or exception with this dotted name."""
    # An exception class, so that `pytest.raises` and `except` accept it.
    return _StandInType(name.rpartition(".")[2], (Exception,), {"__qualname__": name, "__module__": __name__})


class _ModuleStandIn(ModuleType):
    """Stands in for a module that is gone."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(f"{self.__name__}.{name}")


class _ModuleWithStandIns(ModuleType):
    """A module as it is, with stand-ins for the names that it lacks."""

    def __init__(self, module: ModuleType, extra: "dict[str, Any]") -> None:
        super().__init__(module.__name__)
        self.__dict__.update(extra)
        self.__dict__["_scaffold_module"] = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_scaffold_module"], name)


class StandIns:
    """Stands in for removed names in the test files of a checkout, and tells which failures come from them."""

    def __init__(self, order: "dict[str, Any]") -> None:
        """`order` has the absolute `top` of the checkout, and the `tests` and `removed` modules in it."""
        self._top = os.path.realpath(order["top"]) + os.sep
        self._tests = frozenset(os.path.join(self._top, path) for path in order["tests"])  # noqa: PTH118
        self._removed = frozenset(order["removed"])
        self._import = builtins.__import__

    def begin_test(self) -> None:
        """Forget which names earlier tests used."""
        _used_now.clear()

    def install(self) -> None:
        """Replace the import function of this process."""
        builtins.__import__ = self._import_or_stand_in

    def unresolved(self, raised: BaseException, test: Any = None) -> "Unresolved | None":
        """Return the name that could not be resolved, and by which classes; None if that is not why `raised` came."""
        error: Any = raised
        for each in (error, *_causes(error)):
            # A fixture that several tests share fails only once; the error is raised again for the others.
            if isinstance(each, RemovedName):
                return str(each.args[0]), []
        if _used_now:
            return _used_now[0], []
        found = self._by_error(error) if isinstance(error, (ImportError, NameError, AttributeError)) else None
        if found is not None:
            return found
        used = next(self._used_stand_ins(getattr(test, "__func__", test), MOST_CALLS), None)
        return None if used is None else (used, [])

    def _import_or_stand_in(
        self,
        name: str,
        globals: Any = None,  # noqa: A002 - Python's own names of these arguments
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if not self._is_test((globals or {}).get("__file__")):
            return self._import(name, globals, locals, fromlist, level)
        try:
            module = self._import(name, globals, locals, fromlist, level)
        except ModuleNotFoundError as error:
            if error.name not in self._removed:
                raise
            # A relative import always names what it takes from the module.
            return self._removed_module(str(error.name) if level else name, fromlist)
        if not fromlist or not self._is_source(getattr(module, "__file__", None)):
            return module
        missing = [each for each in fromlist if each != "*" and not hasattr(module, each)]
        if not missing:
            return module
        return _ModuleWithStandIns(module, {each: stand_in(f"{module.__name__}.{each}") for each in missing})

    def _removed_module(self, name: str, fromlist: Any) -> ModuleType:
        """Return a stand-in for a module that is gone, as the import statement expects it: the package, or itself."""
        found: ModuleType = _ModuleStandIn(name)
        parts = name.split(".")
        for length in range(0 if fromlist else len(parts) - 1, 0, -1):
            parent = ".".join(parts[:length])
            try:
                module = self._import(parent, None, None, ("__name__",), 0)
                found = _ModuleWithStandIns(module, {parts[length]: found})
            except ImportError:
                package = _ModuleStandIn(parent)
                package.__dict__[parts[length]] = found
                found = package
        return found

    def _by_error(self, error: Any) -> "Unresolved | None":
        """Return the name that the interpreter could not resolve in a test; None if it failed anywhere else."""
        name = getattr(error, "name", None)
        if not isinstance(name, str) or not self._raised_in_test(error):
            return None
        if isinstance(error, ImportError):
            return (name, []) if name in self._removed else None
        if isinstance(error, NameError):
            return name, []
        owner = error.obj
        if isinstance(owner, ModuleType):
            return (f"{owner.__name__}.{name}", []) if self._is_source(owner.__file__) else None
        classes = list(self._base_classes(owner if isinstance(owner, type) else type(owner)))
        return (f"{classes[0][1]}.{name}", classes) if classes else None

    def _base_classes(self, kind: type) -> "Iterator[tuple[str, str]]":
        """Yield the file and the name of each class of the checkout that a class inherits from, itself first."""
        for each in kind.__mro__:
            file = getattr(sys.modules.get(each.__module__), "__file__", None)
            if self._is_source(file):
                yield os.path.realpath(str(file))[len(self._top) :], each.__qualname__

    def _raised_in_test(self, error: BaseException) -> bool:
        """Return True if the innermost frame that is in the checkout is in a test file."""
        trace, file = error.__traceback__, None
        while trace is not None:
            path = trace.tb_frame.f_code.co_filename
            file = path if self._is_test(path) or self._is_source(path) else file
            trace = trace.tb_next
        return self._is_test(file)

    def _used_stand_ins(self, function: Any, depth: int) -> Iterator[str]:
        """Yield the stand-ins that a function, or a function of its file that it calls, refers to."""
        if not isinstance(function, FunctionType):
            return
        for name in _global_names(function.__code__):
            value = function.__globals__.get(name)
            if isinstance(value, _StandInType):
                yield value.__qualname__
            elif isinstance(value, _ModuleStandIn):
                yield value.__name__
            elif depth and isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
                yield from self._used_stand_ins(value, depth - 1)

    def _is_test(self, path: Any) -> bool:
        return isinstance(path, str) and (path in self._tests or os.path.realpath(path) in self._tests)

    def _is_source(self, path: Any) -> bool:
        if not isinstance(path, str):
            return False
        real = os.path.realpath(path)
        return real.startswith(self._top) and real not in self._tests and not any(each in real for each in PACKAGES)


def _causes(error: BaseException) -> "Iterator[BaseException]":
    """Yield the errors that an error came from, the latest first, a limited number of them."""
    for _ in range(MOST_ERRORS):
        earlier = error.__cause__ or error.__context__
        if earlier is None:
            return
        yield earlier
        error = earlier


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names in a code object and in those defined within."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _global_names(each)
