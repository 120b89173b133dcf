"""Real texts by the thousand, the same on each machine with these packages: paragraphs of their documentation."""

import ast
import hashlib
import re
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

SHORTEST, LONGEST = 40, 240
"""Characters."""


def documentation(count: int) -> list[str]:
    """Return so many different paragraphs of the docstrings of installed packages and of the standard library."""
    found: dict[str, None] = {}
    for text in _docstrings():
        for paragraph in re.split(r"\n\s*\n", text):
            line = " ".join(paragraph.split())
            if SHORTEST <= len(line) <= LONGEST and sum(each.isalpha() for each in line) > len(line) * 0.6:
                found[line] = None
        if len(found) > 2 * count:
            break
    # In an order of their own, so that neighbours are not of the same module.
    return sorted(found, key=lambda line: hashlib.sha256(line.encode()).hexdigest())[:count]


def _docstrings() -> Iterator[str]:
    places = sysconfig.get_paths()
    for folder in (places["stdlib"], places["purelib"]):
        for file in sorted(Path(folder).rglob("*.py")):
            if "test" in str(file.relative_to(folder)):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    tree = ast.parse(file.read_text("utf-8"))
            except (OSError, SyntaxError, ValueError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield ast.get_docstring(node) or ""
