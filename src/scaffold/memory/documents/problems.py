"""Why pages have no text."""

from collections.abc import Mapping

DAMAGED = "cannot be read: it is damaged"
IMAGE = "has no text: it is an image, which needs OCR"
EMPTY = "has no text: it is empty"
PLURALS: Mapping[str, str] = {
    DAMAGED: "cannot be read: they are damaged",
    IMAGE: "have no text: they are images, which need OCR",
    EMPTY: "have no text: they are empty",
}


def in_number(problem: str, pages: int) -> str:
    """Return the problem of so many pages."""
    return problem if pages == 1 else PLURALS.get(problem, problem)
