"""The profile for the macOS sandbox, as text."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from scaffold.host.sandbox.confinement import Confinement
from scaffold.host.sandbox.seatbelt import argv, profile

WORK = Path("/Users/me/work")
ZONE = Confinement(
    writable=(WORK,),
    temporary=Path("/private/var/folders/x/T/ours"),
    protected=(WORK / ".git", WORK / ".claude" / "settings.json"),
    hidden=(Path("/Users/me/.ssh"), WORK / ".env"),
    readable=(Path("/private/tmp/venv"),),
)


def rules(confinement, start, **options):
    """Return the rules with this prefix, in their order."""
    return [line for line in profile(confinement, **options).splitlines() if line.startswith(start)]


def literals(line):
    """Return the string literals of a line as the language parses them, and the rest of the line."""
    quoted = r'#"[^"]*"|"((?:[^"\\]|\\.)*)"'
    unescaped = [
        re.sub(r"\\(.)", lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), found[1])
        for found in re.finditer(quoted, line, re.DOTALL)
        if found[1] is not None
    ]
    return unescaped, re.sub(quoted, "", line, flags=re.DOTALL)


def test_the_profile_lists_file_rules_in_order():
    """BX-9: hidden and sealed come after writable, and the later rule wins."""
    about_files = [line for line in profile(ZONE).splitlines() if "(subpath" in line]
    secret = "deny file-read-data file-read-xattr file-write*"
    assert [re.sub(r' \(regex #"[^"]*"\)', "", line) for line in about_files] == [
        f'({secret} (subpath "/private/tmp"))',
        '(allow file-read* file-write* (subpath "/Users/me/work"))',
        f'({secret} (subpath "/private/var/tmp"))',
        f'({secret} (subpath "/private/var/folders"))',
        f'({secret} (subpath "/private/var/run"))',
        f'({secret} (subpath "/Users/me/.ssh"))',
        '(allow file-read* (subpath "/private/tmp/venv"))',
        f'({secret} (subpath "/Users/me/work/.env"))',
        '(allow file-read* file-write* (subpath "/private/var/folders/x/T/ours"))',
        '(deny file-write* (subpath "/Users/me/work/.git"))',
        '(deny file-write* (subpath "/Users/me/work/.claude/settings.json"))',
    ]


def test_a_hidden_path_inside_a_shown_one_stays_hidden():
    """BX-9"""
    top = Path("/private/tmp/shown")
    text = profile(Confinement(writable=(), temporary=Path("/t"), hidden=(top / "key",), readable=(top,)))
    assert text.index(f'(subpath "{top}")') < text.index(f'(subpath "{top}/key")')


def test_no_folder_above_a_sealed_path_can_be_created_or_moved():
    """BX-9: moving a folder would move its content to a path without a rule."""
    fixed = rules(ZONE, "(deny file-write-create file-write-unlink")
    assert [literals(line)[0] for line in fixed] == [
        ["/Users/me/work"],
        ["/Users/me/work/.claude"],
        ["/private/var/folders/x/T/ours"],
    ]


def test_denials_match_upper_and_lower_case():
    """BX-9"""
    (rule,) = [line for line in rules(ZONE, "(deny file-write*") if ".git" in line]
    expression = re.search(r'#"([^"]*)"', rule)[1]
    assert re.search(expression, "/users/ME/work/.GIT/config")
    assert not re.search(expression, "/Users/me/work/.gitignore")


def test_nothing_is_allowed_by_default_including_the_network():
    text = profile(ZONE)
    assert text.startswith("(version 1)\n(deny default)\n")
    assert "network" not in text


def test_the_network_is_reachable_only_through_the_proxy():
    assert rules(ZONE, "(allow network", proxy_port=8123) == ['(allow network-outbound (remote ip "localhost:8123"))']
    zone = structs.replace(ZONE, ports=(9001,))
    assert rules(zone, "(allow network") == ['(allow network-outbound (remote ip "localhost:9001"))']


def test_the_command_comes_last():
    assert argv(ZONE, ["ls", "-l"]) == ("/usr/bin/sandbox-exec", "-p", profile(ZONE), "--", "ls", "-l")


def test_a_path_with_a_null_character_is_an_error():
    with pytest.raises(ValueError, match="NUL character"):
        profile(Confinement(writable=(Path("/a\0b"),), temporary=Path("/t")))


names = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name not in (".", "..")
)


@given(names)
def test_no_path_escapes_its_string_literal(name):
    """BX-9"""
    path = Path("/work") / name
    plain = Confinement(writable=(Path("/x"),), temporary=Path("/t"), protected=(Path("/work/a"),))
    odd = Confinement(writable=(Path("/x"),), temporary=Path("/t"), protected=(path,))
    found, rest = literals(profile(odd))
    assert str(path) in found
    assert rest == literals(profile(plain))[1]


@given(names)
def test_a_denial_matches_its_own_path(name):
    path = Path("/work") / name
    text = profile(Confinement(writable=(Path("/x"),), temporary=Path("/t"), protected=(path,)))
    (expression,) = re.findall(r'^\(deny file-write\* .*\(regex #"([^"]*)"\)\)$', text, re.MULTILINE)
    assert re.search(expression, str(path), re.DOTALL)
    assert re.search(expression, f"{path}/below", re.DOTALL)


def test_matching_a_denial_takes_linear_time():
    """Each unbounded wildcard could otherwise multiply the positions to try."""
    path = Path("/work") / ("îÀ" + "(ä" * 60 + "x")
    text = profile(Confinement(writable=(Path("/x"),), temporary=Path("/t"), protected=(path,)))
    assert all(line.count(".+") <= 4 for line in text.splitlines())
    path = Path("/work") / ("aß" * 60)
    text = profile(Confinement(writable=(Path("/x"),), temporary=Path("/t"), protected=(path,)))
    assert all(line.count(".+") <= 4 for line in text.splitlines())
