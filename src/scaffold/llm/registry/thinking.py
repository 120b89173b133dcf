"""The thinking parameters of each model's requests, as data: the first row that matches a name counts. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.run_settings import Effort

ThinkingForm = Literal["none", "fixed", "budget", "adaptive", "effort", "unknown"]
"""Does not think | always thinks, without a parameter | thinks within a budget of tokens | decides itself, guided by an
effort | takes an effort | only the server knows."""
OffForm = Literal["omitted", "disabled", "between_tools", "none", "minimal", "least"]
"""How thinking is turned off: by leaving the parameter out | by this value of it | not at all: the least is asked."""


EXPECTED_TOKENS: Mapping[str, int] = {"low": 500, "medium": 2_000, "high": 6_000}
"""Tokens of thoughts to expect in a first reply, by level; only for its estimated cost."""


class ThinkingSupport(Struct, frozen=True, kw_only=True):
    """How a model's thinking is controlled."""

    form: ThinkingForm
    off: OffForm = "omitted"
    efforts: tuple[str, ...] = ("low", "medium", "high")
    """The efforts it accepts, the least first."""
    with_chat_tools: bool = True
    """Whether it may think in requests with tools on Chat Completions."""

    def level(self, effort: Effort) -> str:
        """Return the accepted effort nearest to a level; `auto` is medium, `off` the least."""
        if effort == "off":
            return self.efforts[0]
        wanted = "medium" if effort == "auto" else effort
        return wanted if wanted in self.efforts else self.efforts[-1 if wanted == "high" else 0]

    def expected_tokens(self, effort: Effort | None) -> int:
        """Return the tokens of thoughts to expect in a reply; 0 for none, and where only the server knows."""
        silent = self.form == "none" or (self.form == "unknown" and effort in {None, "auto"})
        turned_off = effort == "off" and self.off != "least" and self.form != "fixed"
        return 0 if silent or turned_off else EXPECTED_TOKENS[self.level(effort or "auto")]


NO_THINKING = ThinkingSupport(form="none")
UNKNOWN_THINKING = ThinkingSupport(form="unknown")
_BUDGET = ThinkingSupport(form="budget")

_CLAUDE: Sequence[tuple[str, ThinkingSupport]] = (
    (r"claude-(2|v|instant|3-(opus|sonnet|haiku)|3[-.]5)", NO_THINKING),
    (r"claude-(fable|mythos|opus-5[-.]5)", ThinkingSupport(form="adaptive", off="least")),
    (r"claude-sonnet-5[-.]5", ThinkingSupport(form="adaptive", off="between_tools")),
    (r"claude-(opus|sonnet|haiku)-5", ThinkingSupport(form="adaptive", off="disabled")),
    (r"claude-(opus|sonnet|haiku)-4[-.]([6-9]|\d\d)(?!\d)", ThinkingSupport(form="adaptive")),
    (r"claude-(3[-.]7|4-|[a-z]+-4(?!\d))", _BUDGET),
    (r"claude-", ThinkingSupport(form="adaptive", off="least")),
)
_GPT: Sequence[tuple[str, ThinkingSupport]] = (
    (r"gpt-[34]|gpt-audio|chatgpt-|davinci|gpt-([\d.]+-)?chat", NO_THINKING),
    (r"o1-(mini|preview)", ThinkingSupport(form="fixed")),
    (r"gpt-5-pro", ThinkingSupport(form="effort", off="least", efforts=("high",))),
    (r"gpt-[\d.]+-pro", ThinkingSupport(form="effort", off="least", efforts=("medium", "high"))),
    (r"o\d|codex|gpt-[\d.]+-codex", ThinkingSupport(form="effort", off="least")),
    (r"gpt-5(?![.\d])", ThinkingSupport(form="effort", off="minimal")),
    (r"gpt-5\.1", ThinkingSupport(form="effort", off="none")),
    (r"gpt-[5-9]", ThinkingSupport(form="effort", off="none", with_chat_tools=False)),
)
_FAMILIES: Mapping[str, Sequence[tuple[str, ThinkingSupport]]] = {"anthropic": _CLAUDE, "openai": _GPT}
# Prefixes of tuned models and gateways before a model's name.
_PREFIX = re.compile(r"^ft:|^.*(?=claude-)")


def thinking_support(family: str, name: str) -> ThinkingSupport:
    """Return the support for thinking of a model of a family (`anthropic`, `openai`)."""
    plain = _PREFIX.sub("", name.lower())
    rows = _FAMILIES.get(family, ())
    return next((support for pattern, support in rows if re.match(pattern, plain)), UNKNOWN_THINKING)
