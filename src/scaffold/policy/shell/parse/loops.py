"""Unroll `for` loops over words that are known: each pass becomes simple commands of its own."""

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from scaffold.policy.shell.parse.unquoting import Variables
from scaffold.policy.shell.parsed_command import Connector, SimpleCommand, Word

MAX_UNROLLED = 50
"""With more commands than this, a loop is not unrolled."""

_NAME = re.compile(r"(?!.*proxy)[a-z][a-z0-9_]*")
"""Names in lower case: programs read no settings from them, except for proxies."""


def unroll(
    name: str,
    items: Iterable[Word],
    body: Callable[[Variables], Iterable[SimpleCommand]],
    outer: Variables,
    link: Connector,
) -> Iterator[SimpleCommand] | None:
    """Return the commands of all passes; None if a loop of this kind is not unrolled. The first gets `link`."""
    values = tuple(items)
    if not values or not _NAME.fullmatch(name) or any(item.tilde or item.loose or not item.sure for item in values):
        return None
    commands: list[SimpleCommand] = []
    for value in values:
        commands += body({**outer, name: value})
        if len(commands) > MAX_UNROLLED or any(each.words and each.words[0].loose for each in commands):
            return None
    links: list[Connector] = [link, *(each.link or ";" for each in commands[1:])]
    return (
        msgspec.structs.replace(each, link=after, in_loop=True) for each, after in zip(commands, links, strict=True)
    )
