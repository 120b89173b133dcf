"""Endpoints: URL, wire format and key of each provider."""

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct
from msgspec.json import encode

from scaffold.core.errors import UsageError
from scaffold.llm.registry.model_name import ModelName
from scaffold.llm.registry.thinking import thinking_support
from scaffold.llm.transport.live_context import TokenSource
from scaffold.llm.transport.proxies import is_loopback
from scaffold.llm.wire.anthropic import AnthropicCodec
from scaffold.llm.wire.chat_completions import SYSTEM_FORMS, ChatCodec
from scaffold.llm.wire.codec import Codec
from scaffold.llm.wire.responses import ResponsesCodec

CODEX_URL = "https://chatgpt.com/backend-api/codex"
ANTHROPIC_VERSION = "2023-06-01"
INTERLEAVED_THINKING = "interleaved-thinking-2025-05-14"
"""Lets models with a thinking budget think between tool calls, too; later ones do so anyway."""
NO_KEY_HINT = "Or use a local server (`local:NAME@http://HOST:PORT/v1`), or try `scaffold demo`, which needs no key."
KEY_CHARS = 8
"""Hexadecimal digits of the hash that tells keys apart."""
MIN_SECRET_CHARS = 6
"""Shorter keys, such as `none` for local servers, are not secret."""
_SECRET_FIELDS = ("Authorization", "x-api-key", "api-key", "chatgpt-account-id")

# Characters allowed in keys and URLs; others could inject header fields.
_VERSION = re.compile(r"(api-version=[\w.-]+)?")
_VISIBLE = re.compile(r"[\x21-\x7e]+")


class Endpoint(Struct, frozen=True, kw_only=True):
    """A provider's URL, headers and codec. `headers` contain the key; the repr never does."""

    name: str
    """Provider, base URL and, by its hash, the key; models with the same name share rate limits and outages."""
    url: str
    headers: Mapping[str, str]
    codec: Codec
    fallback_codecs: tuple[Codec, ...] = ()
    """To be tried when the server refuses a request; the first only spells calls and results in another way."""
    window_urls: tuple[str, ...] = ()
    """Where a local server may report facts of the model, likeliest first; empty for providers."""
    models_url: str = ""
    """Where the models are listed; empty if nowhere."""
    login: TokenSource | None = None
    """The login whose tokens go with each request; None if `headers` contain the key."""

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r})"

    def without_key(self, words: str) -> str:
        """Return `words` with our key masked: some servers repeat the request in an error."""
        keys = [self.headers.get(field, "").removeprefix("Bearer ") for field in _SECRET_FIELDS]
        for key in (*keys, *(self.login.secrets() if self.login else ())):
            if len(key) >= MIN_SECRET_CHARS:
                words = words.replace(key, "***")
        return words


def find_endpoint(model: ModelName, environ: Mapping[str, str], login: TokenSource | None = None) -> Endpoint:
    """Return the endpoint of `model`, which must not be a cassette; some models need the login of the user.

    UsageError with the variable's name if a key is missing or a base URL is invalid.
    """
    if model.provider != "codex" or environ.get("CODEX_ACCESS_TOKEN"):
        return _ENDPOINTS[model.provider](model, environ)
    if login is None or not (account := login.account()):
        fix = "Run `ralph login`, without a browser `ralph login --headless`; or use `openai:NAME` with OPENAI_API_KEY."
        raise UsageError(f"`{model}` needs a login with your subscription", fix)
    base = base_url("CODEX_BASE_URL", environ, CODEX_URL, protected=True)
    endpoint = _make_endpoint(model, base, {}, ResponsesCodec(codex=True))
    # Named after the account, not after a token that is renewed: all processes share its rate limits.
    name = f"{endpoint.name} (login {sha256(account.encode()).hexdigest()[:KEY_CHARS]})"
    return msgspec.structs.replace(endpoint, name=name, login=login)


def _anthropic_endpoint(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    key = _read_key("ANTHROPIC_API_KEY", environ, "OPENAI_API_KEY with `--model openai:NAME`")
    # The codec's path begins with /v1, which many users write in this variable as well.
    base = base_url("ANTHROPIC_BASE_URL", environ, "https://api.anthropic.com").removesuffix("/v1")
    headers = {"x-api-key": key, "anthropic-version": ANTHROPIC_VERSION}
    if thinking_support("anthropic", model.name).form == "budget":
        headers["anthropic-beta"] = INTERLEAVED_THINKING
    endpoint = _make_endpoint(model, base, headers, AnthropicCodec())
    return msgspec.structs.replace(endpoint, models_url=f"{base}/v1/models?limit=1000")


def _openai_access(environ: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    key = _read_key("OPENAI_API_KEY", environ, "ANTHROPIC_API_KEY with `--model anthropic:NAME`")
    base = _with_version(base_url("OPENAI_BASE_URL", environ, "https://api.openai.com/v1"))
    return base, {"Authorization": f"Bearer {key}"}


def _openai_endpoint(model: ModelName, environ: Mapping[str, str], codec: Codec) -> Endpoint:
    base, headers = _openai_access(environ)
    where, _, query = base.partition("?")
    listed = f"{where}/models{query and f'?{query}'}"
    return msgspec.structs.replace(_make_endpoint(model, base, headers, codec), models_url=listed)


def _chat_endpoint(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    endpoint = _openai_endpoint(model, environ, ChatCodec())
    # OpenAI itself takes all that its wire has.
    forms = SYSTEM_FORMS if environ.get("OPENAI_BASE_URL") else ()
    plainer = tuple(ChatCodec(system=form, one_call=True) for form in forms)
    return msgspec.structs.replace(endpoint, fallback_codecs=plainer)


def _codex_endpoint(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    account = environ.get("CODEX_ACCOUNT_ID")
    if not account:
        fix = "Set it to the account of the token, or unset CODEX_ACCESS_TOKEN and use `ralph login`."
        raise UsageError("CODEX_ACCOUNT_ID is not set", fix)
    headers = {
        "Authorization": f"Bearer {_checked_key('CODEX_ACCESS_TOKEN', environ['CODEX_ACCESS_TOKEN'])}",
        "chatgpt-account-id": _checked_key("CODEX_ACCOUNT_ID", account),
    }
    return _make_endpoint(model, base_url("CODEX_BASE_URL", environ, CODEX_URL), headers, ResponsesCodec(codex=True))


def _local_endpoint(model: ModelName, environ: Mapping[str, str]) -> Endpoint:
    key = environ.get("LOCAL_API_KEY")
    headers = {"Authorization": f"Bearer {_checked_key('LOCAL_API_KEY', key)}"} if key else {}
    address = _with_version(_check_url("the local model's URL", model.url or ""))
    endpoint = _make_endpoint(model, address, headers, ChatCodec(local=True, system="joined"))
    base = address.partition("?")[0]
    root = base.removesuffix("/v1")
    return msgspec.structs.replace(
        endpoint,
        fallback_codecs=tuple(ChatCodec(local=True, system=form, one_call=True) for form in SYSTEM_FORMS[1:]),
        models_url=f"{base}/models",
        window_urls=(
            f"{root}/props?model={quote(model.name)}",  # llama.cpp; only one that serves several reads the name
            f"{base}/models",  # vLLM, SGLang
            f"{root}/api/v0/models",  # LM Studio
            f"{root}/api/ps",  # Ollama
        ),
    )


_ENDPOINTS: Mapping[str, Callable[[ModelName, Mapping[str, str]], Endpoint]] = {
    "anthropic": _anthropic_endpoint,
    "openai": lambda model, environ: _openai_endpoint(model, environ, ResponsesCodec()),
    "openai-chat": _chat_endpoint,
    "codex": _codex_endpoint,
    "local": _local_endpoint,
}


def _make_endpoint(model: ModelName, base: str, headers: Mapping[str, str], codec: Codec) -> Endpoint:
    base, _, query = base.partition("?")
    if query and "Authorization" in headers:  # Azure's dated versions read the key elsewhere
        headers = {**headers, "api-key": headers["Authorization"].removeprefix("Bearer ")}
    fields = {"Content-Type": "application/json", "User-Agent": "scaffold", **headers}
    secrets = [headers[field] for field in _SECRET_FIELDS if field in headers]
    # A hash tells keys apart without showing any of them.
    key = f" (key {sha256(encode(secrets)).hexdigest()[:KEY_CHARS]})" if secrets else ""
    url = base + codec.path + (query and f"?{query}")
    return Endpoint(name=f"{model.provider} {base}{key}", url=url, headers=fields, codec=codec)


def _read_key(variable: str, environ: Mapping[str, str], alternative: str) -> str:
    key = environ.get(variable)
    if not key:
        raise UsageError(f"{variable} is not set", f"Set it to your key; or set {alternative}. {NO_KEY_HINT}")
    return _checked_key(variable, key)


def _checked_key(variable: str, key: str) -> str:
    if not _VISIBLE.fullmatch(key):
        raise UsageError(
            f"{variable} contains a space, a line break or another character that is not allowed in a key",
            "Set it to the key alone, without quotes and without a newline.",
        )
    return key


def base_url(variable: str, environ: Mapping[str, str], default: str, *, protected: bool = False) -> str:
    """Return the base URL that a variable names, or the default; `protected` allows http:// for this machine only.

    UsageError if it is invalid.
    """
    url = _check_url(variable, environ.get(variable) or default)
    parts = urlsplit(url)
    if protected and parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise UsageError(f"{variable} would send your login unencrypted", "Write https://HOST/PATH.")
    return url


def _with_version(base: str) -> str:
    """Return the base URL, with `/v1` appended if it has no path."""
    return base if urlsplit(base).path else f"{base}/v1"


def _check_url(name: str, url: str) -> str:
    """Return a base URL without a trailing slash; UsageError if it is invalid or contains a login.

    It may be the whole address of the chat endpoint, and have Azure's `?api-version=`: other queries may be keys.
    """
    fix = "Write http://HOST:PORT/PATH or https://HOST/PATH, without credentials, `?` or `#`."
    if not _VISIBLE.fullmatch(url):
        raise UsageError(f"{name} is empty or contains characters that are not allowed in a URL", fix)
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise UsageError(f"{name} is not a valid URL: {error}", fix) from error
    if not valid or "@" in parts.netloc or not _VERSION.fullmatch(parts.query) or parts.fragment:
        raise UsageError(f"{name} is not a usable base URL", fix)
    base, _, query = url.partition("?")
    return base.rstrip("/").removesuffix(ChatCodec.path) + (query and f"?{query}")
