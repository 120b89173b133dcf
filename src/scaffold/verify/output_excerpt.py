"""Shorten the output of a command, keeping the lines that decide its result."""

from scaffold.plan.failures.fingerprint import is_deciding

DECIDING_SHARE = 3
"""Lines picked from the cut part take at most one third of the text."""
MAX_LINE_CHARS = 300
OMITTED = "…"


def output_excerpt(output: str, limit: int) -> str:
    """Return the output; above `limit` characters, the deciding lines of its beginning, then its end."""
    if len(output) <= limit:
        return output
    picked = _deciding_lines(output[:-limit], limit // DECIDING_SHARE)
    end = output[-(limit - len(picked)) :]
    return f"{picked}{OMITTED} {end}"


def deciding_line(output: str) -> str:
    """Return the first line that says what is wrong, or an empty text."""
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
