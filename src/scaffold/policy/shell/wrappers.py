"""Programs that run other programs: a rule for the program does not cover what it runs, and denials look inside."""

import re
from collections.abc import Iterator
from itertools import pairwise

from scaffold.policy.shell.parsed_command import SimpleCommand, Word

WRAPPERS = frozenset({
    *("sudo", "doas", "su", "runuser", "env", "command", "builtin", "exec", "eval", "nohup", "nice", "ionice", "time"),
    *("timeout", "stdbuf", "setsid", "xargs", "parallel", "watch", "script", "strace", "ltrace", "gdb", "valgrind"),
    *("chroot", "unshare", "nsenter", "flock", "ssh", "busybox", "toybox", "entr", "chrt", "taskset", "setarch"),
    *("systemd-run", "at", "batch", "crontab", "source", ".", "trap", "coproc", "prlimit", "setpriv", "capsh"),
    *("dbus-run-session", "xvfb-run", "fakeroot", "unbuffer", "screen", "tmux", "docker", "podman", "kubectl"),
    *("find", "fd", "git-shell", "rlwrap", "torify", "proxychains", "catchsegv", "linux64", "linux32", "nsjail"),
})  # fmt: skip
"""Programs whose arguments are a command or a script to run: only a rule with the whole command allows them."""

INTERPRETERS = frozenset({
    *("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "csh", "tcsh", "rbash", "python", "python2", "python3"),
    *("pypy", "pypy3", "ipython", "node", "nodejs", "deno", "bun", "perl", "ruby", "php", "lua", "luajit", "awk"),
    *("gawk", "mawk", "nawk", "sed", "Rscript", "R", "julia", "groovy", "scala", "java", "osascript", "pwsh"),
    *("powershell", "cmd", "vim", "vi", "nvim", "emacs", "ed", "ex", "npx", "bunx", "uvx", "pipx", "tsx", "ts-node"),
    *("make", "gmake", "just", "rake", "npm", "yarn", "pnpm", "cargo", "go", "uv", "poetry", "hatch", "tox", "nox"),
    *("gradle", "mvn", "cmake", "ninja", "bazel", "sqlite3", "psql", "mysql", "jq", "git"),
})  # fmt: skip
"""Programs whose arguments name the code they run: a rule must include the script, module, target or subcommand."""

LAUNCHERS = frozenset({"npm", "yarn", "pnpm", "uv", "poetry", "hatch", "cargo", "go", "deno", "bun"})
PROGRAM_LAUNCHERS = frozenset({"npx", "bunx", "uvx", "pipx"})
LAUNCH_SUBCOMMANDS = frozenset({"run", "run-script", "exec", "x", "tool", "tx", "dlx"})
_CODE = re.compile(r"-[A-Za-z]*[ceEpr]|--eval|--print|--command|--execute|-m|-")
_VERSIONED = re.compile(r"(?:python|pypy|lua|ruby|perl|php|node)[\d.]*")
_MODULE = re.compile(r"\w+(?:\.\w+)*")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "su", "rbash"})
_RUN_SCRIPTS = frozenset({"nodejs", "deno", "bun", "tsx", "ts-node", "Rscript", "julia", "fish", "pwsh", "osascript"})
_TAKE_TEXT = frozenset({"script", "flock", "xvfb-run", "unshare", "screen"})
"""Wrappers that also take a shell text after `-c`."""
_SHELL_TEXT = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")
_VALUE_NEXT = frozenset(
    {"-u", "-g", "-C", "-n", "-s", "-k", "-I", "-L", "-P", "-d", "-E", "-c", "-p", "-h", "-i", "-o"}
)
MAX_INNER = 4


def program_name(word: Word) -> str:
    """Return the name of a program without the directory before it."""
    return word.text.rpartition("/")[2]


def runs_script(name: str) -> bool:
    """Return whether the first argument of a program of this name is a script."""
    return name in _SHELLS | _RUN_SCRIPTS or _VERSIONED.fullmatch(name) is not None


def module_files(module: str) -> tuple[str, ...]:
    """Return the files that `python -m` may run for a module, relative to a folder; empty if it is no module name."""
    path = module.replace(".", "/")
    return (f"{path}.py", f"{path}/__main__.py") if _MODULE.fullmatch(module) else ()


def rule_names_enough(rule: tuple[str, ...]) -> bool:
    """Return whether a rule names what runs, not only a wrapper, an interpreter or a launcher."""
    name = rule[0].rpartition("/")[2] if rule else ""
    if not name or name in WRAPPERS or any("\n" in word for word in rule):
        return False
    if name not in INTERPRETERS and not _VERSIONED.fullmatch(name):
        return True
    named = [word for word in rule[1:] if not word.startswith("-")]
    if name == "git":
        return True
    if any(_CODE.fullmatch(word) for word in rule[1:] if word != "-m"):
        return False
    if name in LAUNCHERS and named and named[0] in LAUNCH_SUBCOMMANDS:
        return len(named) > 1
    return bool(named)


def launched_program(words: tuple[Word, ...]) -> str:
    """Return the program that a launcher is to start (`uv run X`, `npm exec X`, `npx X`); empty if there is none."""
    name, *rest = [word.text for word in words if word.literal and not word.text.startswith("-")] or [""]
    name = name.rpartition("/")[2]
    if name not in PROGRAM_LAUNCHERS:
        # What package managers and compilers `run` is a script or a source.
        subcommands = LAUNCH_SUBCOMMANDS if name in {"uv", "poetry", "hatch"} else {"exec", "x", "dlx"}
        if name not in LAUNCHERS or not rest or rest[0] not in subcommands:
            return ""
        rest = rest[2:] if rest[:2] == ["tool", "run"] else rest[1:]
    return rest[0] if rest and "/" not in rest[0] else ""


def inner_commands(simple: SimpleCommand) -> Iterator[SimpleCommand | str]:
    """Yield what a wrapper would run: a simple command, or a text for a shell."""
    words = simple.words
    if not words:
        return
    name = program_name(words[0])
    if name in _SHELLS:
        yield from _shell_texts(words)
        yield from (redirect.target.text for redirect in simple.redirects if redirect.is_text)
    elif name in {"eval", "trap"}:
        yield " ".join(word.text for word in words[1:])
    elif name in {"find", "fd"}:
        for at, word in enumerate(words):
            if word.text in {"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec"}:
                yield SimpleCommand(words[at + 1 :])
    elif name in WRAPPERS:
        yield from _wrapped_commands(words)
        yield from _shell_texts(words) if name in _TAKE_TEXT else ()


def _shell_texts(words: tuple[Word, ...]) -> Iterator[str]:
    for flag, text in pairwise(words):
        if _SHELL_TEXT.fullmatch(flag.text):
            yield text.text


def _wrapped_commands(words: tuple[Word, ...]) -> Iterator[SimpleCommand | str]:
    """Yield the command after a wrapper's own flags and values, once for each word where it may start."""
    found = 0
    takes_file = program_name(words[0]) == "flock"
    for at, word in enumerate(words[1:], start=1):
        before = words[at - 1].text
        if word.text.startswith("-") or "=" in word.text:
            continue
        # It is not known which flags of a wrapper take a value, so several words may be the start of the command.
        yield word.text if any(map(str.isspace, word.text)) else SimpleCommand(words[at:])
        found += 1
        if found > MAX_INNER or not (before in _VALUE_NEXT or word.text[:1].isdigit() or (takes_file and found == 1)):
            return
