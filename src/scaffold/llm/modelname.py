"""Names of models, understood."""

from typing import Literal, get_args

from msgspec import Struct

Provider = Literal["anthropic", "openai", "openai-chat", "codex", "local", "cassette"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)


class ModelName(Struct, frozen=True):
    """A model string, understood; `name` is the file's path for cassettes, `url` is set for `local` alone."""

    provider: Provider
    name: str
    url: str | None = None

    def __str__(self) -> str:
        at = f"@{self.url}" if self.url else ""
        return f"{self.provider}:{self.name}{at}"
