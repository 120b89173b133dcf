"""Model strings: what they may say."""

from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.errors import UsageProblem
from scaffold.llm.prices import find_family

Provider = Literal["anthropic", "openai", "openai-chat", "codex", "local", "cassette"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)

FORMS = (
    "Write anthropic:NAME, openai:NAME, openai-chat:NAME, codex:NAME, local:NAME@http://HOST:PORT/v1 or cassette:PATH."
)


class ModelName(Struct, frozen=True):
    """A model string, understood; `name` is the file's path for cassettes, `url` is set for `local` alone."""

    provider: Provider
    name: str
    url: str | None = None

    def __str__(self) -> str:
        at = f"@{self.url}" if self.url else ""
        return f"{self.provider}:{self.name}{at}"


def parse_model(text: str) -> ModelName:
    """Return what the model string `text` means; UsageProblem that lists the forms if it means nothing.

    A plain name of a model that just one provider makes, e.g. `claude-sonnet-4-5`, is that provider's.
    """
    word, _, rest = text.strip().partition(":")
    provider = next((known for known in PROVIDERS if known == word), None)
    if provider is None and not rest and (maker := find_family(word)) is not None:
        return ModelName(maker, word)
    if provider is None or not rest:
        raise UsageProblem(f"`{text}` names no model.", FORMS)
    if provider != "local":
        return ModelName(provider, rest)
    name, _, url = rest.partition("@")
    if "@" in url:  # model strings are stored and shown
        raise UsageProblem("The local model's URL holds a login.", "Leave it out; LOCAL_API_KEY takes the key.")
    if not name or not url.startswith(("http://", "https://")):
        raise UsageProblem(f"`{text}` does not say where the local model is.", FORMS)
    return ModelName(provider, name, url)


def pinned_model(text: str) -> str:
    """Return the model string so that it means the same from every directory: a cassette's path is made absolute.

    Opens no file. UsageProblem as `parse_model`.
    """
    model = parse_model(text)
    if model.provider != "cassette":
        return str(model)
    return str(ModelName("cassette", str(Path(model.name).expanduser().absolute())))


def needs_line(text: str) -> bool:
    """Tell whether the model is asked over the network, so that `open_model` needs a line; UsageProblem likewise."""
    return parse_model(text).provider != "cassette"
