"""Parsers of settings: each returns the stored value, or raises ValueError with the expected form."""

import math
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.host.child_environment import is_never_inherited
from scaffold.llm.registry.model_name import embedding_model as find_embedding_model
from scaffold.llm.registry.model_name import is_live, parse_model
from scaffold.plan.notification import channel_entry, channels_of, parse_channel, parse_quiet_hours
from scaffold.policy.rule.tool_rules import parse_rule
from scaffold.verify.services.specs import parse_external

ConfigValue = str | int | float | tuple[str, ...] | None
Parser = Callable[[object], ConfigValue]
"""Raises ValueError with the expected form, to be read after "must be", or UsageError with more."""

SIZES = ("small", "medium", "large")
"""Names for models that the user configures: `models.small` and so on."""
MAX_BUDGET_USD = 1_000_000_000
MAX_BUDGET_TOKENS = 1_000_000_000_000
MIN_WINDOW = 1_000
"""A smaller window cannot hold an agent's prompt."""
AUTO = "auto"
OFF = "off"
NONE = "none"
UNLIMITED = "unlimited"

_TAG = re.compile(r"@[A-Za-z_][\w-]*")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*(:(?P<port>[0-9]{1,5}))?")
_WINDOW = re.compile(r"\S+\s+(?P<tokens>[0-9]{1,9})")
_TIER = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class OneOf(Struct, frozen=True):
    """The parser of a choice; YAML reads a plain `off` as False."""

    words: tuple[str, ...]

    def __call__(self, given: object) -> ConfigValue:
        """Return the word."""
        # YAML 1.1 reads a plain `off` as False.
        word = OFF if given is False else given
        if word not in self.words:
            raise ValueError(f"one of {', '.join(self.words)}")
        return str(word)


def one_of(*words: str) -> Parser:
    """Return the parser of a choice of words."""
    return OneOf(words)


def list_of(what: str, entry: Callable[[str], str]) -> Parser:
    """Return the parser of a list without duplicates; `entry` parses one entry and raises as a parser does."""

    def parse(given: object) -> ConfigValue:
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise ValueError(f"a list of {what}")  # noqa: TRY004 - as every parser
        # YAML reads a plain `off`, `no`, `on` or `yes` as a truth value.
        if any(isinstance(each, bool) for each in given):
            raise ValueError(f"a list of {what}, with words such as `off` in quotes")
        return tuple(dict.fromkeys(entry(str(each).strip()) for each in given))

    return parse


def integer(least: int, most: int) -> Parser:
    """Return the parser of a whole number within bounds."""

    def parse(given: object) -> ConfigValue:
        # In Python True is the integer 1.
        if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return given

    return parse


def positive(unit: str, most: float = math.inf) -> Parser:
    """Return the parser of a number above 0, and at most `most`."""
    expected = f"a positive number of {unit}" + ("" if most == math.inf else f", {most:,} at most")

    def parse(given: object) -> ConfigValue:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= most or given == math.inf:
            raise ValueError(expected)
        return given

    return parse


def limit(unit: str, most: int) -> Parser:
    """Return the parser of a whole number from 0, or `unlimited`."""

    def parse(given: object) -> ConfigValue:
        if given == UNLIMITED:
            return UNLIMITED
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= most:
            raise ValueError(f"a number of {unit} from 0 to {most:,}, or `{UNLIMITED}`")
        return given

    return parse


def share(given: object) -> ConfigValue:
    """Return a number from 0 to 1."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise ValueError("a number from 0 to 1")
    return given


def positive_share(given: object) -> ConfigValue:
    """Return a number above 0, at most 1."""
    if given == 0:
        raise ValueError("a number above 0, at most 1")
    return share(given)


def dollars(given: object) -> ConfigValue:
    """Return an amount of money above 0: with a limit of 0 no request could start."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= MAX_BUDGET_USD:
        raise ValueError(f"an amount in dollars, above 0 and at most {MAX_BUDGET_USD:,}")
    return given


def tokens(given: object) -> ConfigValue:
    """Return a limit in tokens."""
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MAX_BUDGET_TOKENS:
        raise ValueError(f"a whole number of tokens from 1 to {MAX_BUDGET_TOKENS:,}")
    return given


def model(given: object) -> ConfigValue:
    """Return a model string or a size."""
    return str(given) if given in SIZES else named_model(given)


def named_model(given: object) -> ConfigValue:
    """Return a model string."""
    if isinstance(given, str):
        return str(parse_model(given))
    raise ValueError("a model string such as `anthropic:NAME`")


def embedding_model(given: object) -> ConfigValue:
    """Return a model string of a provider with embeddings."""
    if isinstance(given, str):
        return str(find_embedding_model(given))
    raise ValueError("a model string such as `openai:text-embedding-3-small`")


def alternatives(given: object) -> ConfigValue:
    """Return one or several model strings: the next one takes over while an endpoint accepts no requests."""
    if isinstance(given, str):
        return named_model(given)
    if not isinstance(given, Sequence) or not given:
        raise ValueError("a model string such as `anthropic:NAME`, or a list of some")
    names = tuple(dict.fromkeys(str(named_model(each)) for each in given))
    if len(names) > 1 and not all(map(is_live, names)):
        raise ValueError("live models, if there are several")
    return names if len(names) > 1 else names[0]


def role_models(given: object) -> ConfigValue:
    """Return one or several model strings or sizes: the next one takes over while one cannot be asked."""
    if isinstance(given, str):
        return model(given)
    if not isinstance(given, Sequence) or not given:
        raise ValueError("a model string such as `anthropic:NAME`, a size, or a list of some")
    names = tuple(dict.fromkeys(str(model(each)) for each in given))
    return names if len(names) > 1 else names[0]


def tier(given: object) -> ConfigValue:
    """Return `auto`, or a name that a tier may have."""
    if isinstance(given, str) and (given == AUTO or _TIER.fullmatch(given)):
        return given
    raise ValueError("`auto`, or the name of a tier such as `builder`")


def reviewer(given: object) -> ConfigValue:
    """Return `auto`, `off`, a model string or a size."""
    # YAML 1.1 reads a plain `off` as False.
    word = OFF if given is False else given
    return str(word) if word in {AUTO, OFF} else model(word)


def command(given: object) -> ConfigValue:
    """Return a shell command."""
    if isinstance(given, str) and given.strip() and "\0" not in given:
        return given.strip()
    raise ValueError("a command for /bin/sh")


def notify(given: object) -> ConfigValue:
    """Return a command, or channels as `plan/notification.py` reads them."""
    if not isinstance(given, list | tuple):
        channels_of(str(command(given)))
        return command(given)
    return tuple(dict.fromkeys(channel_entry(parse_channel(str(each))) for each in given))


def quiet_hours(given: object) -> ConfigValue:
    """Return a time of the day as `BEGIN-END`."""
    found = parse_quiet_hours(str(given))
    return f"{found.begin:%H:%M}-{found.end:%H:%M}"


def message(given: object) -> ConfigValue:
    """Return the template of a commit message."""
    if isinstance(given, str) and given.strip() and "\0" not in given:
        return given.strip()
    raise ValueError("the text of a commit message")


def switch(given: object) -> ConfigValue:
    """Return `on` or `off`."""
    # YAML 1.1 reads both words as truth values.
    word = {True: "on", False: OFF}.get(given, given) if isinstance(given, bool) else given
    if word not in {"on", OFF}:
        raise ValueError("`on` or `off`")
    return str(word)


def hidden_path(text: str) -> str:
    """Return a path that is not the home, nor around it: what nobody named there stays hidden."""
    path = os.path.normpath(Path.home() / os.path.expanduser(text))  # noqa: PTH111 - this does not raise
    if Path.home().is_relative_to(path) or not text or "\0" in text:
        raise _bad_entry("paths in your home such as `~/data`, or absolute ones", text)
    return text


def branch(text: str) -> str:
    """Return the short name of a branch."""
    if not text or text.startswith(("-", "refs/")) or any(each in " ~^:?*[\\" for each in text):
        raise _bad_entry("names of branches such as `release`", text)
    return text


def gate(given: object) -> ConfigValue:
    """Return `auto`, `off` or a command."""
    return OFF if given is False else command(given)


def setup(given: object) -> ConfigValue:
    """Return the commands that prepare a checkout; `off`, as a word or a list of one, for none."""
    expected = "commands, or `off` alone"
    commands = list_of(expected, _shell_command)([OFF] if given is False or given == OFF else given)
    if commands != (OFF,) and isinstance(commands, tuple) and OFF in commands:
        raise ValueError(f"a list of {expected}")
    return commands


def service(text: str) -> str:
    """Return a service: a command or an address."""
    parsed = _shell_command(text)
    parse_external(parsed)
    return parsed


def tagged_path(text: str) -> str:
    """Return a path with the tags of its tests."""
    path, *tags = text.split() or [""]
    inside = path and not path.startswith(("/", "@")) and ".." not in path.split("/")
    if not inside or not tags or not all(map(_TAG.fullmatch, tags)):
        raise _bad_entry("paths, each with tags of tests, such as `src/auth @auth`", text)
    return " ".join((path, *tags))


def window(text: str) -> str:
    """Return a model, by model string or name, with the tokens of its context window."""
    found = _WINDOW.fullmatch(text)
    if found is None or int(found["tokens"]) < MIN_WINDOW:
        raise _bad_entry(f"models, each with a window of at least {MIN_WINDOW:,} tokens, such as `qwen3 32768`", text)
    return " ".join(text.split())


def allow_rule(text: str) -> str:
    """Return a rule for calls that need no approval."""
    parse_rule(text)
    return text


def deny_rule(text: str) -> str:
    """Return a rule for calls that are always denied."""
    parse_rule(text, denies=True)
    return text


def host(text: str) -> str:
    """Return a host that commands may reach."""
    found = _HOST.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 443) < 65_536:
        raise _bad_entry("hosts such as `example.com`, `*.example.com` or `example.com:8443`", text)
    return text.lower()


def variable(text: str) -> str:
    """Return the name of an environment variable."""
    if not _VARIABLE.fullmatch(text):
        raise _bad_entry("variable names such as `NPM_CONFIG_CACHE`", text)
    # Such as GIT_DIR or PYTHONPATH.
    if is_never_inherited(text):
        raise ValueError(f"a list of variable names, but `{text}` would make commands work on something else")
    return text


def file_name(text: str) -> str:
    """Return the name of a file, without a folder."""
    if not text or "/" in text or text.startswith("."):
        raise _bad_entry("names of files such as `weather.py`", text)
    return text


def path_glob(text: str) -> str:
    """Return a glob of files of the repository."""
    if not text or text.startswith("/") or ".." in text.split("/"):
        raise _bad_entry("globs from the repository's root such as `billing/**`", text)
    return text


def _shell_command(text: str) -> str:
    return str(command(text))


def _bad_entry(expected: str, entry: str) -> ValueError:
    return ValueError(f"a list of {expected}, but `{entry}` is not one")


def _match_parser(pattern: str, expected: str) -> Callable[[str], str]:
    # In any case: file extensions and words are compared without it.
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise _bad_entry(expected, text)
        return text.casefold()

    return parse


area_word = _match_parser(r"[A-Za-z]+", "words of letters only such as `invoice`")
area_type = _match_parser(r"(\.[\w-]+)+", "file extensions such as `.proto`")
