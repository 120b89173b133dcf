"""Redact secrets in texts: those with known values, and those recognised by their shape. Pure.

Only near-certain shapes are listed: if a hash, an identifier or a base64 image were redacted, an agent could not work
on the file that contains it. Not caught: a secret that is truncated, reversed, encrypted or spelled out, or whose
encoded form spans lines.
"""

import base64
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any
from urllib.parse import quote, quote_plus

from msgspec import Struct


class SecretPattern(Struct, frozen=True):
    """A kind of secret: `expression` starts with `literal`, and its last group, if any, is the secret part.

    The expression takes linear time on any text: its repetitions are possessive, with lookbehinds where a match could
    restart inside another. It matches every character that could belong to the secret, so that no part remains.
    """

    name: str
    literal: str
    expression: str

    def found_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of the secrets with this pattern in a text that contains the literal."""
        for found in re.finditer(self.expression, text):
            yield found.span(found.re.groups)


_KEY_PREAMBLE = r"(?>(?:[^A-Za-z0-9+/\-]++|\d++[\t:|]|(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\n\\]*+)*)"
"""Text between the BEGIN line of a key and its first line: line breaks, line numbers, headers."""

_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----"
    + _KEY_PREAMBLE
    + r"[A-Za-z0-9+/]{40}[A-Za-z0-9+/=\s\\\"',:|]*+(?:-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----)?"
)

# The documentation of AWS uses keys that end in EXAMPLE; they must stay readable.
_AWS_ID = r"(?![A-Z0-9]{0,12}EXAMPLE)[A-Z0-9]{16}(?![A-Za-z0-9+/])"
_AWS_VALUE = r"[^\w\n]{1,10}?(?![A-Za-z0-9/+]{0,40}EXAMPLE)([A-Za-z0-9/+]{40,}+)"
# At least one digit: words such as `Bearer authentication-required-for-all` are no credentials.
_CREDENTIAL = r"((?=[A-Za-z._~+/-]*+[0-9])[\w.~+/-]{20,}+=*+)"

DEFAULT_PASSWORDS = (
    r"passw[o0]rd\d{0,4}|postgres(?:ql)?|mysql|mariadb|mongo(?:db)?|rabbitmq|elastic(?:search)?"
    r"|minioadmin|administrator"
)
"""Well-known default passwords: not secret, and as ordinary words they must stay readable."""

_LOGIN = (
    r"://([^\s:/@\"'`<>\[\](){}$]{0,100}+)"
    rf":(?!(?i:pass|passwd|pwd|pw|secret|token|[x*.]+|\1|{DEFAULT_PASSWORDS})@)"
    r"([^\s/@\"'`<>\[\](){}$]{6,256}+)(?=@[\w\[%])"
)

SECRET_PATTERNS: tuple[SecretPattern, ...] = (
    SecretPattern("private-key", "-----BEGIN ", _PRIVATE_KEY),
    SecretPattern("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{16,}+"),
    SecretPattern(
        "api-key", "sk-", r"sk-(?<![A-Za-z0-9_-]sk-)(?:proj|svcacct|admin|or|lf)-(?=[A-Za-z_-]*+[0-9])[\w-]{20,}+"
    ),
    SecretPattern("api-key", "sk-", r"sk-(?<![A-Za-z0-9_-]sk-)(?=[A-Za-z]*+[0-9])(?=[0-9]*+[A-Za-z])[A-Za-z0-9]{20,}+"),
    SecretPattern("github-token", "gh", r"gh[opsru]_[A-Za-z0-9]{36,}+"),
    SecretPattern("github-token", "github_pat_", r"github_pat_\w{22,}+"),
    SecretPattern("gitlab-token", "glpat-", r"glpat-[\w-]{20,}+"),
    SecretPattern("slack-token", "xox", r"xox[abeoprs]-(?=[A-Za-z-]{0,80}+[0-9])[A-Za-z0-9-]{10,}+"),
    SecretPattern("slack-token", "xapp-", r"xapp-(?=[A-Za-z-]{0,80}+[0-9])[A-Za-z0-9-]{20,}+"),
    SecretPattern("slack-webhook", "hooks.slack.com/services/", r"hooks\.slack\.com/services/([\w/]{20,}+)"),
    *(SecretPattern("aws-key", kind, rf"{kind}(?<![A-Za-z0-9+/]{kind}){_AWS_ID}") for kind in ("AKIA", "ASIA")),
    *(
        SecretPattern("aws-secret", literal, literal + _AWS_VALUE)
        for literal in ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "ecretAccessKey")
    ),
    SecretPattern("google-key", "AIza", r"AIza[\w-]{35,}+"),
    SecretPattern("google-token", "ya29.", r"ya29\.[\w-]{20,}+"),
    *(SecretPattern("stripe-key", kind, rf"{kind}(?:live|test)_[A-Za-z0-9]{{16,}}+") for kind in ("sk_", "rk_")),
    SecretPattern("stripe-key", "whsec_", r"whsec_[A-Za-z0-9]{24,}+"),
    SecretPattern("npm-token", "npm_", r"npm_[A-Za-z0-9]{36,}+"),
    SecretPattern("pypi-token", "pypi-AgE", r"pypi-AgE[\w-]{40,}+"),
    SecretPattern("huggingface-token", "hf_", r"hf_(?<![\w-]hf_)[A-Za-z0-9]{34,}+"),
    SecretPattern("docker-token", "dckr_pat_", r"dckr_pat_[\w-]{20,}+"),
    SecretPattern("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}+"),
    SecretPattern("jwt", "eyJ", r"eyJ(?<![\w-]eyJ)[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{8,}+"),
    SecretPattern("bearer-token", "earer ", f"earer {_CREDENTIAL}"),
    SecretPattern("basic-login", "uthorization: Basic ", r"uthorization: Basic ([\w+/-]{12,}+=*+)"),
    SecretPattern("api-key", "x-api-key: ", f"x-api-key: {_CREDENTIAL}"),
    SecretPattern("api-key", "X-A", f"X-A(?:pi|PI)-Key: {_CREDENTIAL}"),
    SecretPattern("password", "://", _LOGIN),
)
MIN_SECRET_CHARS = 8
"""Shorter values occur in too many texts by chance."""
MIN_LINE_CHARS = 20
"""In a secret of several lines, each line with at least this many characters is also masked alone."""
LEARNED = "login"
"""The name of the secrets that this process has learned."""
_learned: dict[str, None] = {}


def learn_secrets(values: Iterable[str]) -> None:
    """Make every Redactor of this process, existing ones too, redact later secrets such as renewed tokens."""
    for value in values:
        _learned.update(dict.fromkeys((value, *_secret_forms(value))) if value not in _learned else {})


class SecretSpan(Struct, frozen=True, order=True):
    """The position of a secret in a text: from `start` up to, not including, `end`."""

    start: int
    end: int
    name: str


class Redactor:
    """Replaces each secret in a text by `[redacted:NAME]`."""

    def __init__(self, *known: Mapping[str, str]) -> None:
        """Take {name: secret} from several sources; values below `MIN_SECRET_CHARS` characters are ignored."""
        named = [(name, value) for source in known for name, value in source.items()]
        # Names come from files: only plain characters may stand in a mark.
        forms = [
            (form, re.sub(r"[^\w.-]+", "_", name)[:64] or "secret")
            for name, value in named
            for form in _secret_forms(value)
        ]
        self._forms: Mapping[str, str] = dict(reversed(forms))  # reversed, so the first name of a value wins
        # Only names of our own make a mark: a forged `[redacted:...]` around a secret would otherwise hide it from us.
        names = sorted({*self._forms.values(), LEARNED, *(shape.name for shape in SECRET_PATTERNS)})
        self._marks = rf"\[redacted:(?:{'|'.join(map(re.escape, names))})\]"

    def clean(self, text: str) -> str:
        """Return `text` with its secrets redacted; the same object if it has none. Idempotent."""
        # Repeat: once a secret is masked, the text next to it may match a pattern that it did not match before.
        while spans := self._secret_spans(text):
            first, last = SecretSpan(0, 0, ""), SecretSpan(len(text), len(text), "")
            pieces = []
            for before, span in pairwise((first, *spans, last)):
                pieces += [text[before.end : span.start], f"[redacted:{span.name}]" if span.name else ""]
            text = "".join(pieces)
        return text

    def clean_all(self, value: Any, *, kept: Collection[str] = ()) -> Any:
        """Return a JSON value with all its strings redacted, keys included, but for those in `kept`."""
        match value:
            case str():
                return value if value in kept else self.clean(value)
            case Mapping():
                return {self.clean_all(k, kept=kept): self.clean_all(each, kept=kept) for k, each in value.items()}
            case list() | tuple():
                return [self.clean_all(each, kept=kept) for each in value]
            case _:
                return value

    def mark_in(self, value: Any) -> str | None:
        """Return the first redaction mark in a JSON value; None if there is none.

        A value with a mark is not the original text, so it must not be written or searched for.
        """
        match value:
            case str():
                found = re.search(self._marks, value) if "[redacted:" in value else None
                return found and found[0]
            case Mapping():
                return self.mark_in([*value, *value.values()])
            case list() | tuple():
                return next(filter(None, map(self.mark_in, value)), None)
            case _:
                return None

    def _secret_spans(self, text: str) -> Sequence[SecretSpan]:
        """Return the sorted spans of secrets, without overlaps and outside existing marks."""
        found: list[SecretSpan] = []
        for form, name in chain(self._forms.items(), ((form, LEARNED) for form in _learned)):
            start = text.find(form)
            while start >= 0:
                end = start + len(form)
                found.append(SecretSpan(start, end, name))
                start = text.find(form, end)
        # Searching for a literal is much faster than any expression, and most texts contain none.
        for shape in [shape for shape in SECRET_PATTERNS if shape.literal in text]:
            found += (SecretSpan(start, end, shape.name) for start, end in shape.found_in(text))
        spans = _merge_spans(sorted(found, key=lambda span: (span.start, -span.end)))
        if not spans or "[redacted:" not in text:
            return spans
        marks = [mark.span() for mark in re.finditer(self._marks, text)]
        return list(_without_marks(spans, marks))


def _merge_spans(spans: Sequence[SecretSpan]) -> Sequence[SecretSpan]:
    # Overlapping spans become one, named after the first.
    merged: list[SecretSpan] = []
    for span in spans:
        last = merged[-1] if merged else None
        if last is not None and span.start < last.end:
            merged[-1] = SecretSpan(last.start, max(last.end, span.end), last.name)
        else:
            merged.append(span)
    return merged


def _without_marks(spans: Sequence[SecretSpan], marks: Sequence[tuple[int, int]]) -> Iterator[SecretSpan]:
    at = 0
    for span in spans:
        while at < len(marks) and marks[at][1] <= span.start:
            at += 1
        start, later = span.start, at
        while later < len(marks) and marks[later][0] < span.end:
            if start < marks[later][0]:
                yield SecretSpan(start, marks[later][0], span.name)
            start, later = marks[later][1], later + 1
        if start < span.end:
            yield SecretSpan(start, span.end, span.name)


def _secret_forms(value: str) -> Iterator[str]:
    """Yield the forms in which a secret may appear: literal, JSON, URL-encoded, base64 at any offset, hex."""
    value = value.strip()
    if len(value) < MIN_SECRET_CHARS:
        return
    lines = value.splitlines()
    yield value
    # Tools show files with line numbers, so the lines of a key do not stand next to each other.
    yield from (line.strip() for line in lines if len(lines) > 1 and len(line.strip()) >= MIN_LINE_CHARS)
    data = value.encode(errors="surrogateescape")
    forms = [json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    forms += [quote(data, safe=""), quote(data), quote_plus(data), data.hex()]
    forms += [form for offset in range(3) for form in _base64_core(data, offset)]
    yield from dict.fromkeys(form for form in forms if form != value)


def _base64_core(data: bytes, offset: int) -> tuple[str, str]:
    """Return the fixed part of the base64 of `data` at `offset` bytes into a group, in both alphabets."""
    # The characters at both ends also encode bits of the neighbouring bytes, so they vary and are left out.
    begin, end = (0, 2, 3)[offset], (offset + len(data)) * 8 // 6
    padded = b"\0" * offset + data
    return base64.b64encode(padded).decode()[begin:end], base64.urlsafe_b64encode(padded).decode()[begin:end]
