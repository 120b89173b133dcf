"""Endpoints: where a provider's models are asked, with which wire and which key."""

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from scaffold.core.errors import UsageProblem
from scaffold.llm.anthropic import AnthropicCodec
from scaffold.llm.chat import ChatCodec
from scaffold.llm.codec import Codec
from scaffold.llm.naming import ModelName
from scaffold.llm.responses import ResponsesCodec

ANTHROPIC_VERSION = "2023-06-01"

WITHOUT_KEY = (
    "Or use a server of your own (`local:NAME@http://HOST:PORT/v1`), or see it work without any key: `scaffold demo`."
)

SHORTEST_SECRET = 6
"""Characters; local servers are started with keys such as `none`, which are none."""

_SECRET_FIELDS = ("Authorization", "x-api-key", "chatgpt-account-id")

_VISIBLE = re.compile(r"[\x21-\x7e]+")
"""What a key may consist of: anything else would change the header it is put into."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where requests go. `headers` hold the key; what is shown of an endpoint never does."""

    name: str
    """Whoever shares it shares its limits: the provider and the base URL."""
    url: str
    headers: Mapping[str, str]
    codec: Codec
    plainer: Codec | None = None
    """Spoken to a server that refused two system messages; None where no server does."""

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r})"

    def without_key(self, words: str) -> str:
        """Return what the endpoint said without the key it was sent: some repeat all they got."""
        for field in _SECRET_FIELDS:
            key = self.headers.get(field, "").removeprefix("Bearer ")
            if len(key) >= SHORTEST_SECRET:
                words = words.replace(key, "***")
        return words


def find_endpoint(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    """Return where `model` is asked; UsageProblem that names the variable if a key or a usable base URL is missing.

    `model` is none of a cassette.
    """
    return _ENDPOINTS[model.provider](model, environ)


def _anthropic(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    key = _key("ANTHROPIC_API_KEY", environ, "OPENAI_API_KEY with `--model openai:NAME`")
    base = _base("ANTHROPIC_BASE_URL", environ, "https://api.anthropic.com").removesuffix("/v1")
    headers = {"x-api-key": key, "anthropic-version": ANTHROPIC_VERSION}
    return _endpoint(model, base, headers, AnthropicCodec())


def _responses(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    return _endpoint(model, *_openai(environ), ResponsesCodec())


def _chat(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    return _endpoint(model, *_openai(environ), ChatCodec())


def _openai(environ: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    key = _key("OPENAI_API_KEY", environ, "ANTHROPIC_API_KEY with `--model anthropic:NAME`")
    base = _versioned(_base("OPENAI_BASE_URL", environ, "https://api.openai.com/v1"))
    return base, {"Authorization": f"Bearer {key}"}


def _codex(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    token, account = environ.get("CODEX_ACCESS_TOKEN"), environ.get("CODEX_ACCOUNT_ID")
    if not token or not account:
        raise UsageProblem(
            f"`{model}` needs a login, and this version has none yet.",
            "Use `openai:NAME` with OPENAI_API_KEY, or set CODEX_ACCESS_TOKEN and CODEX_ACCOUNT_ID.",
        )
    headers = {
        "Authorization": f"Bearer {_sound('CODEX_ACCESS_TOKEN', token)}",
        "chatgpt-account-id": _sound("CODEX_ACCOUNT_ID", account),
    }
    base = _base("CODEX_BASE_URL", environ, "https://chatgpt.com/backend-api/codex")
    return _endpoint(model, base, headers, ResponsesCodec(codex=True))


def _local(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    key = environ.get("LOCAL_API_KEY")
    headers = {"Authorization": f"Bearer {_sound('LOCAL_API_KEY', key)}"} if key else {}
    base = _versioned(_checked("The local model's URL", model.url or ""))
    endpoint = _endpoint(model, base, headers, ChatCodec(local=True))
    return msgspec.structs.replace(endpoint, plainer=ChatCodec(local=True, joined=True))


_ENDPOINTS: Mapping[str, Callable[[ModelName, Mapping[str, str]], Endpoint]] = {
    "anthropic": _anthropic,
    "openai": _responses,
    "openai-chat": _chat,
    "codex": _codex,
    "local": _local,
}


def _endpoint(model: ModelName, base: str, headers: Mapping[str, str], codec: Codec) -> Endpoint:
    fields = {"Content-Type": "application/json", "User-Agent": "scaffold", **headers}
    return Endpoint(name=f"{model.provider} {base}", url=base + codec.path, headers=fields, codec=codec)


def _key(variable: str, environ: Mapping[str, str], alternative: str) -> str:
    key = environ.get(variable)
    if not key:
        raise UsageProblem(f"{variable} is not set.", f"Set it to your key; or set {alternative}. {WITHOUT_KEY}")
    return _sound(variable, key)


def _sound(variable: str, key: str) -> str:
    if not _VISIBLE.fullmatch(key):
        raise UsageProblem(
            f"{variable} holds a space, a line break or another character that no key has.",
            "Set it to the key alone, without quotes and without the line's end.",
        )
    return key


def _base(variable: str, environ: Mapping[str, str], default: str) -> str:
    return _checked(variable, environ.get(variable) or default)


def _versioned(base: str) -> str:
    """Return the base URL with the path nearly every server has, if it has none at all."""
    return base if urlsplit(base).path else f"{base}/v1"


def _checked(name: str, url: str) -> str:
    """Return a base URL without its last slash; UsageProblem if it is none, or holds a login."""
    fix = "Write http://HOST:PORT/PATH or https://HOST/PATH, without a login, `?` or `#`."
    if not _VISIBLE.fullmatch(url):
        raise UsageProblem(f"{name} is empty or holds characters that no URL has.", fix)
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise UsageProblem(f"{name} is no URL: {error}.", fix) from error
    if not sound or "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageProblem(f"{name} is no URL that can be asked.", fix)
    return url.rstrip("/")
