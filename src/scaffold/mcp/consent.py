"""Consent to changes: given when the server starts, or asked of the client's user for each call."""

from collections.abc import Mapping
from typing import Any, Literal

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import (
    CallToolRequestParams,
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from scaffold.core.errors import UsageError
from scaffold.host.random_ids import new_id

Power = Literal["start", "steer"]
Context = ServerRequestContext[Any, Any]
CONSENT = "consent"  # the key of our question, and of its answer
FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"agree": {"type": "boolean", "title": "Do this", "default": False}},
    "required": ["agree"],
}


class ConsentRefused(UsageError):
    """A call needed consent and did not get it."""


class ConsentDesk:
    """Knows what was allowed when the server started, and which questions are open."""

    def __init__(self, allowed: frozenset[Power]) -> None:
        self.allowed = allowed
        self._open: set[str] = set()

    async def ask(
        self, ctx: Context, params: CallToolRequestParams, power: Power, question: str
    ) -> InputRequiredResult | None:
        """Return None if there is consent to the call, or the question that the client has to put to its user.

        A consent counts for one call with these arguments: the state that the client echoes is sealed by the SDK
        together with them, and each is taken once. Raises ConsentRefused.
        """
        if power in self.allowed:
            return None
        if not can_ask(ctx):
            what = "this server is read-only: started without consent to changes, and the client cannot ask its user"
            raise ConsentRefused(what, f"Start it with `scaffold mcp --allow-{power}`.")
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            try:
                answer = await ctx.session.elicit_form(question, dict(FORM), related_request_id=ctx.request_id)
            except (NoBackChannelError, MCPError) as error:
                raise ConsentRefused(f"the client could not ask the user: {error}", "Nothing was done.") from error
            _require_agreed(answer)
            return None
        given = (params.input_responses or {}).get(CONSENT)
        # An answer to a question that is not open is no consent: the user is asked.
        if given is None or params.request_state not in self._open:
            number = new_id()
            self._open.add(number)
            request = ElicitRequest(params=ElicitRequestFormParams(message=question, requested_schema=dict(FORM)))
            return InputRequiredResult(input_requests={CONSENT: request}, request_state=number)
        self._open.discard(params.request_state)  # each consent counts once
        _require_agreed(given)
        return None


def can_ask(ctx: Context) -> bool:
    """Return whether the client can put a form to its user."""
    return ctx.session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability()))


def _require_agreed(given: object) -> None:
    agreed = isinstance(given, ElicitResult) and given.action == "accept" and (given.content or {}).get("agree") is True
    if not agreed:
        raise ConsentRefused("the user did not agree", "Nothing was done. Ask the user what to do instead.")
