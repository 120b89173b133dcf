"""Questions of servers as the user reads them. Imports nothing of the protocol's SDK."""

from typing import Any

from scaffold.core.printable_text import short_line
from scaffold.extensions.mcp.offers import Question


def asked_text(question: Question) -> str:
    """Return the question as the user reads it: who asks, what, and how to answer."""
    lines = [f"The MCP server {question.server} asks: {question.text}"]
    names = ", ".join(map(_field, question.fields.items()))
    if len(question.fields) == 1:
        lines.append(f"It expects: {names}.")
    elif question.fields:
        lines.append(f"Answer with lines `name: value` or a JSON object of: {names}.")
    return "\n".join([*lines, "`decline` declines. Give it no passwords."])


def suggested_answers(question: Question) -> tuple[str, ...]:
    """Return the answers to choose from; empty if it takes any."""
    if len(question.fields) != 1:
        return () if question.fields else ("yes", "decline")
    (field,) = question.fields.values()
    field = field if isinstance(field, dict) else {}
    if field.get("type") == "boolean":
        return ("yes", "no")
    choices = field.get("enum")
    return tuple(str(each) for each in choices) if isinstance(choices, list) else ()


def _field(named: tuple[str, Any]) -> str:
    name, field = named
    field = field if isinstance(field, dict) else {}
    about = short_line(str(field.get("description") or field.get("title") or field.get("type") or ""), 100)
    return f"`{short_line(name, 60)}`{f' ({about})' if about else ''}"
