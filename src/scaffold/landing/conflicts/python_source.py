"""Read Python as this interpreter does, without its warnings. Pure."""

import ast
import sys
import warnings

from scaffold.landing.conflicts.not_mergeable import NotMergeable

NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python raises for a text that it cannot read."""


def parse_python(source: str) -> ast.Module:
    """Return the syntax of a module; raise NotMergeable if it has none."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(source)
    except NO_PYTHON as error:
        version = ".".join(map(str, sys.version_info[:2]))
        raise NotMergeable(f"it cannot be read as Python {version}: {error}") from error


def require_python(source: str) -> None:
    """Raise NotMergeable if a merge cannot be compiled, e.g. because an import from `__future__` is not the first."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(source, "merged", "exec", dont_inherit=True)
    except NO_PYTHON as error:
        raise NotMergeable(f"the result would be no Python: {error}") from error
