"""Find the secrets to redact: in the environment, in files named like secrets, and in the user's logins.

Settings that hold secrets are recognised by their names and values.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from scaffold.policy.secret.redaction import DEFAULT_PASSWORDS, MIN_SECRET_CHARS, Redactor
from scaffold.policy.secret.unreadable_files import secret_scan

CREDENTIAL_FILES = (
    *(".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".git-credentials", ".netrc", ".npmrc"),
    *(".pgpass", ".pypirc", ".cargo/credentials.toml", ".cargo/credentials", ".vault-token", ".gitconfig", ".condarc"),
    *(".config/git/config", ".config/git/credentials", ".config/pip/pip.conf", ".pip/pip.conf", ".yarnrc.yml", ".env"),
    *(".m2/settings.xml", ".gradle/gradle.properties", ".gem/credentials", ".bundle/config", ".composer/auth.json"),
    *(".azure/accessTokens.json", ".kube/config", ".config/hub", ".s3cfg", ".boto"),
    *(".terraform.d/credentials.tfrc.json", ".config/NuGet/NuGet.Config", ".nuget/NuGet/NuGet.Config"),
)
"""Files in a home that hold keys and passwords, one setting per line."""
GIT_FILES = (".gitconfig", ".config/git/config")
"""Git's settings; git fails if it cannot read one that there is."""
CREDENTIAL_LOCATIONS = (
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR"),
    *("BOTO_CONFIG", "CLOUDSDK_CONFIG", "DOCKER_CONFIG", "GH_CONFIG_DIR", "GNUPGHOME", "KUBECONFIG", "NETRC"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "PASSWORD_STORE_DIR", "PGPASSFILE", "PGSERVICEFILE", "XAUTHORITY"),
    *("NPM_CONFIG_USERCONFIG", "npm_config_userconfig", "TF_CLI_CONFIG_FILE", "VAULT_TOKEN_FILE"),
)
"""Variables that name files or folders with credentials."""
READ_BYTES = 65_536
"""Read at most this much of each file; settings files are not longer."""
_WORDS = "KEY|KEYS|TOKEN|TOKENS|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|PASS|CREDENTIAL|CREDENTIALS|AUTH|SALT"
_NAMED = re.compile(
    rf"(?:^|[_.\-])(?:{_WORDS})(?:$|[_.\-])|(?:APIKEY|AUTHTOKEN|TOKEN|SECRET|PASSWORD|PASSWD|ACCESSKEY|SECRETKEY)$",
    re.IGNORECASE,
)
_ABOUT_SECRETS = re.compile(
    r"[_.\-](?:ALGORITHM|AUDIENCE|BACKEND|CLASS|COOKIE|DOMAIN|FIELD|FORMAT|HEADER|ISSUER|LENGTH|METHOD|MODE|MODULE|NAME"
    r"|POLICY|PREFIX|PROVIDER|REALM|REGION|SCHEDULE|SCOPES?|SUFFIX|TYPE|USER|USERNAME|VERSION)$",
    re.IGNORECASE,
)
"""Names of settings that describe a secret but hold none, such as `TOKEN_HEADER`."""
_DEFAULT_PASSWORD = re.compile(DEFAULT_PASSWORDS, re.IGNORECASE)
_HARMLESS = re.compile(
    r"(?:true|false|none|null|yes|no|on|off|localhost|change[-_ ]?(?:me|this|it)|placeholder|example|password|secret"
    r"|development|production|disabled|enabled|required|optional|(?:your|my|some|test|dummy|fake)[-_ ][a-z_ -]+"
    r"|x+|\*+|\.+|<.*>|\$\{?\w+\}?|[-+]?[\d.,:_]+[a-z]{0,2}"
    r"|\.[\w-]+(?:/[\w.@-]+)+\.[a-z]{2,4}"
    r"|(?:~|\.{0,2})/[\w.@ -]*(?:/[\w.@ -]*)*|[a-z]:\\.*|[\w-]+(?:\.[\w-]+)*:\d+|\w[\w.+-]*@[\w.-]+)",
    re.IGNORECASE,
)
_EXPRESSION = re.compile(r"""[A-Za-z_][\w.]*\((?:["'][\w.-]*["'])?\)[\w.()]*|(["'])\$\{?\w+\}?\1""")
"""What names a secret that is elsewhere: `System.getenv('CORP_PASSWORD')`, `"$password"`."""
_SWITCH = re.compile(r"(?:true|false|yes|no|on|off|none|null|[\d.]{1,7})", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^\s/@]*@)?", re.IGNORECASE)
_LOGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s:/@]*:([^\s/@]+)@", re.IGNORECASE)
_NETRC_PASSWORD = re.compile(r"\bpassword[ \t]++([^\s=:]\S*+)")
_XML_PASSWORD = re.compile(r"<(?:password|passphrase|privateKey)>\s*+([^\s<]++)\s*+</")
_URL_TOKEN = re.compile(r"https?://(?=[^\s:/@]*\d)([^\s:/@]{16,})@", re.IGNORECASE)
"""A token in the place of the user: names of users are shorter, or have no digit."""
_BUNDLE_LOGIN = re.compile(r"""^BUNDLE_\w+__\w+:[ \t]*["']?([^\s"':/]+:[^\s"':/]+)["']?[ \t]*$""", re.MULTILINE)
_PAIR = re.compile(
    r"""(?P<name>(?:api[_-]?key|access[_-]?key|auth|credential|pass|secret|token)[\w.-]{0,20})["']?"""
    r"""(?:=(?P<bare>[\w+/=~.-]+)(?!\S)|[ \t]*(?:[:=,]|=>)?[ \t]*(?:value[ \t]*=[ \t]*|<<)?"""
    r"""(?:"(?P<double>[^\s"]+)"|'(?P<single>[^\s']+)'))""",
    re.IGNORECASE,
)
"""A setting anywhere in a line, in whatever language: `{"token": "..."}`, `password '...'`, `--token=...`."""
_ONE_WORD = re.compile(r"[A-Za-z0-9+/=_.~-]{20,}")
_IDENTIFIER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{40}|[0-9a-f]{64}", re.IGNORECASE)
"""A UUID, a commit id or a digest."""
_SETTING = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?["']?(?P<name>[\w.:/-]*\w)["']?[ \t]*(?:=|:[ \t])[ \t]*"""
    r"""(?:"(?P<double>(?>(?:[^"\\]|\\.)*))"|'(?P<single>[^']*+)'|(?P<bare>[^\s"'#][^\n]*+))""",
    re.MULTILINE,
)
_COMMENT = re.compile(r"\s#.*")
MIN_RANDOM_BITS = 3.7
"""Entropy per character, in bits: random letters and digits have more, words and names less."""
MAX_FILES, MAX_ENTRIES = 200, 50_000
"""At most this many files of a folder are read, and entries looked at."""
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


KEPT = "SCAFFOLD_KEPT_"
"""Prefix of variables that are meant for commands, not for our process."""
PROVIDED = "SCAFFOLD_PROVIDED"
"""The variable that lists, separated by commas, the variables provided by a user's command."""


def provided_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables that a user's command provided for workers and checks."""
    return tuple(name for name in environ.get(PROVIDED, "").split(",") if name)


def redactor_for(environ: Mapping[str, str], *folders: Path) -> Redactor:
    """Return a redactor for the secrets in `environ`, in secret files of `folders`, and in the user's logins.

    An unreadable file is skipped: our agents cannot read it either.
    """
    known = {
        **secret_values(environ),
        **{name: environ.get(name) or environ.get(f"{KEPT}{name}", "") for name in provided_names(environ)},
    }
    files: list[Path] = []
    for folder in folders:
        files += (*sorted(secret_scan(folder, most=MAX_ENTRIES).paths())[:MAX_FILES], folder / ".git" / "config")
    if home := environ.get("HOME"):
        files += (Path(home, login) for login in CREDENTIAL_FILES)
    return Redactor(known, *map(_secrets_of, (*files, *credential_paths(environ))))


def credential_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the existing files and folders with credentials that variables name, links resolved."""
    named = (
        (name, part)
        for name, value in environ.items()
        if name in CREDENTIAL_LOCATIONS or is_secret_setting(name)
        for part in value.split(os.pathsep)
    )
    return tuple(
        Path(part).resolve()
        for name, part in named
        if part.startswith("/") and (Path(part).is_file() or (name in CREDENTIAL_LOCATIONS and Path(part).is_dir()))
    )


def holds_secret(path: Path, *, guessed: bool = True) -> bool:
    """Return whether a file holds a secret that `file_secrets` recognises, or is unreadable; False for a folder."""
    is_folder = os.path.isdir(path)  # noqa: PTH112 - unlike that of a path, it never raises
    return not is_folder and (not os.access(path, os.R_OK) or bool(_secrets_of(path, guessed=guessed)))


def _secrets_of(file: Path, *, guessed: bool = True) -> dict[str, str]:
    try:
        # A named pipe called `.env` would block for ever.
        if not file.is_file():
            return {}
        with file.open("rb") as opened:
            return file_secrets(opened.read(READ_BYTES).decode(errors="surrogateescape"), guessed=guessed)
    except OSError:
        return {}


def secret_values(settings: Mapping[str, str]) -> dict[str, str]:
    """Return {name: secret} of the settings whose name denotes a secret, and of passwords in URLs.

    Values that cannot be secrets are left out, whatever their name: switches, numbers, paths, hosts, placeholders and
    default passwords.
    """
    secrets = {}
    for name, value in settings.items():
        login = _LOGIN.match(value)
        if login is not None:
            secrets[name] = login[1]
        elif _names_secret(name) and _can_be_secret(value):
            secrets[name] = value
    return {name: value for name, value in secrets.items() if not _DEFAULT_PASSWORD.fullmatch(value)}


def file_secrets(text: str, *, guessed: bool = True) -> dict[str, str]:
    """Return {name: secret} of a settings file: by name, by random-looking value if `guessed`, and passwords in URLs.

    A setting is `NAME=value`, with or without `export`, `name: value`, or a `.netrc` password.
    """
    # A file without settings may be a key and nothing else.
    word = text.strip()
    is_key = _ONE_WORD.fullmatch(word) and (_can_be_secret(word) if guessed else _looks_random(word))
    settings = dict(parse_settings(text)) or ({"key": word} if is_key else {})
    random = {name: value for name, value in settings.items() if _looks_random(value)} if guessed or is_key else {}
    forms = (_LOGIN, _NETRC_PASSWORD, _XML_PASSWORD, _URL_TOKEN, _BUNDLE_LOGIN)
    found = (login[1] for login in chain(*(each.finditer(text) for each in forms)))
    logins = (each for each in found if not (_DEFAULT_PASSWORD.fullmatch(each) or _EXPRESSION.fullmatch(each)))
    # Names of settings win over numbers, because they tell the reader which secret was there.
    pairs = {pair["name"]: _unquoted(pair) for pair in _PAIR.finditer(text)}
    pairs = {name: value for name, value in pairs.items() if value not in settings.values()}
    named = secret_values(pairs | settings)
    return {f"login-{number}": login for number, login in enumerate(logins, 1)} | random | named


def parse_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, unquoted value) of each setting in the text; other lines are skipped."""
    for found in _SETTING.finditer(text):
        yield found["name"], _unquoted(found)


def _unquoted(found: re.Match[str]) -> str:
    if found["double"] is not None:
        return re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), found["double"])
    return found["single"] if found["single"] is not None else _COMMENT.sub("", found["bare"]).strip().rstrip(",")


def _names_secret(name: str) -> bool:
    return _NAMED.search(name) is not None and not _ABOUT_SECRETS.search(name)


def is_secret_setting(name: str, value: str | None = None) -> bool:
    """Return whether the name of a setting denotes a secret; with its value, also whether that is more than a switch.

    Unlike in `secret_values`, a short value and a path count, too.
    """
    return _names_secret(name) and (value is None or not _SWITCH.fullmatch(value))


def _can_be_secret(value: str) -> bool:
    is_other = _HARMLESS.fullmatch(value) or _EXPRESSION.fullmatch(value) or _ADDRESS.match(value)
    return len(value) >= MIN_SECRET_CHARS and not is_other


def _looks_random(value: str) -> bool:
    if not _ONE_WORD.fullmatch(value) or _IDENTIFIER.fullmatch(value) or not _can_be_secret(value):
        return False
    if not any(map(str.isdigit, value)) or not any(map(str.isalpha, value)):
        return False
    # Shannon entropy, in bits per character: that of random keys is above that of words.
    bits = -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
    return bits >= MIN_RANDOM_BITS
