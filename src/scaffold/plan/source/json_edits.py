"""Edits of single values in JSON text: every other character stays as it is."""

import json
import re

from scaffold.plan.source.task import TextEdit
from scaffold.plan.text.parse_tree import MappingNode, ScalarNode, TextPosition


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
                return (TextEdit(self._offset(node.mark), self._end(node.mark), value),)
        if len(entry.entries) < 2:
            return ()
        (name, first), (second, _), *_ = entry.entries
        colon = self._text[self._end(name.mark) : self._offset(first.mark)]
        comma = self._text[self._end(first.mark) : self._offset(second.mark)]
        end = self._end(entry.entries[-1][1].mark)
        return (TextEdit(end, end, f"{comma}{json.dumps(key)}{colon}{value}"),)

    def _offset(self, mark: TextPosition) -> int:
        return self._lines[mark.line - 1] + mark.column - 1

    def _end(self, mark: TextPosition) -> int:
        return self._decode(self._text, self._offset(mark))[1]
