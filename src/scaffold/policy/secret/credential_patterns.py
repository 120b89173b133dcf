"""Patterns of secrets that are recognised by their shape in any text. Pure.

Only near-certain patterns are listed: if a hash, an identifier or a base64 image were redacted, an agent could not
work on the file that contains it.
"""

import re
from collections.abc import Iterator

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


_KEY_PREAMBLE = r"(?:[^A-Za-z0-9+/\-]++|\d++[\t:|]|(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\n\\]*+)*+"
"""What may come between the BEGIN line of a key and its first line: line breaks, line numbers, headers."""
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
"""Well-known default passwords: no secrets, and as ordinary words they must stay readable."""
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
