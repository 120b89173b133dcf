"""Questions to the editor's user, in the protocol's words, and what the answers mean."""

import json
from collections.abc import Sequence

from acp.helpers import text_block, tool_content
from acp.schema import AllowedOutcome, PermissionOption, RequestPermissionResponse, ToolCallUpdate

from scaffold.acp.tool_calls import Content, call_kind, call_title
from scaffold.policy.permission.approval_gate import ApprovalAnswer, ApprovalQuestion
from scaffold.policy.secret.redaction import Redactor

ALLOW, ALWAYS, DENY = "allow", "always", "deny"


def permission_options(question: ApprovalQuestion) -> list[PermissionOption]:
    """Return the possible answers; "always" says what it would allow."""
    options = [PermissionOption(option_id=ALLOW, name="Allow", kind="allow_once")]
    if question.always is not None:
        scope = question.always or "exactly this call"
        name = f"Allow {scope} in this session"
        options.append(PermissionOption(option_id=ALWAYS, name=name, kind="allow_always"))
    return [*options, PermissionOption(option_id=DENY, name="Deny", kind="reject_once")]


def answer_of(response: RequestPermissionResponse, question: ApprovalQuestion) -> ApprovalAnswer:
    """Return the answer that the user chose; whatever was not offered denies."""
    outcome = response.outcome
    if not isinstance(outcome, AllowedOutcome):
        return "deny"
    if outcome.option_id == ALWAYS and question.always is not None:
        return "always"
    return "allow" if outcome.option_id == ALLOW else "deny"


def asked_call(
    call_id: str, question: ApprovalQuestion, change: Sequence[Content], redactor: Redactor
) -> ToolCallUpdate:
    """Return what the editor shows of a call: the change it makes, the whole command, why it needs approval."""
    args = redactor.clean_all(json.loads(question.args))
    who = f"{question.agent} asks: " if question.agent else ""
    words = redactor.clean(f"{who}{question.why}\n\n{question.subject}")
    return ToolCallUpdate(
        tool_call_id=call_id,
        title=call_title(question.tool, args),
        kind=call_kind(question.tool),
        status="pending",
        content=[*change, tool_content(text_block(words))],
        raw_input=args,
    )
