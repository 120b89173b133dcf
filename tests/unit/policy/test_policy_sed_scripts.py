from scaffold.policy.shell.reading.sed_scripts import only_prints


def test_a_script_that_only_prints_is_known():
    """RA-14."""
    scripts = [
        *("p", "10,20p", "$p", "$!d", "1~2p", "/a/,/b/p"),
        *("/a/,+3p", "2q", "=", "/a/I!d", " p ; d ", "p\nd", "/a/{p;q}"),
        *("s/a/b/", "s/a/b/gIp2", "s|a|b|", "s#/usr#/opt#g"),
        *("s/^ *//; /^$/d", "/a/s/b/c/", r"s/a\/b/c/", "s/(x)/\\1&/"),
        *("s/[ab]/x/", "s/[]]/x/", "s/[^]]/x/", "s/[[:digit:]]*/n/", r"s/[^\/]*$//", "/[.]/p", "$!{N;P}"),
    ]  # fmt: skip
    assert [script for script in scripts if not only_prints(script)] == []


def test_a_script_that_may_do_more_is_not():
    """RA-13, RA-14: running, reading and writing files, and whatever is not understood."""
    scripts = [
        *("", " ", "e", "e id", "1e id", "w out", "r x"),
        *("R x", "W x", "p;e id", "p\ne id", "{e id}", "s/a/b/e", "s/a/b/w x"),
        *("a text", "i text", "c text", "y/a/b/;w x", ": x", "b", "t"),
        *("q5", "p x", "s/a/b", "s/a", "/a", "{p", "p}", "}"),
        *("s/a/b\nx/", "s/a\nb/c/", "\\%a%p", "s a b ", "sxaxbx", "10,", "1~p", "/a/,p", "s/a\\"),
    ]  # fmt: skip
    assert [script for script in scripts if only_prints(script)] == []


def test_a_script_whose_expressions_may_end_elsewhere_is_not():
    """RA-13, RA-14: a `]` that comes first does not close a class, and not every sed skips classes."""
    scripts = [
        *("s/[^]/]e id/p", "/[^]/e id;/]/p", "s/[]/]/e;s/x/[/"),
        *("/[]/w out;/]/p", "s/[/]/x/", "s/[^/]*//", "/[/]e id;/]/p"),
        *("s:[[:alpha:]]:e id:", "s/[[.].]/]/e", "s/[a\\]/]/e", "s/[[=a=]/x/"),
        *("s/[\\[:a]/x/", "s/[[:a/:]/x/", "s/[a", "/[[:"),
    ]  # fmt: skip
    assert [script for script in scripts if only_prints(script)] == []
