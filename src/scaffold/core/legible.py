"""Text made fit for databases, prompts, wires and screens."""

from collections.abc import Sequence


def legible(text: str) -> str:
    r"""Return `text` with what UTF-8 cannot carry (odd bytes of file names, halves of pairs) written as `\udcNN`."""
    return text.encode(errors="backslashreplace").decode()


def few(names: Sequence[str], most: int) -> str:
    """Return the names in a row; of more than `most`, the first and how many more there are: `a, b and 3 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
