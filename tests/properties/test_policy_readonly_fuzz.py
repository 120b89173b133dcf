"""Every program that is allowed because it "only reads", run with generated arguments and watched by the kernel."""

import json
import os
import platform
import random  # noqa: TID251 - seeded
import shlex
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from string import ascii_letters, digits

import pytest

from builders import git, make_repository
from scaffold.host.process.command_runner import OutputCapture, run_command
from scaffold.policy.shell.command_decision import decide_parsed
from scaffold.policy.shell.parse.tree_sitter_parser import parse_with_tree_sitter
from scaffold.policy.shell.parsed_command import ParsedCommand, SimpleCommand, Word
from scaffold.policy.shell.reading.flags import FlagSpec
from scaffold.policy.shell.reading.readonly_arguments import ARGUMENT_PARSERS
from scaffold.policy.shell.reading.readonly_commands import READ_ONLY_COMMANDS
from scaffold.policy.shell.reading.readonly_git import SUBCOMMANDS
from scaffold.policy.shell.workspace_paths import DecisionContext, DiskFileSystem, WorkspacePaths

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"}, reason="seccomp"),
]

CASES = int(os.environ.get("READONLY_CASES", "500"))
SEED = int(os.environ.get("READONLY_SEED", "1"))
TRIES = 400
"""Maximum number of generated commands for one that the policy allows."""
SIGSYS = -31
BUILTINS = frozenset({"echo", "printf", "test", "[", "pwd", "true", "false", ":", "type", "command", "cd"})
SHOWS_NO_CONTENT = frozenset({"file"})
"""It reads every file to name its type."""
WATCH = Path(__file__).parents[1] / "support" / "observe_reads.py"
FILES = {
    "a.txt": "b\na 1\n",
    "b.txt": "a 1\nc\n",
    "code.py": "print(1)  # main\n",
    "data.json": '{"a": [1, {"b": "x"}]}\n',
    "hex": "00000000: 6162\n",
    "1": "one\n",
    "5": "five\n",
    "-o": "\n",
    "-n": "\n",
    "--output=out": "\n",
    "--pre=.": "\n",
    "@list": "../outside.txt\n.env\n",
    "list": ".env\n../outside.txt\n",
    "evil.sed": "1e id\n",
    "p": "w out\n",
    "sub/a.txt": "x\n",
    "sub/deep/b.txt": "y\n",
    "tracked.md": "# text\n",
}
SECRETS = {".env": "KEY=secret1\n", "sub/.env": "KEY=secret2\n", "key.pem": "secret3\n", "../outside.txt": "secret4\n"}
OPERANDS = (
    *("a.txt", "b.txt", "code.py", "data.json", "hex", "sub", "sub/a.txt", ".", "-", "--", "*", "*.txt", "?.txt"),
    *("sub/*", "[a-c]*", "1", "5", "list", "@list", "@.env", ".env", "sub/.env", "../outside.txt", "..", "out"),
    *("-o", "--output=out", "+1", "-1", "+0", "HEAD", "main", "HEAD:a.txt", "tracked.md", "main..HEAD", "sub/deep"),
    *("key.pem", "./a.txt", "evil.sed", "+%F", "a", "main", "x=1", "01010000", "root", "ls", "-5f", "5k"),
)  # fmt: skip
VALUES = (
    *("1", "5", "0", "a", "x y", "out", ".env", "../outside.txt", "recurse", "skip", "read", "rec", "*.py", "!*.py"),
    *(".env*", "**/.env", "--", "-", "-o", "--output=out", "@list", "list", "e id", "w out", "%G?", "%+G?", "%an", ","),
    *("%(signature)", "signature", "%(refname)", ":", "auto", "always", "HEAD", "main", "py", "json", "all", "c", "s"),
    *("1,5", "./evil", "sort", "name", "tsort", "iso", "10", "k1", "x", "%s", "%n", "utf-8", "g/^a/", "[^]/]e id"),
)  # fmt: skip
STRANGE = (
    *("output", "out", "files0-from", "pre", "compress-program", "open-files-in-pager", "ext-diff", "textconv", "exec"),
    *("contents", "no-index", "untracked", "recurse-submodules", "in-place", "file", "directories", "include", "iglob"),
    *("hidden", "no-ignore", "follow", "dereference-recursive", "null-data", "set", "edit", "check", "show-signature"),
)  # fmt: skip
PROGRAMS = {
    "sed": (
        *("-n '/[^]/]*x/p'", "'s/[]]/x/g'", "'s/a/b/;s/c/d/p'", "-n '1,5p'", "'/a/,/b/d'", "-e p -e '$!d'", "'1~2p'"),
        *("-n '/[[:alpha:]]/{p;q}'", "'s|a|b|gI'", "'s#[^#]#x#2'", "-E 's/(a)/\\1/'", "'$='", "'/a/!d'", "p", "-s p"),
        # Where two readings of a bracket expression differ, one of them finds another command.
        *(
            "'/[^]/s/]/1e id;s/p'",
            "'/[]/s/]/w out;s/p'",
            "'/[^]/s/]/1p;s/p'",
            "'s/[^]/]/p;s/a/b/'",
            "'/[[:a/:]/s/]/e;s/p'",
        ),
    ),
    "awk": (
        *("'{print $1}'", "-F: '{print $1, $NF}'", "'NR>1 && NF<5 {print \"a b\"}'", "'/a b/ {print}'", "'NR==1'"),
        *("-F, '$1 ~ \"a\" {print NR}'", "'{ print $2 ; }'", "'BEGIN{system(\"id\")}' '{print}' -F:"),
    ),
    "jq": (
        *(".", "-r .a", "'.a | length'", "-c '.a[]'", "'.a as $x | $x'", "'keys'", "-n '1'", "'\"\\(.a)\"'", "-e .b"),
    ),
    "find": (
        *(". -name '*.txt'", "sub -type f -print", ". \\( -name a -o -name b \\) -ls", ". -newer a.txt", ". -prune"),
        *(". -printf '%p'", "-maxdepth 1", ". -size +1k -empty", "-H . -samefile a.txt", ". -not -perm 644 -quit"),
    ),
    "test": ("-f a.txt", "a = b", "1 -eq 1 -a -d sub", "! -z x", "a.txt -nt b.txt", "-n x -o -s .env"),
    "date": ("+%F", "-u", "-d now", "-I", "-Iseconds", "--date=yesterday", "-R", "--rfc-3339=date +%s"),
    "printf": ("'%s' a", "'%d %x' 1 2", "'%q' x", "'%b' 'a\\n'", "'%*d' 5 1", "'%(%F)T'"),
    "echo": ("a", "-n a", "-e 'a\\n'", "*", "'a;b'"),
    "command": ("-v ls", "-V cd"),
    "hostname": ("", "-s", "-I", "--short"),
    "sleep": ("0", "0.0", "0s"),
    "strings": ("a.txt", "-n 3 a.txt", "-a -t x hex", "-e l hex"),
    "cd": ("sub", "."),
    "printenv": ("HOME", "LANG TZ", "PATH"),
    "ps": ("aux", "-ef", "-o pid,args -p 1", "axw", "-u root", "--forest -e"),
}
PROGRAMS["["] = tuple(f"{each} ]" for each in PROGRAMS["test"])
TOKENS = {
    "sed": (
        *(
            *("/", "[", "]", "^", "[^]", "[]", "a", "e", "e id", "w out", "w", "s", ",", ";", "p", "d", "\\", "{"),
            *("}", "1"),
        ),
        *(
            *("$", "!", "g", "I", "|", "#", ":", "[:alpha:]", "[.", ".]", "[=", " ", "&", "~", "+", "0", "M"),
            *("r .env", "\n"),
        ),
    ),
    "awk": (
        *("{", "}", "print", '"', "|", ">", "system(1)", "getline", "$1", "NR", "/", "~", "!", " ", "&&", ";", '"sh"'),
        *("-", "=", "(", ")", "ENVIRON", "out", ",", "\\", "BEGIN", "-f", "-v x=1"),
    ),
    "jq": (".", "env", "input", "$ENV", "|", "[", "]", "\\(", ")", '"', "include", "$__loc__", " ", "modulemeta", "-f"),
    "find": (
        *(" -exec id ;", " -delete", " -fprint out", " -o", " -ok id ;", " -fls out", " \\;", " -name", " {}", " -a"),
        *(" -newer", " ../outside.txt", " -execdir id \\;", " -L", " -files0-from list", " !"),
    ),
    "date": (" -s 1", " -f list", " 01010000", " -r a.txt", " +%s", " -I", "s"),
    "printf": ("%n", " -v x", "%s", " a[0]", "*", "\\x41", " "),
    "printenv": (" API_KEY", " -0", " ", "_"),
    "ps": ("e", " -e", " -o environ", ",environ", " -", "E", " e", "x"),
    "test": (" -v", " -R", " a[0]", " -o", " -eq", " (", " -t 1"),
}


def mutated(text: str, tokens: tuple[str, ...], chance: random.Random) -> str:
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        at = chance.randint(0, len(text))
        until = chance.choice((at, at, min(at + 1, len(text)), min(at + 3, len(text))))
        text = text[:at] + chance.choice(tokens) + text[until:]
    return text


def language(name: str, chance: random.Random) -> str:
    text = mutated(chance.choice(PROGRAMS[name]), TOKENS.get(name, (" ", "-", "x")), chance)
    extra = [shown(chance.choice(OPERANDS)) for _ in range(chance.choice((0, 1, 1, 2)))]
    if chance.random() < 0.2:
        extra.insert(0, chance.choice(("-n", "-F:", "-s", "-e", "--", "-r", "-i", "-E", "-z")))
    words = [text, *extra]
    if chance.random() < 0.2:
        chance.shuffle(words)
    return " ".join((name, *words))


def shown(word: str) -> str:
    """Return the word as it is written in a command: a glob stays one."""
    return word if set(word) & set("*?[") and not set(word) & set(" '!^") else shlex.quote(word)


def flag(known: FlagSpec, chance: random.Random) -> list[str]:
    kind = chance.random()
    if kind < 0.55:
        letters = known.short + known.valued + known.attached
        pool = letters if letters and chance.random() < 0.85 else ascii_letters + digits
        word = "-" + "".join(chance.choice(pool) for _ in range(chance.choice((1, 1, 1, 2, 3))))
        if chance.random() < 0.25:
            word += chance.choice(VALUES)
        return [word, chance.choice(VALUES)] if chance.random() < 0.4 else [word]
    names = known.long.split() if known.long and chance.random() < 0.85 else STRANGE
    name = chance.choice(names)
    bare = name.removesuffix("[=]").removesuffix("=")
    if chance.random() < 0.05:
        bare = bare[: chance.randint(1, len(bare))]
    if "=" in name and chance.random() < 0.7:
        return [f"--{bare}={chance.choice(VALUES)}"]
    return [f"--{bare}", chance.choice(VALUES)] if "=" in name or chance.random() < 0.1 else [f"--{bare}"]


def flagged(name: str, known: FlagSpec, chance: random.Random) -> str:
    words = [word for _ in range(chance.choice((0, 1, 1, 2, 3))) for word in flag(known, chance)]
    for _ in range(chance.choice((0, 1, 1, 2, 2, 3))):
        words.insert(chance.randint(0, len(words)) if chance.random() < 0.3 else len(words), chance.choice(OPERANDS))
    return " ".join((name, *map(shown, words)))


def generated(subject: str, chance: random.Random) -> str:
    if subject.startswith("git "):
        return flagged(subject, SUBCOMMANDS[subject.removeprefix("git ")], chance)
    if subject in PROGRAMS:
        return language(subject, chance)
    return flagged(subject, READ_ONLY_COMMANDS[subject], chance)


def expanded(words: tuple[Word, ...], root: Path) -> list[str]:
    """Return what a program gets for these words: bash replaces globs by the names they match."""
    return [text for word in words for text in (matches(word.text, root) if word.glob else ()) or (word.text,)]


def matches(glob: str, root: Path) -> list[str]:
    folder, _, last = glob.rpartition("/")
    if set(folder) & set("*?["):
        return []
    place = root / folder
    names = sorted(each.name for each in place.iterdir()) if place.is_dir() else []
    found = [name for name in names if fnmatchcase(name, last) and (last.startswith(".") or not name.startswith("."))]
    return [f"{folder}/{name}" if folder else name for name in found]


def subjects() -> list[str]:
    """Return the programs of the read-only lists that are installed, and git's subcommands."""
    plain = sorted({*READ_ONLY_COMMANDS, *ARGUMENT_PARSERS} - {"sleep"})
    there = [name for name in plain if name in BUILTINS or shutil.which(name)]
    return [*there, *(f"git {name}" for name in sorted(SUBCOMMANDS))]


def allowed(wanted: int, context: DecisionContext, chance: random.Random) -> list[tuple[str, tuple[Word, ...]]]:
    """Return generated commands that the policy allows, with their words, the same number for each subject."""
    names = subjects()
    commands: list[tuple[str, tuple[Word, ...]]] = []
    while len(commands) < wanted:
        subject = names[len(commands) % len(names)]
        for _ in range(TRIES):
            command = generated(subject, chance)
            parsed = parse_with_tree_sitter(command)
            simple = parsed.commands[0] if isinstance(parsed, ParsedCommand) else SimpleCommand(())
            # What `find -exec` runs is among the programs that are tried here, so its start is no finding.
            runs = any(word.text == "-exec" for word in simple.words)
            alone = (
                not runs and isinstance(parsed, ParsedCommand) and len(parsed.commands) == 1 and not simple.redirects
            )
            if alone and decide_parsed(parsed, context).decision == "allow":
                commands.append((command, simple.words))
                break
        else:
            pytest.fail(f"no allowed arguments were generated for `{subject}`")
    return commands


def invocation(command: str, words: tuple[Word, ...], root: Path) -> list[str]:
    name, *rest = expanded(words, root)
    if name in BUILTINS:
        return [shutil.which("bash") or "bash", "--norc", "-c", command]
    return [shutil.which(name) or name, *rest]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "w")
    for name, text in {**FILES, **SECRETS}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "add", "a.txt", "tracked.md", "code.py", "sub/a.txt")
    git(root, "commit", "-m", "more")
    (root / "a.txt").write_text("changed\n")
    return root


async def test_a_command_that_only_reads_runs_nothing_writes_nothing_and_connects_to_nothing(root, tmp_path):
    """RA-13, RA-14: nor does it read a secret; `READONLY_CASES` and `READONLY_SEED` choose others."""
    context = DecisionContext(workspace=WorkspacePaths(root=str(root), home="/home/u", files=DiskFileSystem()))
    commands = allowed(CASES, context, random.Random(SEED))
    asked = "".join(json.dumps({"run": invocation(*each, root)}) + "\n" for each in commands)
    home = tmp_path / "home"
    home.mkdir()
    done = await run_command(
        [sys.executable, str(WATCH), *SECRETS],
        cwd=root,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"},
        timeout_s=3_000,
        stdin=asked.encode(),
        output=OutputCapture(limit_bytes=200_000_000),
    )
    assert done.exit_code == 0, done
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(commands)
    wrong = [
        (command, answer)
        for (command, words), answer in zip(commands, answers, strict=True)
        if answer["status"] in {SIGSYS, 120, 121} or (answer["read"] and words[0].text not in SHOWS_NO_CONTENT)
    ]
    assert wrong == [], "\n".join(map(str, wrong))
    assert sum(answer["status"] == 0 for answer in answers) > CASES // 4
