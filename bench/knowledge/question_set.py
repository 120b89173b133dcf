"""A set of texts and questions, read from lines of JSON; anybody may add one of their own.

Each line is one of: `{"id": ..., "text": ...}`, a text, with an optional `title`; `{"module": ...}`, the functions of a
module of the standard library as texts, named `module.function` or `module.Class.method`; and
`{"query": ..., "relevant": [id, ...]}`, a question with the texts that answer it, none for one that has no answer here.
"""

import ast
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

SETS = Path(__file__).with_name("sets")
LONGEST = 1_200
"""Characters of a function that are read."""


class Text(Struct, frozen=True):
    """A text that may answer a question."""

    id: str
    text: str
    title: str = ""


class Question(Struct, frozen=True):
    """A question, and the ids of the texts that answer it."""

    query: str
    relevant: frozenset[str]


class QuestionSet(Struct, frozen=True):
    """Texts and questions about them."""

    name: str
    texts: tuple[Text, ...]
    questions: tuple[Question, ...]


def read_set(path: Path) -> QuestionSet:
    """Return the set in a file; ValueError for a question whose answer is not there."""
    texts: list[Text] = []
    questions: list[Question] = []
    for line in path.read_text("utf-8").splitlines():
        entry = json.loads(line)
        if "query" in entry:
            questions.append(Question(entry["query"], frozenset(entry["relevant"])))
        elif "module" in entry:
            texts += _functions(entry["module"])
        else:
            texts.append(Text(entry["id"], entry["text"], entry.get("title", "")))
    missing = {each for question in questions for each in question.relevant} - {each.id for each in texts}
    if missing:
        raise ValueError(f"{path}: there are no texts {sorted(missing)}")
    return QuestionSet(path.stem, tuple(texts), tuple(questions))


def _functions(module: str) -> Iterator[Text]:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no source of {module}")
    source = Path(spec.origin).read_text("utf-8")
    lines = source.split("\n")
    seen: set[str] = set()
    for name, node in _defined(ast.parse(source), module):
        if name not in seen:  # some are defined anew for other platforms
            seen.add(name)
            yield Text(name, "\n".join(lines[node.lineno - 1 : node.end_lineno])[:LONGEST], name)


def _defined(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield f"{prefix}.{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _defined(child, f"{prefix}.{child.name}")
        elif isinstance(child, ast.If | ast.Try):
            yield from _defined(child, prefix)
