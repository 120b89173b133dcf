from scaffold.policy.shell.parsed_command import Word
from scaffold.policy.shell.reading.flags import FlagSpec, ParsedArguments, parse_arguments

KNOWN = FlagSpec(
    short="ab",
    valued="nf",
    attached="M",
    long="all file= color[=] regexp=",
    texts="n regexp color",
    text_first="f regexp file",
)


def apart(*words: str, known: FlagSpec = KNOWN) -> ParsedArguments | str:
    return parse_arguments(tuple(Word(word, glob="*" in word) for word in words), known)


def paths(*words: str, known: FlagSpec = KNOWN) -> tuple[str, ...]:
    given = apart(*words, known=known)
    assert isinstance(given, ParsedArguments), given
    return tuple(word.text for word in given.paths)


def test_flags_are_distinguished_from_values_and_operands():
    """RA-14."""
    assert paths("-ab", "text", "x", "-n5", "y") == ("x", "y")
    assert paths("-n", "5", "text", "x") == ("x",)
    assert paths("-an5", "text", "x") == ("x",)
    assert paths("-abn", "5", "text", "x") == ("x",)
    assert paths("--color", "text", "--color=auto", "x") == ("x",)
    assert paths("text", "--", "-x", "--", "y") == ("-x", "--", "y")
    assert paths("text", "-", "x") == ("-", "x")
    assert paths("-M50", "text", "x") == ("x",)


def test_the_value_of_a_flag_may_be_a_path_or_text():
    """RA-14: if a flag gives the text, the first operand is a path, too."""
    assert paths("-f", "list", "x") == ("x", "list")
    assert paths("-flist", "x") == ("x", "list")
    assert paths("--file=list", "x") == ("x", "list")
    assert paths("--file", "list", "x") == ("x", "list")
    assert paths("--regexp=a", "x") == ("x",)
    assert paths("--regexp", "a", "x", "y") == ("x", "y")


def test_text_that_may_also_be_a_path_counts_as_a_path():
    """RA-14."""
    assert paths("--regexp", ".env", "--file", ".env") == (".env",)
    assert paths("x*", "y") == ("x*", "y")


def test_an_unlisted_flag_is_refused():
    """RA-14: abbreviations, missing values, globs that may become flags."""
    refused = [
        *(("-x",), ("-ax",), ("--other",), ("--al",), ("--all=x",), ("-n",), ("--file",), ("-n", "-x")),
        *(("-n", "--all"), ("-n", "*"), ("*",), ("-*",), ("text", "*"), ("-M", "--other")),
    ]  # fmt: skip
    assert [words for words in refused if not isinstance(apart(*words), str)] == []


def test_a_glob_is_safe_where_no_flag_is_possible():
    """RA-14."""
    assert paths("a", "*", known=FlagSpec(any_glob=True)) == ("a", "*")
    assert paths("text", "--", "*") == ("*",)
    assert paths("text", "x/*") == ("x/*",)


def test_numbers_and_limits_are_kept():
    """RA-14."""
    assert paths("-20", "x", known=FlagSpec(counts=True)) == ("x",)
    assert isinstance(apart("-20", known=FlagSpec()), str)
    assert isinstance(apart("x", "y", known=FlagSpec(most=1)), str)
    assert isinstance(apart("x*", known=FlagSpec(most=1)), str)
    assert paths("x", "y", known=FlagSpec(no_paths=True)) == ()


def test_a_flag_that_may_take_the_end_of_the_flags_as_its_value_is_refused():
    """RA-13, RA-14: in `--color -- -x`, `-x` may be a flag."""
    assert isinstance(apart("--color", "--", "-x"), str)
    assert isinstance(apart("-a", "--", "text", "-x"), str)
    assert paths("--color", "--", "text", "x") == ("x",)
    assert paths("-a", "text", "--", "-x") == ("-x",)
    assert paths("-a", "--", "-x", known=FlagSpec(short="a", any_glob=True)) == ("-x",)


def test_a_program_without_clusters_gets_its_flags_one_by_one():
    """RA-13, RA-14: `xxd -ac in out` is `-a`, and writes `out`."""
    known = FlagSpec(short="a", valued="c", texts="c", clustered=False)
    assert paths("-a", "-c", "5", "x", known=known) == ("x",)
    assert isinstance(apart("-ac", "5", "x", known=known), str)
    assert isinstance(apart("-c5", "x", known=known), str)


def test_a_flag_after_an_operand_is_refused_if_the_program_would_take_it_for_one():
    """RA-13, RA-14: the program of `awk A B -F:` is `A`."""
    known = FlagSpec(valued="F", text_first="", permutes=False)
    assert isinstance(apart("A", "B", "-F:", known=known), str)
    given = apart("-F", ":", "A", "B", known=known)
    assert isinstance(given, ParsedArguments)
    assert (given.text, given.operands) == (Word("A"), (Word("B"),))


def test_a_glob_after_the_name_of_a_flag_is_a_value_of_that_flag():
    """RA-14: `--include=*.py` expands to nothing else; `--in*` may."""
    known = FlagSpec(long="file=", any_glob=True)
    assert paths("--file=*.py", known=known) == ("*.py",)
    assert isinstance(apart("--fi*=x", known=known), str)
    assert isinstance(apart("--file=*.py"), str)
