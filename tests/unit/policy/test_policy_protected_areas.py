import sysconfig
from pathlib import Path

import pytest

from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.policy.secret.unreadable_files import SECRET_FILES, secret_entry

LIBRARY = Path(sysconfig.get_path("stdlib"))


def test_areas_match_by_glob_type_and_whole_words():
    """AL-18."""
    expected = {
        "src/auth/views.py": "**/auth/**",
        "auth/x": "**/auth/**",
        "db/migrations/0001.py": "**/migrations/**",
        ".env.production": "**/.env*",
        "deploy/Dockerfile": "**/Dockerfile",
        "docker-compose.dev.yml": "**/docker-compose*",
        "x/server.PEM": "**/*.pem",
        "schema.sql": ".sql",
        "infra.tf": ".tf",
        "src/user_acl.py": "acl",
        "src/UserRole.ts": "role",
        "api_keys.py": "key",
        "resetPassword.js": "password",
        "permissions/index.py": "permission",
        "token.py": "token",
        "HTTPAuthHeader.go": "auth",
    }
    assert {path: ProtectedAreas().area_of(path) for path in expected} == expected


def test_a_word_within_a_word_does_not_match():
    """AL-18: `acl` must not flag `dataclasses.py`."""
    paths = [
        *("dataclasses.py", "author/controller.py", "tokenize.py", "keyboard.py", "monkey.py", "oracle.py"),
        *("authors.md", "secretary.txt", "blogins.py", "schematic.py", "sqlite3.py", "scroller.py"),
    ]  # fmt: skip
    assert [path for path in paths if ProtectedAreas().area_of(path) is not None] == []


def test_areas_are_configurable():
    """AL-18."""
    areas = ProtectedAreas(globs=("billing/**",), words=("invoice",), types=(".rb",))
    assert [areas.area_of(path) for path in ("billing/a", "new_invoices.py", "a.rb", "auth/x")] == [
        "billing/**",
        "invoice",
        ".rb",
        None,
    ]


@pytest.mark.slow
def test_hardly_any_standard_library_file_is_flagged():
    """AL-18, RA-14: fewer than 2% of its files lie in an area by our words, and none but certificates is a secret."""
    names = [str(path.relative_to(LIBRARY)) for path in LIBRARY.rglob("*.py") if "site-packages" not in path.parts]
    flagged = [name for name in names if ProtectedAreas().area_of(name)]
    assert len(names) > 500
    assert len(flagged) <= 0.02 * len(names), flagged
    assert [name for name in names if secret_entry(name)] == []


def test_secrets_are_found_in_any_spelling():
    """RA-14."""
    rows = [
        (".env", ".env"),
        ("a/.ENV.local", ".env.*"),
        ("/home/u/.ssh/config", ".ssh"),
        ("/home/u/.ssh/id_rsa.pub", ".ssh"),
        ("x\\.aws\\credentials", ".aws"),
        ("/etc/shadow", "/etc/shadow*"),
        ("/etc/shadow-", "/etc/shadow*"),
        ("/proc/12/environ", "/proc/*/environ"),
        ("/PROC/self/environ", "/proc/*/environ"),
        ("server.key", "*.key"),
        (".e\u200bnv", ".env"),
        ("．env", ".env"),
        (".env. ", ".env"),
    ]
    assert [(path, entry) for path, entry in rows if secret_entry(path) != entry or entry not in SECRET_FILES] == []


def test_names_that_resemble_a_secret_are_not_flagged():
    """RA-14."""
    paths = [
        *(".env.example", ".env.sample", "env", "environ", "src/environ.py", "etc/shadow", "proc/1/environ"),
        *("x/etc/shadow", "rsa_id", "keys.py", "credentials.py", "deploy.pub", "", "/", "src/pem.py"),
    ]  # fmt: skip
    assert [path for path in paths if secret_entry(path) is not None] == []
