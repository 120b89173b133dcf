"""Reviews: a verdict about work, with the lines that it is based on."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class Citation(Struct, frozen=True):
    """A line of the reviewed commit; `file` is relative to the top of the tree."""

    file: str
    line: Annotated[int, Meta(ge=1)]
    note: str = ""
    before: bool = False
    """True for a line as it was before the change, such as one of a deleted test."""


class Review(Struct, frozen=True, kw_only=True):
    """A reviewer's verdict with its citations."""

    verdict: Literal["approve", "reject"]
    citations: tuple[Citation, ...] = ()
    summary: str
