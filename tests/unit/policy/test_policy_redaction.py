"""Secrets in text, recognised by known value or by shape."""

import base64
import json
import sysconfig
from pathlib import Path
from urllib.parse import quote

from scaffold.policy.secret.redaction import SECRET_PATTERNS, Redactor

VALUE = 'canary/7f"3e+6a1d&ü'
SHAPED = Redactor()
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCt6XhWWVFTEQlC"


def broken(*parts):
    """Return a secret that does not occur as a whole in this file."""
    return "".join(parts)


PRIVATE = broken("PRIVATE", " KEY")
SECRETS = {
    "anthropic": broken("sk-a", "nt-api03-", "Ab1" * 20),
    "openai": broken("sk", "-proj-", "Ab1_" * 10),
    "openai-old": broken("sk", "-", "Ab1" * 16),
    "github": broken("gh", "p_", "Ab1" * 12),
    "github-app": broken("gh", "s_", "Ab1" * 12),
    "github-fine": broken("github", "_pat_", "Ab1_" * 20),
    "gitlab": broken("glp", "at-", "Ab1_" * 5),
    "slack": broken("xo", "xb-", "1234567890-", "Ab1" * 8),
    "aws": broken("AK", "IA", "Q1W2E3R4T5Y6U7I8"),
    "google": broken("AI", "za", "Ab1_x" * 7),
    "stripe": broken("sk", "_live_", "Ab1" * 8),
    "npm": broken("np", "m_", "Ab1" * 12),
    "pypi": broken("py", "pi-AgE", "IcHlwaS5vcmc" * 5),
    "huggingface": broken("h", "f_", "Ab1" * 12),
    "jwt": broken("ey", "JhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0In0.", "Ab1-_" * 8),
    "pem": f"-----BEGIN RSA {PRIVATE}-----\n{BODY}\n{BODY}=\n-----END RSA {PRIVATE}-----",
}
"""By kind: all of it is secret."""

HARMLESS = {
    "a commit": "9e09e3e7c3f0a1b2c3d4e5f60718293a4b5c6d7e",
    "a digest": "sha512-" + base64.b64encode(bytes(range(64))).decode(),
    "a UUID": "123e4567-e89b-12d3-a456-426614174000",
    "a picture": "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 20).decode(),
    "a class name": "sk-fading-circle-container-with-a-long-name-1",
    "a task": "task-a1b2c3d4e5f6a7b8c9d0e1f2",
    "a template": 'requests.get(f"https://{user}:{password}@{host}/", headers={"Authorization": f"Bearer {token}"})',
    "an example of an address": "https://user:password@proxy.example.com:8080/ and ssh://git@github.com/a/b.git",
    "a database of everybody's": "postgres://app:postgres@db, redis://:password@cache, amqp://dev-me:dev-me@mq",
    "an example of a key": "AKIAIOSFODNN7EXAMPLE",
    "a check for a key": 'if "-----BEGIN PRIVATE KEY-----" in text and "-----END PRIVATE KEY-----" in text: refuse()',
    "prose": "The bearer authentication scheme uses a Bearer token; the sk- prefix is a secret key's.",
    "zeros": broken("AK", "IA") + "A" * 400,
}


def test_a_secret_is_recognised_by_its_shape():
    """BX-9: the text around it stays, and nothing of the secret does."""
    for kind, secret in SECRETS.items():
        cleaned = SHAPED.clean(f"before: {secret}\nafter")
        assert cleaned.startswith("before: [redacted:"), kind
        assert cleaned.endswith("]\nafter"), kind
        assert secret[10:20] not in cleaned, kind


def test_ordinary_text_of_an_agent_contains_no_secret():
    """BX-9: the text is returned unchanged."""
    assert [kind for kind, text in HARMLESS.items() if SHAPED.clean(text) is not text] == []


def test_only_the_secret_part_is_redacted():
    """BX-9: user and host stay readable."""
    expected = {
        "https://me:hunter22@host/x": "https://me:[redacted:password]@host/x",
        "Authorization: Bearer abcdefgh12345678IJKL": "Authorization: Bearer [redacted:bearer-token]",
        "Authorization: Basic dXNlcjpwYXNzd29yZA==": "Authorization: Basic [redacted:basic-login]",
        "x-api-key: abcdefgh12345678IJKL.": "x-api-key: [redacted:api-key]",
        f"AWS_SECRET_ACCESS_KEY={'aB1/' * 10}": "AWS_SECRET_ACCESS_KEY=[redacted:aws-secret]",
        f'"SecretAccessKey": "{"aB1/" * 10}"': '"SecretAccessKey": "[redacted:aws-secret]"',
    }
    assert {text: SHAPED.clean(text) for text in expected} == expected


def test_a_key_is_found_with_line_numbers_and_without_its_end():
    """BX-9: as `read_file` and `head` show it."""
    lines = SECRETS["pem"].splitlines()
    numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
    assert BODY not in SHAPED.clean(numbered)
    assert BODY not in SHAPED.clean("\n".join(lines[:3]))
    assert BODY not in SHAPED.clean(json.dumps(SECRETS["pem"]))


def test_a_known_value_is_found_in_its_usual_encodings():
    """BX-9: plain, in JSON, in a URL, in hex, and in base64 at any offset."""
    redactor = Redactor({"MY_TOKEN": VALUE})
    for before in ["", "x", "xy", "xyz"]:
        whole = f"{before}{VALUE}after"
        assert redactor.clean(whole) == f"{before}[redacted:MY_TOKEN]after"
        spelled = [
            *(json.dumps(whole), json.dumps(whole, ensure_ascii=False), quote(whole), quote(whole, safe="")),
            whole.encode().hex(),
            *(base64.b64encode(whole.encode()).decode(), base64.urlsafe_b64encode(whole.encode()).decode()),
        ]
        assert [text for text in spelled if "[redacted:MY_TOKEN]" not in redactor.clean(text)] == []


def test_the_longer_of_two_values_is_redacted_whole():
    """BX-9: no rest of it stays, and overlapping values are redacted together."""
    redactor = Redactor({"SHORT": "abcd1234", "LONG": "abcd1234-and-more"})
    assert redactor.clean("x abcd1234-and-more y abcd1234") == "x [redacted:LONG] y [redacted:SHORT]"


def test_short_values_are_not_redacted():
    """BX-9: they occur in too many texts by chance."""
    text = "true 1234567"
    assert Redactor({"A": "true", "B": "1234567"}).clean(text) is text


def test_each_long_line_of_a_value_is_a_secret_too():
    """BX-9: a key in a variable, shown with line numbers."""
    redactor = Redactor({"KEY": f"first line of a long key\n{BODY}\nend"})
    assert redactor.clean(f"2\t{BODY}") == "2\t[redacted:KEY]"


def test_a_json_value_is_redacted_recursively():
    """BX-9: texts in lists and mappings, and keys; other values stay."""
    redactor = Redactor({"K": "secret-value"})
    assert redactor.clean_all({"a": ["x secret-value", 1, None], "secret-value": True}) == {
        "a": ["x [redacted:K]", 1, None],
        "[redacted:K]": True,
    }


def test_only_our_own_marks_are_recognised_and_a_forged_one_hides_no_secret():
    """BX-9: text that resembles a mark is text."""
    redactor = Redactor({"K": "secret-value"})
    assert redactor.mark_in({"edits": [{"content": "a\n[redacted:K]"}]}) == "[redacted:K]"
    assert redactor.mark_in("[redacted:NAME]") is None
    assert redactor.clean("[redacted:secret-value]") == "[redacted:[redacted:K]]"


def test_a_secret_next_to_another_one_is_found():
    """BX-9: once the first is gone, the second stands alone."""
    redactor = Redactor({"K": "secretvalue"})
    assert redactor.clean("secretvalue" + SECRETS["jwt"]) == "[redacted:K][redacted:jwt]"


def test_the_standard_library_contains_no_secret():
    """BX-9: nothing in its modules is redacted."""
    library = Path(sysconfig.get_paths()["stdlib"])
    modules = sorted(library.glob("*.py")) + sorted(library.glob("[a-z]*/*.py"))
    texts = [path.read_text("utf-8", "replace") for path in modules if "test" not in path.parts[-2]]
    assert len(texts) > 300
    assert all(SHAPED.clean(text) is text for text in texts)


def test_every_shape_begins_with_its_literal():
    """BX-9: that makes the search fast."""
    assert all(shape.expression.startswith(shape.literal.replace(".", r"\.")) for shape in SECRET_PATTERNS)
