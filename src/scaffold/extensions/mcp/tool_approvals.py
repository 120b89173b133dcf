"""Which definitions of tools the user has approved: those of a server's first list with the server, others later."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from scaffold.extensions.mcp.offers import Definition
from scaffold.extensions.mcp.server_config import ServerConfig


class Approvals(Protocol):
    """The approved definitions, by the name of each tool; of another program or address there are others."""

    def known(self, scope: str, program: str) -> Mapping[str, str]:
        """Return the digest of each approved tool, by whatever name its server had; empty if it was never used."""
        ...

    def approve(self, scope: str, server: str, program: str, digests: Mapping[str, str]) -> None:
        """Store approvals; one of the same tool replaces the earlier one."""
        ...


class SortedTools(Struct, frozen=True):
    """The definitions that agents may use, and those that need the user's approval first."""

    approved: tuple[Definition, ...] = ()
    withheld: tuple[Definition, ...] = ()


USED = {"": ""}
"""Approves no tool, as no digest is empty: a server with this record is used, even if its first list was empty."""


def sort_tools(approvals: Approvals, config: ServerConfig, listed: Sequence[Definition]) -> SortedTools:
    """Return the listed tools by approval. At the first use of a server all of them are approved with it."""
    known = approvals.known(config.scope, config.digest) or approve_tools(approvals, config, listed)
    return SortedTools(
        tuple(each for each in listed if known.get(each.name) == each.digest),
        tuple(each for each in listed if known.get(each.name) != each.digest),
    )


def approve_tools(approvals: Approvals, config: ServerConfig, tools: Sequence[Definition]) -> Mapping[str, str]:
    """Approve these definitions of a server's tools, and return what is stored of them."""
    digests = USED | {each.name: each.digest for each in tools}
    approvals.approve(config.scope, config.name, config.digest, digests)
    return digests
