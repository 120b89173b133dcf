"""Importing by a `MODULE:NAME` string, for what is expensive to load and seldom needed."""

import importlib
from typing import Any

from scaffold.host.process.gc_tuning import gc_paused


def lazy_import(reference: str) -> Any:
    """Import and return the object named by `reference`, a `MODULE:NAME`; the caller knows its type."""
    module, _, attribute = reference.partition(":")
    with gc_paused():
        return getattr(importlib.import_module(module), attribute)
