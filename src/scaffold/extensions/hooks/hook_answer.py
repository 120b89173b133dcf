"""What a hook says: by its exit code, or in JSON; and what several hooks say together."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import printable, truncate_text
from scaffold.host.process.command_runner import CommandResult

MAX_CONTEXT_CHARS = 10_000  # of what one hook adds to a conversation
MAX_REASON_CHARS = 4_000
MAX_LINE_CHARS = 300
BLOCKED = 2  # the exit code that blocks

Permission = Literal["allow", "deny", "ask", "defer"]
_STRICTNESS: Mapping[Permission | None, int] = {None: 0, "allow": 1, "ask": 2, "defer": 3, "deny": 4}


class _Specific(Struct, rename="camel"):
    permission_decision: Permission | None = None
    permission_decision_reason: str = ""
    updated_input: dict[str, Any] | None = None
    additional_context: str = ""


class _HookOutput(Struct, rename="camel"):
    """The JSON that a hook prints; what is not known is ignored."""

    continue_: bool = msgspec.field(default=True, name="continue")
    stop_reason: str = ""
    suppress_output: bool = False
    system_message: str = ""
    decision: Literal["approve", "block"] | None = None
    reason: str = ""
    hook_specific_output: _Specific | None = None


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What hooks say about an event."""

    blocks: str | None = None
    """Why they block; None if they do not."""
    permission: Permission | None = None
    reason: str = ""
    """For the permission."""
    updated_input: Mapping[str, Any] | None = None
    context: str = ""
    """For the model."""
    stops: str | None = None
    """Why the agent shall stop altogether; None if it need not."""
    lines: tuple[str, ...] = ()
    """For the user."""
    broken: str | None = None
    """Why a hook could not judge, and what to do; None if each could."""


def answer_of(result: CommandResult, who: str, *, text_is_context: bool) -> HookAnswer:
    """Return the answer of a hook that ended; `who` names it, `text_is_context` if plain output is for the model."""
    error = _decode_bounded(result.stderr, MAX_REASON_CHARS)
    if result.exit_code == BLOCKED:
        return HookAnswer(blocks=error or f"{who} blocked it without a reason")
    if result.exit_code != 0:
        ended = f"signal {result.signal}" if result.signal else f"exit code {result.exit_code}"
        last = error.splitlines()[-1:] if error else []
        return HookAnswer(lines=(_notice_line(f"{who} failed with {ended}", *last),))
    text = result.stdout.strip()
    if not text.startswith(b"{"):
        return HookAnswer(context=_decode_bounded(text, MAX_CONTEXT_CHARS) if text_is_context else "")
    if result.truncated:
        return HookAnswer(lines=(f"{who}: its answer is too long and has no effect",))
    try:
        said = msgspec.convert(json.loads(text), _HookOutput)
    except (ValueError, RecursionError, msgspec.ValidationError) as problem:
        return HookAnswer(lines=(_notice_line(f"{who}: its answer has no effect", str(problem)),))
    return _parse_answer(said, who)


def _parse_answer(said: _HookOutput, who: str) -> HookAnswer:
    specific = said.hook_specific_output or _Specific()
    reason = _cut_text(said.reason, MAX_REASON_CHARS)
    message = _cut_text(said.system_message, MAX_REASON_CHARS)
    permission = specific.permission_decision or ("allow" if said.decision == "approve" else None)
    return HookAnswer(
        blocks=(reason or f"{who} blocked it without a reason") if said.decision == "block" else None,
        permission=permission,
        reason=_cut_text(specific.permission_decision_reason, MAX_REASON_CHARS) or reason,
        updated_input=specific.updated_input,
        context=_cut_text(specific.additional_context, MAX_CONTEXT_CHARS),
        stops=None if said.continue_ else _cut_text(said.stop_reason, MAX_REASON_CHARS) or f"{who} says so",
        lines=(message,) if message else (),
    )


def together(answers: Sequence[HookAnswer]) -> HookAnswer:
    """Return what hooks say together: the strictest wins, texts are joined."""
    strictest = max(answers, key=lambda each: _STRICTNESS[each.permission], default=HookAnswer())
    blocks = [each.blocks for each in answers if each.blocks is not None]
    return HookAnswer(
        blocks="\n".join(blocks) if blocks else None,
        permission=strictest.permission,
        reason=strictest.reason,
        updated_input=next((each.updated_input for each in answers if each.updated_input is not None), None),
        context="\n\n".join(each.context for each in answers if each.context),
        stops=next((each.stops for each in answers if each.stops is not None), None),
        lines=tuple(dict.fromkeys(line for each in answers for line in each.lines)),
        broken=next((each.broken for each in answers if each.broken is not None), None),
    )


def _notice_line(*parts: str) -> str:
    return truncate_text(": ".join(printable(part).strip() for part in parts), MAX_LINE_CHARS)


def _decode_bounded(data: bytes, limit: int) -> str:
    return _cut_text(data.decode(errors="replace"), limit)


def _cut_text(text: str, limit: int) -> str:
    return truncate_text(printable(text).strip(), limit)
