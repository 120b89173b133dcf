"""Slash commands: words for us, not for the model. Only their reading; whoever reads them carries them out."""

import re
from collections.abc import Sequence

from msgspec import Struct

HELP = "The commands are `/model` and `/model NAME`; begin with a space to say it to the model."

_COMMAND = re.compile(r"/(?P<name>[a-z][a-z_-]*)(?:\s+(?P<rest>.*))?", re.DOTALL | re.IGNORECASE)


class ShowModels(Struct, frozen=True, tag="show_models"):
    """Tell which model answers, and which are known."""


class SwitchModel(Struct, frozen=True, tag="switch_model"):
    """Let another model answer from now on."""

    model: str
    """A model string as it was typed."""


class Misunderstood(Struct, frozen=True, tag="misunderstood"):
    """It looks like a command and is none."""

    what: str
    fix: str


Command = ShowModels | SwitchModel | Misunderstood


def parse_slash(line: str) -> Command | None:
    """Return the command that `line` is, None for words that are for the model; `/usr/bin is full` is for the model."""
    found = _COMMAND.fullmatch(line.rstrip())
    if found is None:
        return None
    name, words = found["name"].lower(), (found["rest"] or "").split()
    if name != "model":
        return Misunderstood(f"there is no command `/{name}`", HELP)
    if len(words) > 1:
        return Misunderstood(f"`/model` takes one name, not {len(words)}", "Write it like `/model openai:NAME`.")
    return SwitchModel(words[0]) if words else ShowModels()


def model_listing(current: str, known: Sequence[str]) -> str:
    """Return which model answers and which others could, a line each."""
    others = [f"  {model}" for model in known if model != current]
    return "\n".join([f"* {current}", *others, "Switch with `/model NAME`; models that are not listed work, too."])
