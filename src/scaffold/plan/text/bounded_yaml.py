"""Values of YAML texts, within the limits of `bounded`."""

from itertools import chain
from typing import Any

import yaml
from yaml.composer import Composer, ComposerError

from scaffold.plan.text.bounded import MAX_CHARS, MAX_DEPTH, TOO_MANY, BeyondLimit, read_limited

MAX_RESOLVED = 1_000
"""Characters of a YAML scalar that may be more than text: the time to read a number grows with its square."""
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str) -> Any:
    """Return the value of the one document in a YAML text."""
    return read_limited(_parse_document, text)


def _parse_document(text: str) -> Any:
    try:
        return BoundedLoader(text).get_single_data()
    except OutOfBounds as error:
        raise BeyondLimit(str(error.problem)) from error
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from error


class OutOfBounds(ComposerError):
    """A YAML text is beyond a limit."""


class BoundedLoader(_PARSER):  # type: ignore[misc] # which parser it is depends on how the YAML library was built
    """PyYAML's C parser if available, with the composer in Python: the C composer overflows the stack.

    It stops where a text is too deep, and where aliases repeat too much: a merge of tables copies what it merges.
    """

    most_nodes: float = MAX_CHARS // 10
    most_repeated = MAX_CHARS // 10
    get_single_node = Composer.get_single_node
    compose_document = Composer.compose_document
    compose_sequence_node = Composer.compose_sequence_node
    compose_mapping_node = Composer.compose_mapping_node
    compose_scalar_node = Composer.compose_scalar_node

    def __init__(self, text: str) -> None:
        _PARSER.__init__(self, text)
        Composer.__init__(self)
        self._depth = self._nodes = 0
        self._sizes: dict[yaml.Node, int] = {}
        """Of lists and tables that are complete, with what their aliases stand for."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node; for an alias, the one that it stands for."""
        if self._depth == MAX_DEPTH:
            raise RecursionError
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        node: Any = Composer.compose_node(self, parent, index)
        self._depth -= 1
        self._nodes += 1
        if not isinstance(node, yaml.CollectionNode):
            size = 1
        elif is_alias:
            # YAML allows an alias to a value that is not complete yet, which nothing else can express.
            if (size := self._sizes.get(node, 0)) == 0:
                raise OutOfBounds(None, None, "has an alias for a value that contains it", node.start_mark)
        else:
            parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
            size = self._sizes[node] = 1 + sum(self._sizes.get(part, 1) for part in parts)
        if self._nodes > self.most_nodes or size > self._nodes + self.most_repeated:
            raise OutOfBounds(None, None, TOO_MANY.format(self.most_repeated), node.start_mark)
        return node

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """Return the tag of a node, of one that is too long for anything else that of a text."""
        is_long = kind is yaml.ScalarNode and len(value) > MAX_RESOLVED
        return self.DEFAULT_SCALAR_TAG if is_long else _PARSER.resolve(self, kind, value, implicit)
