"""The status line: what is going on, in one line that fits; what matters least is left out first."""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from scaffold.core.money import format_usd

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_S = 8
GAP = "  "
SHORT_MODEL = 28


class StatusLineState(Struct, frozen=True, kw_only=True):
    """How a talk stands."""

    model: str
    mode: str
    doing: str
    """What it is busy with; empty while it is idle."""
    busy_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    window: float | None = None
    """What part of the model's window is taken, None where nobody knows how large that is."""
    agents: int = 0
    """Subagents that are at work."""


class StatusSegment(Struct, frozen=True):
    """One thing the line tells; the parts of the lowest rank are left out first."""

    rank: int
    text: str
    style: str = ""


def status_line(standing: StatusLineState, width: int) -> tuple[tuple[str, str], ...]:
    """Return the line as texts and their styles, at most `width` columns in all."""
    parts = list(_parts(standing))
    while len(parts) > 1 and _columns(parts) > width:
        parts.remove(min(parts, key=lambda part: part.rank))
    texts: list[tuple[str, str]] = []
    room = width
    for number, part in enumerate(parts):
        text = (GAP if number else "") + part.text
        if cell_len(text) > room:
            text = set_cell_size(text, max(0, room - 1)) + "…"[: max(0, room)]
        room -= cell_len(text)
        texts.append((part.style, text))
    return tuple(texts)


def format_tokens(count: int) -> str:
    """Return a number of tokens in few characters: `950`, `12.3k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    return f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"


def _parts(standing: StatusLineState) -> Sequence[StatusSegment]:
    """Return all there is to tell, in the order it is read."""
    parts = []
    if standing.doing:
        frame = SPINNER[int(standing.busy_s * FRAMES_PER_S) % len(SPINNER)]
        parts.append(StatusSegment(9, f"{frame} {standing.doing} {_seconds(standing.busy_s)}", "class:status.busy"))
    if standing.mode != "default":
        parts.append(StatusSegment(6, standing.mode, "class:status.mode"))
    if standing.agents:
        parts.append(StatusSegment(8, f"{standing.agents} agent{'s' * (standing.agents > 1)}", "class:status.agents"))
    parts.append(StatusSegment(5, f"↑{format_tokens(standing.input_tokens)} ↓{format_tokens(standing.output_tokens)}"))
    if standing.window is not None:
        style = "class:status.full" if standing.window >= 0.7 else ""
        parts.append(StatusSegment(4, f"{standing.window:.0%} of window", style))
    parts.append(StatusSegment(7, "$?" if standing.cost_usd is None else format_usd(standing.cost_usd)))
    parts.append(StatusSegment(3, short_model(standing.model)))
    if standing.mode == "default":
        parts.append(StatusSegment(2, "default"))
    if not standing.doing:
        parts.append(StatusSegment(1, "/help"))
    return parts


def _columns(parts: Sequence[StatusSegment]) -> int:
    return sum(cell_len(part.text) for part in parts) + len(GAP) * (len(parts) - 1)


def _seconds(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole}s" if whole < 60 else f"{whole // 60}m{whole % 60:02}s"


def short_model(model: str) -> str:
    """Return a model string that is no longer than it must be: of a path its name, of a server its model."""
    provider, _, name = model.partition(":")
    name = name.partition("@")[0] if provider == "local" else name
    text = f"{provider}:{name.rpartition('/')[2]}" if provider == "cassette" else f"{provider}:{name}"
    return text if len(text) <= SHORT_MODEL else f"{text[: SHORT_MODEL - 1]}…"
