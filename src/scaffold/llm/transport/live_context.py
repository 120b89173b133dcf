"""Protocols and values that live models need from outside; `http` has the real client."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field, structs

from scaffold.core.ports import Throttle
from scaffold.core.printable_text import count_of

T = TypeVar("T")
UNAUTHORIZED = 401
RETRY_S = 60.0
"""How long a failing request is repeated while other requests to its endpoint succeed."""


class Deadlines(Struct, frozen=True, kw_only=True):
    """Timeouts of one try of a request, in seconds."""

    connect_s: float = 10.0
    """Until the connection is established."""
    idle_s: float = 60.0
    """Without receiving a byte, or sending one of a long request."""
    total_s: float = 1800.0
    """For the whole reply."""


class Hurry:
    """A user's wish that requests which wait to be sent again are sent at once."""

    def __init__(self) -> None:
        self._wish: asyncio.Event | None = None

    def now(self) -> None:
        """Send the requests that wait at this moment."""
        if self._wish is not None:
            self._wish.set()
            self._wish = None

    async def ends(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of a wait; None as soon as the user does not want to wait any longer."""
        self._wish = wish = self._wish or asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                wait, wished = tasks.create_task(waiting), tasks.create_task(wish.wait())
                await asyncio.wait((wait, wished), return_when=asyncio.FIRST_COMPLETED)
                wished.cancel()
                # One that ends in the same moment keeps its result, which may be a place that must be given back.
                wait.cancel()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the wish raises nothing
        return None if wait.cancelled() else wait.result()


class Patience(Struct, frozen=True):
    """How long a request waits for an endpoint that accepts no requests."""

    wait_s: float = RETRY_S
    """Counted from the request's first failure, or from the time at which it found the endpoint parked."""
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while the request waits for the endpoint."""
    local_s: float = RETRY_S
    """How long a request is repeated to an address of this machine that no server listens on."""
    hurry: Hurry | None = None
    """Ends waits early; None where nobody can."""


LOCAL_RETRY_S = 1.0
IMPATIENT = Patience(local_s=LOCAL_RETRY_S)
"""For interactive use: an endpoint that stays away is an error after a minute, a missing local server sooner."""


def ignore_progress() -> None:
    """Do nothing."""


class HttpRequest(Struct, frozen=True, kw_only=True):
    """One HTTP request; its `headers` contain the key and are never shown."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    deadlines: Deadlines
    on_sent: Callable[[], None] = ignore_progress
    """Called whenever another piece of a long body was sent."""
    admits: Callable[[str], bool] | None = None
    """Returns whether an address, as text, may be connected to; None where the user named the URL."""

    def __repr__(self) -> str:
        return f"HttpRequest({self.url!r}, {len(self.body)} bytes)"


class HttpResponse(Protocol):
    """A response whose head has arrived; the body is read as a stream."""

    @property
    def status(self) -> int:
        """Return the HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the header fields; look names up in lower case."""

    async def read(self) -> bytes:
        """Wait for and return the next decompressed bytes of the body; empty at the end.

        Raises ModelError, transient, if the body breaks off or times out.
        """


class HttpClient(Protocol):
    """An HTTP client, shared by all models of a process."""

    def post(self, post: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request and return its response for `async with`; leaving early closes the connection.

        Raises ModelError, mostly transient, if there is no connection or no response.
        """

    def get(self, asked: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Ask for what is at a URL and return the response, as `post` does; the request has no body."""


class AccessToken(Struct, frozen=True):
    """The authorization of a request: the token, and the id of the account that it is for."""

    token: str
    account: str

    def __repr__(self) -> str:
        return "AccessToken()"


class TokenSource(Protocol):
    """The user's login with a subscription; all processes of the user share its tokens."""

    def account(self) -> str:
        """Return the account's id, of a login that has ended as well; empty if the user is not logged in."""

    async def current(self) -> AccessToken:
        """Return a token that has not expired; ModelError if there is none to be had."""

    async def renewed(self, refused: AccessToken) -> AccessToken | None:
        """Return a newer token than one that the server refused; None if it was new, too. ModelError as `current`."""

    def secrets(self) -> Sequence[str]:
        """Return the tokens that this process has seen."""


class LoginClient:
    """An HttpClient whose POST requests carry the token of a login."""

    def __init__(self, wire: HttpClient, login: TokenSource) -> None:
        self._wire = wire
        self._login = login

    @asynccontextmanager
    async def post(self, post: HttpRequest) -> AsyncGenerator[HttpResponse]:
        """Send the request, and once more with a newer token if the server refuses the first one."""
        token = await self._login.current()
        async with self._wire.post(_authorize_request(post, token)) as response:
            newer = await self._login.renewed(token) if response.status == UNAUTHORIZED else None
            if newer is None:
                yield response
                return
        async with self._wire.post(_authorize_request(post, newer)) as response:
            yield response

    def get(self, asked: HttpRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Ask for what is at a URL, without a token."""
        return self._wire.get(asked)


def _authorize_request(post: HttpRequest, token: AccessToken) -> HttpRequest:
    headers = {"Authorization": f"Bearer {token.token}", "chatgpt-account-id": token.account}
    return structs.replace(post, headers={**post.headers, **headers})


class ServerFacts(Struct, frozen=True, kw_only=True):
    """What a local server says of a model and of itself; None where it says nothing."""

    window: int | None = None
    """The tokens of a request and its reply together."""
    slots: int | None = None
    """The requests that it works on at once."""
    tools: bool | None = None
    several_calls: bool | None = None
    """Whether a reply may have several calls."""
    system_role: bool | None = None
    images: bool | None = None
    chat: bool | None = None
    """Whether it answers at all; one that makes embeddings does not."""

    def extended(self, said: "ServerFacts") -> "ServerFacts":
        """Return these facts with what was said later."""
        return structs.replace(self, **{name: fact for name, fact in structs.asdict(said).items() if fact is not None})

    @property
    def text(self) -> str:
        """What the user should know of them, in a line; empty if nothing is known."""
        told = {
            f"a window of {self.window or 0:,} tokens": self.window is not None,
            f"{count_of(self.slots or 0, 'request')} at once": self.slots is not None,
            "no tools (they are offered as text)": self.tools is False,
            "one call in a reply": self.tools is not False and self.several_calls is False,
            "no images": self.images is False,
        }
        return ", ".join(each for each, known in told.items() if known)


class LearnedWindows:
    """The context windows and other facts that servers reported of their models, remembered for all conversations."""

    def __init__(self) -> None:
        self.tokens: dict[str, int] = {}
        """The smallest window that a refusal named, by endpoint and model."""
        self.looks: Counter[str] = Counter()
        """How often a server was asked for its facts, by endpoint and model."""
        self.facts: dict[str, ServerFacts] = {}
        """What servers said when they were asked, by endpoint and model."""
        self.told_at: dict[str, str] = {}
        """Where a server reported the window, by endpoint and model: each kind of server does elsewhere."""

    def learn(self, key: str, tokens: int) -> None:
        """Remember a window, unless a smaller one is known."""
        self.tokens[key] = min(tokens, self.tokens.get(key, tokens))


class LiveContext(Struct, frozen=True, kw_only=True):
    """Everything that live models need from outside; one for all models of a process."""

    wire: HttpClient
    throttle: Throttle
    environ: Mapping[str, str]
    """The environment with keys and base URLs."""
    deadlines: Deadlines | None = None
    """None: the defaults of each provider."""
    windows: Mapping[str, int] = {}
    """Configured context windows in tokens, by model string or by the model's name at its provider."""
    learned: LearnedWindows = field(default_factory=LearnedWindows)
    login: TokenSource | None = None
    """The user's login with a subscription; None where none can be used."""

    def __repr__(self) -> str:
        return "LiveContext()"
