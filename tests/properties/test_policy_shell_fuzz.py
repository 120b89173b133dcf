"""Comparison with bash itself: an accepted command runs and writes only what was reported."""

import random  # noqa: TID251 - seeded
import shutil
import stat
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path

import pytest

from scaffold.host.process.command_runner import run_command
from scaffold.policy.shell.parse.command_parser import CommandParser, installed_parser
from scaffold.policy.shell.parsed_command import ParsedCommand, SimpleCommand, Word

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

WANTED = 5_000
BATCH = 250
STUBS = ("ls", "cat", "git", "rm", "curl", "a", "b", "time", "if", "function", "do", "A=1", "-x", "~", "*", "[a]")
STUB = '#!/bin/sh\nprintf "%s\\0" "${0##*/}" "$@" > "$RECORD/$$"\n'
DRIVER = """
for each in "$1"/*; do
    IFS= read -r -d '' script < "$each/script"
    (cd "$each/w" && RECORD=$each/ran exec "$2" --norc -c "$script" </dev/null >/dev/null 2>&1)
done
"""
RUNS_A_FILE = frozenset({".", "source"})
"""Builtins that would read a stub as a script; the decision never lets them run."""
NAMES = (
    *("ls", "cat", "git", "rm", "curl", "a", "b", "l''s", "'cat'", '"git"', "l\\s", "time", "!", "if", "{"),
    *("(", "A=1", "[["),
)  # fmt: skip
PIECES = (
    *("x", "-x", "--y=z", "1", "''", '""', "'a b'", '"a b"', "a\\ b", "\\\\", "\\'", '\\"', "'\\'", '"\\"'),
    *('"\\$x"', 'x\'y\'"z"', "*", "?", "[ab]", "a*", "'*'", "\\*", "~", "~/x", "'~'", "a~", "a=~", "x:~/y"),
    *("~x", "$", '"$"', "$x", '"$x"', "${x}", "$'x'", "$(a)", "`a`", "$((1))", "{a,b}", "{a", "a}", "@{1}"),
    *("{1..2}", "#", "x#", "#x", "!", "!!", "^", "=", "a=b", "A=", "+", "%", "@", "é", "'é'", "[", "]"),
    *("[[", "]]", "\\\n", "if", "do", "done", "time", "function", "in", "-", "--", ".", "..", "1x", "x1"),
    *("é", "'\n'", '"\n"', '"\\\n"', "\\x", "'#'", '";"', "';'", "'|'", '"&"', "\\;", "\\|", "\\&", "\\<"),
    *("'>'", "\\>", "<(a)", ">(a)", "x{a,b}", "{a,b}{1,2}", "{}", "a{}b", "{a,b", "{a,b}*", "{},{}", "{a,}"),
)  # fmt: skip
JOINS = (
    *(" ", " ", " ", " ", "", "  ", "\t", " ; ", ";", "\n", " && ", "&&", " || ", " | ", "|", " & "),
    *(" |& ", " \\\n", "\n\n", ";;", "&&\n"),
)  # fmt: skip
VARIABLES = (
    *("$x", '"$x"', "${x}", '"${x}"', "a$x", '"$x"b', "$?", '"$?"', "$xy", "'$x'", "\\$x", "$x$x", '"a $x"', "${x}y"),
)  # fmt: skip
ITEMS = (
    *("a", "b", "'a b'", "*", "'*'", "-x", "{a,b}", "x{1,2}y{a,b}", "{a,{b,c}}", "{,a}", "a{}", "{}", "ls", "A=1"),
    *('""', "~", "$x", "$?", "[a]*", "\\*", "'$x'", "a=~", "'>o'", "rm", "'a;b'", "é", "\"'\""),
)  # fmt: skip
REDIRECTS = (
    *(">o", "> o", ">>o", "2>o", "2> o", "2>&1", ">&2", ">&o", "&>o", "&>>o", ">|o", "<o", "< /dev/null"),
    *("<>o", "1>o", "10>o", ">'o p'", "2>/dev/null", ">/dev/null", "<<<x", "{f}>o", ">o2>p", "1 >o", "x>o"),
    *(">$x", ">*", "2>&-", ">&-", "<&0", ">~/o", ">o >p", "\\>o"),
)  # fmt: skip


def texts(chance: random.Random) -> Iterator[str]:
    while True:
        if chance.random() < 0.2:
            yield shaped(chance)
            continue
        parts: list[str] = []
        for _ in range(chance.randint(1, 3)):
            parts.append(chance.choice(NAMES) if chance.random() < 0.9 else chance.choice(PIECES))
            for _ in range(chance.randint(0, 4)):
                parts += [chance.choice(JOINS[:8]), chance.choice(PIECES if chance.random() < 0.8 else REDIRECTS)]
            parts.append(chance.choice(JOINS))
        yield "".join(parts)


def shaped(chance: random.Random) -> str:
    """Return a loop or a here-document, around generated words."""

    def words(most: int, pieces: tuple[str, ...] = (*PIECES, *VARIABLES, *VARIABLES)) -> str:
        return " ".join(chance.choice(pieces) for _ in range(chance.randint(1, most)))

    def command() -> str:
        return f"{chance.choice((*NAMES[:10], '$x'))} {words(3)}{chance.choice(('', '', ' >o', ' | cat', ' && ls a'))}"

    if chance.random() < 0.6:
        body = f"for y in {words(2)}; do {command()} $y; done" if chance.random() < 0.2 else command()
        after = chance.choice(("", "", "; ls", " | cat", " >o", "; cat $x"))
        name, break_ = chance.choice(("x", "x", "y", "PATH")), chance.choice(JOINS[8:11])
        return f"for {name} in {words(3, ITEMS)}{break_}do {body}; done{after}"
    end = chance.choice(("E", "E", "EOF", "'"))
    mark = chance.choice((f"'{end}'", f"'{end}'", f'"{end}"', f"\\{end}", end))
    rest = chance.choice(("", "", " | cat", " >o", f" {words(1)}", " && ls", "; ls"))
    text = "".join(f"{chance.choice((words(2), '', command(), end + ' '))}\n" for _ in range(chance.randint(0, 3)))
    return f"{chance.choice(NAMES[:10])} <<{mark}{rest}\n{text}{end}{chance.choice(('', chr(10), chr(10) + command()))}"


def fits(word: Word, ran: str, home: str) -> bool:
    """Return whether a program may have received `ran` for the word; a glob may have become anything."""
    return word.glob or word.loose or ran == (home + word.text[1:] if word.tilde else word.text)


def reported(argv: list[str], commands: tuple[SimpleCommand, ...], home: str) -> bool:
    for simple in commands:
        globs = any(word.glob or word.loose for word in simple.words)
        if len(simple.words) == len(argv) and all(fits(*pair, home) for pair in zip(simple.words, argv, strict=True)):
            return True
        if globs and simple.words[0].literal and argv[0] == simple.words[0].text:
            return True
    return False


def first_words(reading: ParsedCommand) -> set[str]:
    return {simple.words[0].text for simple in reading.commands if simple.words}


def calls(record: Path) -> list[list[str]]:
    return [file.read_bytes().decode().split("\0")[:-1] for file in record.iterdir()]


def targets(reading: ParsedCommand) -> list[Word]:
    return [redirect.target for simple in reading.commands for redirect in simple.redirects if redirect.writes]


def homeward(reading: ParsedCommand) -> set[str]:
    return {normpath(word.text[2:]) for word in targets(reading) if word.tilde}


def unreported(place: Path, reading: ParsedCommand, home: Path) -> list[object]:
    """Return every call and every new file that the parse does not report."""
    wrong: list[object] = [call for call in calls(place / "ran") if not reported(call, reading.commands, str(home))]
    names = {normpath(word.text) for word in targets(reading) if not word.tilde}
    loose = any(word.glob for word in targets(reading))
    wrong += [file.name for file in (place / "w").iterdir() if file.name not in names and not loose]
    return wrong


@pytest.mark.parametrize("seed", [1, 2])
async def test_bash_runs_and_writes_only_what_was_reported(seed, tmp_path):
    """RA-14: at least 5,000 accepted commands, in empty folders, with stubs for every program."""
    bash = shutil.which("bash")
    assert bash
    reader = CommandParser(installed_parser())
    stubs, home = tmp_path / "bin", tmp_path / "home"
    stubs.mkdir()
    for name in STUBS:
        (stubs / name).write_text(STUB)
        (stubs / name).chmod(stat.S_IRWXU)
    source = texts(random.Random(seed))
    known: set[str] = set()
    homely: set[str] = set()
    ran = 0
    wrong: list[object] = []
    while len(known) < WANTED // 2:
        place = tmp_path / f"batch{len(known)}"
        batch: list[tuple[str, Path, ParsedCommand]] = []
        while len(batch) < BATCH:
            text = next(source)
            reading = await reader.read(text)
            if isinstance(reading, ParsedCommand) and text not in known and not first_words(reading) & RUNS_A_FILE:
                batch.append((text, place / f"{len(batch):04}", reading))
                known.add(text)
        for text, folder, _ in batch:
            (folder / "w").mkdir(parents=True)
            (folder / "ran").mkdir()
            (folder / "script").write_text(text)
        home.mkdir(exist_ok=True)
        env = {"PATH": str(stubs), "HOME": str(home), "LC_ALL": "C.UTF-8"}
        done = await run_command([bash, "-c", DRIVER, "bash", str(place), bash], cwd=tmp_path, env=env, timeout_s=600)
        assert not done.timed_out
        wrong += [(text, found) for text, folder, reading in batch if (found := unreported(folder, reading, home))]
        homely |= {name for _, _, reading in batch for name in homeward(reading)}
        ran += sum(any((folder / "ran").iterdir()) for _, folder, _ in batch)
    assert wrong == [], "\n".join(map(str, wrong))
    assert ran > WANTED // 4
    assert {file.name for file in home.iterdir()} <= homely
