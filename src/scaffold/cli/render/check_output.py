"""What a check or gate printed, as `contract` and `baseline` show it."""

from collections.abc import Iterator

from scaffold.cli.render.terminal.text_layout import Layout

INDENT = " " * 6


def output_lines(output: str, log: str, layout: Layout) -> Iterator[str]:
    """Yield the stored lines of an output, then the path of its log if `log` names one."""
    if output.strip():
        yield from layout.wrap(INDENT, output)
    if log:
        yield f"{INDENT}the whole log: {log}"
