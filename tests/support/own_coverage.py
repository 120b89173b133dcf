"""Measure what the tests of `core` and `plan` cover of them, in the run of all tests, which stays as fast as it is."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest

PURE = ("core", "plan")
"""The packages that only compute; their own tests execute every branch."""


class OwnCoverage:
    """The plugin that lets pytest-cov measure only while modules are imported and while their own tests run."""

    def __init__(self, config: pytest.Config) -> None:
        self._folders = tuple(config.rootpath / "tests" / "unit" / package for package in PURE)
        self._plugins = config.pluginmanager
        self._measures = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Import all modules that are measured, then measure nothing while tests are collected."""
        for package in PURE:
            found = import_module(f"scaffold.{package}")
            for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
                import_module(module.name)
        self._measure(False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure a test only if it is one of theirs; fixtures that outlive it do not count."""
        self._measure(any(item.path.is_relative_to(folder) for folder in self._folders))
        return (yield)

    def _measure(self, wanted: bool) -> None:
        controller = self._plugins.get_plugin("_cov").cov_controller
        if wanted != self._measures:
            (controller.resume if wanted else controller.pause)()
            self._measures = wanted
