import re

from scaffold.tools.search.ripgrep import required_literals


def test_required_words_of_an_expression_are_found():
    table = {
        "needle": ("needle",),
        r"def (\w+)\(self": ("(self",),
        r"^class \w+:$": ("class ",),
        "colou?r": ("colo",),
        "ab+cd": ("ab",),
        "ab*cd": ("cd",),
        "ab{0,3}cd": ("cd",),
        "x{12,34}": None,
        "foo|ba[rz]|foo": ("foo", "ba"),
        "foo|.": None,
        "(foo|bar)": None,
        "(?:a|b])c": ("c",),
        r"(\)|[)\]])end": ("end",),
        "[]x]y": ("y",),
        "[^]x]y": ("y",),
        "ä": None,
        "caféx": ("caf",),
        "(?i)needle": None,
        "(?x) needle": None,
        r"\x41bc": None,
        r"(a)\1bc": None,
        "(?#(comment)abc": None,
        r"\d\.\d\.\d": (".",),
        "": None,
        ".*": None,
        "{foo": ("foo",),
    }
    assert {pattern: required_literals(re.compile(pattern)) for pattern in table} == table
