"""Which settings of an environment or a file hold secrets, by their names and by what their values look like. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from scaffold.policy.redaction import SHORTEST
from scaffold.policy.shapes import DEFAULT_PASSWORDS

_WORDS = "KEY|KEYS|TOKEN|TOKENS|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|PASS|CREDENTIAL|CREDENTIALS|AUTH|SALT"
_NAMED = re.compile(
    rf"(?:^|[_.\-])(?:{_WORDS})(?:$|[_.\-])|(?:APIKEY|AUTHTOKEN|TOKEN|SECRET|PASSWORD|PASSWD|ACCESSKEY|SECRETKEY)$",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"[_.\-](?:ALGORITHM|AUDIENCE|BACKEND|CLASS|COOKIE|DOMAIN|FIELD|FORMAT|HEADER|ISSUER|LENGTH|METHOD|MODE|MODULE|NAME"
    r"|POLICY|PREFIX|PROVIDER|REALM|REGION|SCHEDULE|SCOPES?|SUFFIX|TYPE|USER|USERNAME|VERSION)$",
    re.IGNORECASE,
)
"""Names of settings about a secret, which hold none: `TOKEN_HEADER`."""
_EVERYBODYS = re.compile(DEFAULT_PASSWORDS, re.IGNORECASE)
_HARMLESS = re.compile(
    r"(?:true|false|none|null|yes|no|on|off|localhost|change[-_ ]?(?:me|this|it)|placeholder|example|password|secret"
    r"|development|production|disabled|enabled|required|optional|(?:your|my|some|test|dummy|fake)[-_ ][a-z_ -]+"
    r"|x+|\*+|\.+|<.*>|\$\{?\w+\}?|[-+]?[\d.,:_]+[a-z]{0,2}"
    r"|(?:~|\.{0,2})/[\w.@ -]*(?:/[\w.@ -]*)*|[a-z]:\\.*|[\w-]+(?:\.[\w-]+)*:\d+|\w[\w.+-]*@[\w.-]+)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^\s/@]*@)?", re.IGNORECASE)
_LOGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s:/@]*:([^\s/@]+)@", re.IGNORECASE)
_MACHINE = re.compile(r"\bpassword[ \t]++([^\s=:]\S*+)")
_ONE_WORD = re.compile(r"[A-Za-z0-9+/=_.~-]{20,}")
_IDENTIFIER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
"""A UUID, a commit, a digest."""
_SETTING = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?["']?(?P<name>[\w.:/-]*\w)["']?[ \t]*(?:=|:[ \t])[ \t]*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s"'#][^\n]*+))""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"\s#.*")
RANDOM_BITS = 3.7
"""Bits of information a character: random letters and digits have more, words and names less."""


def secret_values(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that hold a secret by their name, and the passwords in addresses.

    What no secret can be is left out, whatever its name: switches, numbers, paths, hosts, placeholders, and
    passwords that are everybody's.
    """
    secrets = {}
    for name, value in settings.items():
        login = _LOGIN.match(value)
        if login is not None:
            secrets[name] = login[1]
        elif _names_secret(name) and _can_be_secret(value):
            secrets[name] = value
    return {name: value for name, value in secrets.items() if not _EVERYBODYS.fullmatch(value)}


def file_secrets(text: str) -> dict[str, str]:
    """Return what is secret in a file of settings: by name, by looking random, and as a login in an address.

    A setting is `NAME=value`, with or without `export`, `name: value`, or a password of a `.netrc`.
    """
    settings = dict(settings_of(text))
    random = {name: value for name, value in settings.items() if _looks_random(value)}
    found = (login[1] for login in chain(_LOGIN.finditer(text), _MACHINE.finditer(text)))
    logins = (login for login in found if not _EVERYBODYS.fullmatch(login))
    return {f"login-{number}": login for number, login in enumerate(logins, 1)} | random | secret_values(settings)


def settings_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a file of lines, each with its value unquoted; what is no setting is passed over."""
    for found in _SETTING.finditer(text):
        if found["double"] is not None:
            yield found["name"], re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), found["double"])
        elif found["single"] is not None:
            yield found["name"], found["single"]
        else:
            yield found["name"], _COMMENT.sub("", found["bare"]).strip().rstrip(",")


_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def _names_secret(name: str) -> bool:
    return _NAMED.search(name) is not None and not _ABOUT.search(name)


def _can_be_secret(value: str) -> bool:
    return len(value) >= SHORTEST and not _HARMLESS.fullmatch(value) and not _ADDRESS.match(value)


def _looks_random(value: str) -> bool:
    if not _ONE_WORD.fullmatch(value) or _IDENTIFIER.fullmatch(value) or not _can_be_secret(value):
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and _bits(value) >= RANDOM_BITS


def _bits(text: str) -> float:
    """Return the information in a character of `text`, by how often each one stands in it."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())
