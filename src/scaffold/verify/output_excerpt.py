"""Shorten the output of a command so that the lines that decide its result stay."""

from scaffold.plan.failures.deciding_lines import is_deciding

DECIDING_SHARE = 3
"""The lines picked from the part that is cut take at most one third of the text."""
MAX_LINE_CHARS = 300
OMITTED = "…"


def output_excerpt(output: str, limit: int) -> str:
    """Return the output; if it is longer than `limit` characters, its end, after the deciding lines that are cut."""
    if len(output) <= limit:
        return output
    picked = _deciding_lines(output[:-limit], limit // DECIDING_SHARE)
    end = output[-(limit - len(picked)) :]
    return f"{picked}{OMITTED} {end}"


def deciding_line(output: str) -> str:
    """Return the first line that says what is wrong; empty if none does."""
    return next((line for line in output.splitlines() if is_deciding(line)), "")


def _deciding_lines(text: str, limit: int) -> str:
    """Return the first deciding lines of a text within a limit, each one ending in a line break."""
    shown = ""
    for line in text.splitlines():
        if is_deciding(line):
            added = f"{line[:MAX_LINE_CHARS]}\n"
            if len(shown) + len(added) > limit:
                break
            shown += added
    return f"{OMITTED}\n{shown}" if shown else ""
