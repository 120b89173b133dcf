"""Log in on another device: show a code, wait until the user has entered it there.

The provider's own flow, not RFC 8628: what comes in the end is an authorization code, together with the
verifier that the server chose for it.
"""

import asyncio
import math
import re
from typing import TypeVar

import msgspec
from msgspec import Struct

from scaffold.core.errors import ModelAccessDenied, ModelError
from scaffold.llm.transport.live_context import HttpClient, HttpRequest
from scaffold.login.provider import CLIENT, LoginProvider
from scaffold.login.token_endpoint import DEADLINES, TRY_LATER, post_small

WAIT_S = 900.0  # how long a code is valid
LEAST_S, DEFAULT_S, MOST_S = 1.0, 5.0, 60.0  # between two questions, whatever interval the server names
PENDING = frozenset({403, 404})  # the statuses of a code that was not entered yet
BUSY = 429
HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "scaffold"}
ELSEWHERE = "Use `ralph login --headless`, which needs a browser on any machine."
_CODE = re.compile(r"[A-Za-z0-9-]{4,32}")
_T = TypeVar("_T")


class DeviceCode(Struct, frozen=True, kw_only=True):
    """What the user enters (`user_code`), on which page, and how often to ask whether they have."""

    device: str
    user_code: str
    page: str
    interval_s: float

    def __repr__(self) -> str:
        return "DeviceCode()"


class DeviceGrant(Struct, frozen=True, kw_only=True):
    """An authorization code for a device, and what is needed to exchange it."""

    code: str
    verifier: str
    redirect_uri: str

    def __repr__(self) -> str:
        return "DeviceGrant()"


class _DeviceAnswer(Struct, frozen=True):
    device_auth_id: str
    user_code: str = ""
    usercode: str = ""
    interval: float | str = DEFAULT_S


class _GrantAnswer(Struct, frozen=True):
    authorization_code: str
    code_verifier: str


class DeviceAuthorization:
    """The device flow of one provider. Its errors have no code in them."""

    def __init__(self, provider: LoginProvider, wire: HttpClient, *, wait_s: float = WAIT_S) -> None:
        self._provider = provider
        self._wire = wire
        self._wait_s = wait_s

    async def begin(self) -> DeviceCode:
        """Return a new code; ModelAccessDenied if the provider gives none, ModelError if the answer is unusable."""
        url = self._provider.device_code_url
        status, body = await self._post_form(url, {"client_id": CLIENT})
        if status in PENDING:
            raise ModelAccessDenied(f"{url} offers no login by a code (HTTP {status})", ELSEWHERE)
        if status != 200:
            raise ModelError(f"{url} answered HTTP {status}", TRY_LATER, transient=True)
        answer = _read_body(url, body, _DeviceAnswer)
        code = answer.user_code or answer.usercode
        if not answer.device_auth_id or not _CODE.fullmatch(code):
            raise ModelError(f"the answer of {url} has no code that can be shown", ELSEWHERE)
        # The server names the seconds as a number or as text.
        try:
            seconds = float(answer.interval)
        except ValueError:
            seconds = DEFAULT_S
        interval_s = min(max(seconds, LEAST_S), MOST_S) if math.isfinite(seconds) else DEFAULT_S
        return DeviceCode(
            device=answer.device_auth_id, user_code=code, page=self._provider.device_url, interval_s=interval_s
        )

    async def grant(self, code: DeviceCode) -> DeviceGrant:
        """Wait until the user has entered the code; ModelAccessDenied if it was refused, or is no longer valid."""
        try:
            async with asyncio.timeout(self._wait_s):
                while True:
                    answer = await self._poll_grant(code)
                    if answer is not None:
                        break
                    await asyncio.sleep(code.interval_s)
        except TimeoutError as error:
            what = f"the code was not entered within {self._wait_s / 60:.0f} minutes"
            raise ModelAccessDenied(what, "Repeat `ralph login --device`.") from error
        return DeviceGrant(
            code=answer.authorization_code,
            verifier=answer.code_verifier,
            redirect_uri=self._provider.device_redirect_uri,
        )

    async def _poll_grant(self, code: DeviceCode) -> _GrantAnswer | None:
        # The user may take minutes: a server that cannot be reached meanwhile is asked again.
        url = self._provider.device_answer_url
        try:
            status, body = await self._post_form(url, {"device_auth_id": code.device, "user_code": code.user_code})
        except ModelError as error:
            if error.transient:
                return None
            raise
        if status == 200:
            return _read_body(url, body, _GrantAnswer)
        if status in PENDING or status == BUSY or status >= 500:
            return None
        raise ModelAccessDenied(f"{url} refused the code (HTTP {status})", "Repeat `ralph login --device`.")

    async def _post_form(self, url: str, content: dict[str, str]) -> tuple[int, bytes]:
        body = msgspec.json.encode(content)
        return await post_small(self._wire, HttpRequest(url=url, headers=HEADERS, body=body, deadlines=DEADLINES))


def _read_body(url: str, body: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ModelError(f"the answer of {url} cannot be read", ELSEWHERE) from error
