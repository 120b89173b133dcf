"""Fields of tasks in JSON files, which other tools write in more than one way."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite

from scaffold.plan.source.task import TextEdit
from scaffold.plan.text.fields import FieldReader
from scaffold.plan.text.parse_tree import MappingNode, PositionedNode, ScalarNode, TextPosition


class JsonText:
    """A text whose JSON values are edited at the positions where the parser found them."""

    def __init__(self, text: str) -> None:
        """Take the text without a byte order mark."""
        self._text = text
        self._lines = [0, *(newline.end() for newline in re.finditer("\n", text))]
        self._decode = json.JSONDecoder().raw_decode

    def edits(self, entry: MappingNode, key: str, value: str) -> tuple[TextEdit, ...]:
        """Return the edit that gives `key` the JSON `value`; a key that is missing is added at the end.

        A new key is separated from the others as the first two are from each other; with fewer it cannot be added.
        """
        for name, node in entry.entries:
            if isinstance(name, ScalarNode) and name.written == key:
                return (TextEdit(self._offset_at(node.mark), self._value_end(node.mark), value),)
        # With fewer than two keys there is no separator to copy.
        if len(entry.entries) < 2:
            return ()
        (name, first), (second, _), *_ = entry.entries
        colon = self._text[self._value_end(name.mark) : self._offset_at(first.mark)]
        comma = self._text[self._value_end(first.mark) : self._offset_at(second.mark)]
        end = self._value_end(entry.entries[-1][1].mark)
        return (TextEdit(end, end, f"{comma}{json.dumps(key)}{colon}{value}"),)

    def _offset_at(self, mark: TextPosition) -> int:
        return self._lines[mark.line - 1] + mark.column - 1

    def _value_end(self, mark: TextPosition) -> int:
        return self._decode(self._text, self._offset_at(mark))[1]


PRIORITIES: Mapping[str, float] = {"critical": 0, "highest": 0, "high": 1, "medium": 2, "low": 3, "lowest": 4}
"""Priorities that are written as words."""
CRITERION_TEXTS = ("text", "description", "criterion", "title")
"""Keys of the text of a criterion that is written as a mapping; the first one present is used."""
_BULLET = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(\S.*)")


def named(key: str, node: PositionedNode) -> MappingNode:
    """Return a mapping with the list as its only value, for lists that are a whole document."""
    return MappingNode(node.mark, ((ScalarNode(node.mark, "text", key, key), node),))


def first_key(fields: FieldReader, keys: Sequence[str]) -> str:
    """Return the first of the keys that has a value; the first of all if none has."""
    return next((key for key in keys if fields.has(key)), keys[0])


def criteria(fields: FieldReader, key: str) -> tuple[str, ...]:
    """Return acceptance criteria: a list of texts or of mappings with a text, or one text with a bullet each."""
    if fields.has(key) and not fields.lists(key):
        return bulleted(fields.text(key))
    texts: list[str] = []
    for table in fields.tables(key, short=CRITERION_TEXTS[0]):
        text_key = first_key(table, CRITERION_TEXTS)
        table.check(CRITERION_TEXTS, required=(text_key,), closed=False)
        texts.append(table.text(text_key))
    return tuple(filter(None, texts))


def bulleted(text: str) -> tuple[str, ...]:
    """Return the bullets of a text that has nothing else; otherwise the text as it is, if it is not blank."""
    lines = [line for line in text.splitlines() if line.strip()]
    bullets = [match[1].strip() for line in lines if (match := _BULLET.fullmatch(line))]
    # Text between bullets would be lost.
    return tuple(bullets) if len(bullets) == len(lines) else (text.strip(),)


def prose(fields: FieldReader, key: str) -> str:
    """Return a text, or a list of texts as bullets."""
    return "\n".join(f"- {text}" for text in fields.texts(key)) if fields.lists(key) else fields.text(key)


def priority(fields: FieldReader, key: str = "priority") -> float | None:
    """Return a priority, a number or one of PRIORITIES; None if it is missing or invalid."""
    word = fields.identifier(key).strip()
    if not word:
        return None
    if word.lower() in PRIORITIES:
        return PRIORITIES[word.lower()]
    try:
        # `P1` is how many tools write it.
        number = float(word.lower().removeprefix("p"))
    except ValueError:
        number = float("nan")
    if isfinite(number):
        return number
    words = ", ".join(PRIORITIES)
    fields.complain(key, "is neither a finite number nor a known word", f"Write a number, lowest first, or: {words}.")
    return None


def paragraphs(*texts: str) -> str:
    """Return the texts that are not blank, each once, as paragraphs."""
    return "\n\n".join(dict.fromkeys(stripped for text in texts if (stripped := text.strip())))


def mappings(tables: Iterable[FieldReader]) -> Iterator[tuple[FieldReader, MappingNode]]:
    """Yield the fields of the mappings in a list, with their nodes; report what is not a mapping."""
    for fields in tables:
        if isinstance(fields.node, MappingNode):
            yield fields, fields.node
        else:
            # Reported there, with its position.
            fields.check(("id", "title"), closed=False)
