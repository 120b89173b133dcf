"""Which settings hold secrets."""

from scaffold.policy.secret.sources import file_secrets, secret_values


def test_a_name_marks_its_value_as_secret():
    """BX-9: by whole words, not by letters."""
    names = [
        *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MY_SERVICE_TOKEN", "DB_PASSWORD", "DB_PASSWD", "CLIENT_SECRET"),
        *("GOOGLE_CREDENTIALS", "githubToken", "npm_config__auth", "aws.secret", "SECRET_KEY_BASE", "PASSPHRASE"),
    ]
    assert [name for name in names if secret_values({name: "v4lue-of-it"}) != {name: "v4lue-of-it"}] == []


def test_a_name_that_only_contains_such_a_word_does_not():
    """BX-9: by whole words, not by letters."""
    names = ["KEYBOARD_LAYOUT", "TOKENIZERS_PARALLELISM", "MONKEY", "PWD", "HOME", "COMPASS_DIR"]
    assert [name for name in names if secret_values({name: "v4lue-of-it"}) != {}] == []


def test_a_name_about_a_secret_does_not_mark_its_value():
    """BX-9: `TOKEN_HEADER=X-Auth-Token` is in every request of a program, and must stay readable there."""
    names = ["TOKEN_HEADER", "AUTH_BACKEND", "jwt.secret.name", "KEY_PREFIX", "auth-mode"]
    assert [name for name in names if secret_values({name: "X-Auth-Token"}) != {}] == []


def test_a_well_known_default_password_is_no_secret():
    """BX-9: it names the program, whose output could otherwise not be read."""
    passwords = ["postgres", "PostgreSQL", "password123", "Passw0rd", "rabbitmq", "minioadmin"]
    assert [
        password
        for password in passwords
        if secret_values({"DB_PASSWORD": password, "DB_URL": f"postgres://app:{password}@db/app"}) != {}
        or file_secrets(f"DB_PASSWORD={password}\nURL=postgres://app:{password}@db\n") != {}
    ] == []


def test_values_that_cannot_be_secret_are_kept_whatever_the_name():
    """BX-9: switches, numbers, paths, hosts and placeholders stay readable."""
    values = [
        *("true", "disabled", "changeme", "your-secret-here", "localhost:8080", "12345678", "3.14159265", "********"),
        *("/home/me/.ssh/key", "~/key.txt", "./certs/key", "${API_TOKEN}", "<your token>", "https://auth.example.com/"),
    ]
    assert [value for value in values if secret_values({"API_KEY": value}) != {}] == []


def test_only_the_password_of_an_address_is_secret():
    """BX-9: and the rest of the address is none."""
    assert secret_values({"DATABASE_URL": "postgres://app:hunter22x@db/app"}) == {"DATABASE_URL": "hunter22x"}


def test_a_settings_file_is_parsed_like_shells_and_tools_do():
    """BX-9: `export`, quotes, comments, `name: value`; a random-looking value is secret whatever its name."""
    text = """\
# API_TOKEN=commented-out-value
export API_TOKEN="line\\none"
DB_PASSWORD='sw0rd#fish!' # the usual
PLAIN_SECRET=unquoted-value # why
DEBUG=true
PORT=8080
APP_NAME=the-name-of-the-application
COMMIT=9e09e3e7c3f0a1b2c3d4e5f60718293a4b5c6d7e
SEED=Zk29xPq8Lm3Rt7Wv0Yb5Nc1D
//registry.example.invalid/:_authToken=abcdef123456
    oauth_token: abcdefg98765
  "auth": "dXNlcjpwYXNz",
not a setting
"""
    assert file_secrets(text) == {
        "API_TOKEN": "line\none",
        "DB_PASSWORD": "sw0rd#fish!",
        "PLAIN_SECRET": "unquoted-value",
        "SEED": "Zk29xPq8Lm3Rt7Wv0Yb5Nc1D",
        "//registry.example.invalid/:_authToken": "abcdef123456",
        "oauth_token": "abcdefg98765",
        "auth": "dXNlcjpwYXNz",
    }


def test_credentials_are_read_from_addresses_and_netrc_entries():
    """BX-9: as `.git-credentials` and `.netrc` hold them."""
    text = "https://me:first-one@host\nhttps://me:other-one@else\nmachine host login me password third-one\n"
    assert set(file_secrets(text).values()) == {"first-one", "other-one", "third-one"}


def test_hostile_files_are_parsed_quickly_and_contain_nothing():
    """BX-9: none of our expressions backtracks over them."""
    for text in ("A=" * 30_000, '"' * 60_000, "A='" * 20_000, 'A="\\' * 15_000, "://:" * 15_000, " " * 60_000):
        assert file_secrets(text) == {}, text[:10]
