"""Secrets that are known by what they look like, wherever they stand. Pure.

Only what is next to certain is listed: a hash, an identifier or a picture in base64 must never be taken for a secret,
or an agent could not work on the file it stands in.
"""

import re
from collections.abc import Iterator

from msgspec import Struct


class Shape(Struct, frozen=True):
    """A kind of secret: `expression` begins with `literal`, and its last group, if it has one, is what is secret.

    The expression takes linear time on any text: its repetitions are possessive, and where they could begin anew
    inside each other, it looks behind. It takes in all that could belong to the secret, so that none is left behind.
    """

    name: str
    literal: str
    expression: str

    def found_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where secrets of this shape begin and end, in a text that has the literal in it."""
        for found in re.finditer(self.expression, text):
            yield found.span(found.re.groups)


_BEGUN = r"(?:[^A-Za-z0-9+/\-]++|\d++[\t:|]|(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\n\\]*+)*+"
"""What may stand between the head of a key and its first line: breaks, numbers of lines, headers of its own."""
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----"
    + _BEGUN
    + r"[A-Za-z0-9+/]{40}[A-Za-z0-9+/=\s\\\"',:|]*+(?:-----END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----)?"
)
_AWS_ID = r"(?![A-Z0-9]{0,12}EXAMPLE)[A-Z0-9]{16}(?![A-Za-z0-9+/])"
_AWS_VALUE = r"[^\w\n]{1,10}?(?![A-Za-z0-9/+]{0,40}EXAMPLE)([A-Za-z0-9/+]{40,}+)"
_CREDENTIAL = r"((?=[A-Za-z._~+/-]*+[0-9])[\w.~+/-]{20,}+=*+)"
DEFAULT_PASSWORDS = (
    r"passw[o0]rd\d{0,4}|postgres(?:ql)?|mysql|mariadb|mongo(?:db)?|rabbitmq|elastic(?:search)?"
    r"|minioadmin|administrator"
)
"""What programs come with, and everybody's: names of much else, which could not be read any more."""
_LOGIN = (
    r"://([^\s:/@\"'`<>\[\](){}$]{0,100}+)"
    rf":(?!(?i:pass|passwd|pwd|pw|secret|token|[x*.]+|\1|{DEFAULT_PASSWORDS})@)"
    r"([^\s/@\"'`<>\[\](){}$]{6,256}+)(?=@[\w\[%])"
)

SHAPES: tuple[Shape, ...] = (
    Shape("private-key", "-----BEGIN ", _PRIVATE_KEY),
    Shape("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{16,}+"),
    Shape("api-key", "sk-", r"sk-(?<![A-Za-z0-9_-]sk-)(?:proj|svcacct|admin|or|lf)-(?=[A-Za-z_-]*+[0-9])[\w-]{20,}+"),
    Shape("api-key", "sk-", r"sk-(?<![A-Za-z0-9_-]sk-)(?=[A-Za-z]*+[0-9])(?=[0-9]*+[A-Za-z])[A-Za-z0-9]{20,}+"),
    Shape("github-token", "gh", r"gh[opsru]_[A-Za-z0-9]{36,}+"),
    Shape("github-token", "github_pat_", r"github_pat_\w{22,}+"),
    Shape("gitlab-token", "glpat-", r"glpat-[\w-]{20,}+"),
    Shape("slack-token", "xox", r"xox[abeoprs]-(?=[A-Za-z-]{0,80}+[0-9])[A-Za-z0-9-]{10,}+"),
    Shape("slack-token", "xapp-", r"xapp-(?=[A-Za-z-]{0,80}+[0-9])[A-Za-z0-9-]{20,}+"),
    Shape("slack-webhook", "hooks.slack.com/services/", r"hooks\.slack\.com/services/([\w/]{20,}+)"),
    *(Shape("aws-key", kind, rf"{kind}(?<![A-Za-z0-9+/]{kind}){_AWS_ID}") for kind in ("AKIA", "ASIA")),
    *(
        Shape("aws-secret", literal, literal + _AWS_VALUE)
        for literal in ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "ecretAccessKey")
    ),
    Shape("google-key", "AIza", r"AIza[\w-]{35,}+"),
    Shape("google-token", "ya29.", r"ya29\.[\w-]{20,}+"),
    *(Shape("stripe-key", kind, rf"{kind}(?:live|test)_[A-Za-z0-9]{{16,}}+") for kind in ("sk_", "rk_")),
    Shape("stripe-key", "whsec_", r"whsec_[A-Za-z0-9]{24,}+"),
    Shape("npm-token", "npm_", r"npm_[A-Za-z0-9]{36,}+"),
    Shape("pypi-token", "pypi-AgE", r"pypi-AgE[\w-]{40,}+"),
    Shape("huggingface-token", "hf_", r"hf_(?<![\w-]hf_)[A-Za-z0-9]{34,}+"),
    Shape("docker-token", "dckr_pat_", r"dckr_pat_[\w-]{20,}+"),
    Shape("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}+"),
    Shape("jwt", "eyJ", r"eyJ(?<![\w-]eyJ)[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{8,}+"),
    Shape("bearer-token", "earer ", f"earer {_CREDENTIAL}"),
    Shape("basic-login", "uthorization: Basic ", r"uthorization: Basic ([\w+/-]{12,}+=*+)"),
    Shape("api-key", "x-api-key: ", f"x-api-key: {_CREDENTIAL}"),
    Shape("api-key", "X-A", f"X-A(?:pi|PI)-Key: {_CREDENTIAL}"),
    Shape("password", "://", _LOGIN),
)
