"""Flags and words that change what an allowed command does; a rule covers them only if it names them."""

import re
from collections.abc import Mapping

from msgspec import Struct

from scaffold.policy.shell.parsed_command import Word
from scaffold.policy.shell.wrappers import program_name


class RiskyFlags(Struct, frozen=True):
    """The risky flags and words of one program."""

    letters: str = ""
    long: str = ""
    """Names without dashes, separated by spaces."""
    abbreviated: bool = True
    """Whether the program accepts abbreviated names."""
    words: str = ""
    pattern: str = ""
    """A regular expression for whole words."""


_TELLING = (
    r"exec|plug|hook|load|require|import|config|rcfile|init|script|setup|output|outfile|wrapper|shell|editor|pager"
    r"|program|eval|register|resolver|reporter|formatter|transform|preset|runner|rules?-?dir|node-option|command"
)
"""Parts of names of flags that load other code, run something or write a file, whatever the program."""
_ANY_PATTERN = rf"--?(?!-|no-)[\w.:-]*(?i:{_TELLING})[\w.:-]*(?:=.*)?|@.+"
"""Such a flag, or a file with further arguments."""
_ANY = RiskyFlags(pattern=_ANY_PATTERN)
"""For programs without a list."""


def _flag_list(letters: str = "", long: str = "", *, words: str = "", pattern: str = "") -> RiskyFlags:
    # Telling names and `@file` always count.
    pattern = f"{_ANY_PATTERN}|{pattern}" if pattern else _ANY_PATTERN
    return RiskyFlags(letters=letters, long=long, abbreviated=False, words=words, pattern=pattern)


_TESTS = RiskyFlags(
    letters="cop",
    long="rootdir override-ini confcutdir basetemp config-file pastebin pdbcls import-mode pyargs inifile",
    abbreviated=False,
)
_MAKE = RiskyFlags(
    letters="fCIE", long="file makefile directory eval include-dir", pattern=r"(?!(?:(?:V|VERBOSE)=)?\d+\Z)[^-].*"
)
"""Any further word is another target or a variable; only numbers and verbosity are harmless."""
_NPM = RiskyFlags(
    letters="C",
    long="prefix script-shell userconfig globalconfig node-options registry global shell call workspace "
    "package ignore-scripts",
)
_GCC = _flag_list(pattern=r"-[BTX].*|-{1,2}(?:specs|load|fuse-ld|iplugindir|dump|imacros)\b.*|-W[alp],.*")
"""Other programs, plugins, and arguments for the assembler and the linker."""
_DISCARDS = RiskyFlags(words=". -- :/")
"""Words that discard uncommitted changes."""
_HARMLESS_SETTINGS = (
    r"(?:user|color|advice|branch|pull|rerere)\..*|core\.(?:autocrlf|eol|filemode|ignorecase|quotepath|safecrlf)"
    r"|push\.default|fetch\.prune|init\.defaultbranch"
)

RISKY_FLAGS: Mapping[str, RiskyFlags] = {
    "git": RiskyFlags(
        letters="fdDOcCx",
        long="force force-with-lease force-if-includes mirror delete prune hard exec upload-pack receive-pack "
        "ext-diff textconv no-index open-files-in-pager output config config-env exec-path git-dir work-tree "
        "template extcmd no-verify upload-archive recurse-submodules paginate",
        words="remove prune drop clear foreach filter-branch run set-url config difftool mergetool hook daemon "
        "send-email shell instaweb expire delete replace",
        pattern=r"(?:\+.*|:.+|[A-Za-z][\w+.-]*::.*)",
    ),
    "git archive": RiskyFlags(letters="o", long="output remote"),
    "git clone": RiskyFlags(letters="u"),
    "git commit": RiskyFlags(letters="n"),
    "git push": RiskyFlags(
        letters="o", long="repo all branches push-option", pattern=r"[a-z+]+://.*|[^:/]+@[^:/]+:.*|[./~].*"
    ),
    "git checkout": _DISCARDS,
    "git restore": _DISCARDS,
    "git config": RiskyFlags(pattern=rf"(?i)(?!(?:{_HARMLESS_SETTINGS})\Z)[\w-]+\..*"),
    "mypy": _flag_list(
        long="python-executable custom-typeshed-dir custom-typing-module shadow-file cache-dir junit-xml"
    ),
    "pytest": _TESTS,
    "unittest": _flag_list(),
    "pylint": _flag_list(long="extension-pkg-allow-list extension-pkg-whitelist unsafe-load-any-extension"),
    "flake8": _flag_list(long="enable-extensions append-config tee bug-report"),
    "black": _flag_list(letters="c", long="code required-version"),
    "isort": _flag_list(long="settings-path settings-file sp"),
    "ruff": _flag_list(letters="o", long="cache-dir add-noqa"),
    "pyright": _flag_list(letters="pv", long="project pythonpath venvpath typeshedpath typeshed-path venv-path"),
    "eslint": _flag_list(letters="cof", long="parser parser-options format ext stdin-filename"),
    "prettier": _flag_list(long="parser find-config-path"),
    "tsc": _flag_list(
        letters="pb", long="project build generateTrace generateCpuProfile tsBuildInfoFile declarationDir outDir"
    ),
    "jest": _flag_list(
        letters="c",
        long="projects rootDir roots testEnvironment snapshotSerializers moduleNameMapper cacheDirectory "
        "testSequencer globals env filter",
    ),
    "vitest": _flag_list(letters="cr", long="root dir globals environment pool outputFile browser api"),
    "mocha": _flag_list(letters="rROnu", long="ui opts file package node-option extension"),
    "rspec": _flag_list(letters="rIOofP", long="format out options default-path pattern drb"),
    "phpunit": _flag_list(
        letters="cd",
        long="bootstrap include-path printer extension",
        pattern=r"--(?:log|coverage|testdox|cache)[\w-]*(?:=.*)?",
    ),
    "ctest": _flag_list(
        letters="SDTMO", long="build-and-test test-dir build-generator overwrite submit-index test-command"
    ),
    "shellcheck": _flag_list(),
    "yamllint": _flag_list(letters="cd"),
    "markdownlint": _flag_list(letters="cropj", long="rules ignore-path"),
    "rubocop": _flag_list(letters="rcof", long="format out cache-root server"),
    "gofmt": _flag_list(pattern=r"--?cpuprofile(?:=.*)?"),
    "rustfmt": _flag_list(long="emit"),
    "uv": _flag_list(
        letters="pm",
        long="project directory with with-editable with-requirements env-file index default-index index-url "
        "extra-index-url find-links python from module",
    ),
    "poetry": _flag_list(letters="CP", long="directory project"),
    "make": _MAKE,
    "gmake": _MAKE,
    "just": _MAKE,
    "rake": _MAKE,
    "ninja": _MAKE,
    "go": RiskyFlags(
        pattern=r"--?(?:exec|toolexec|C|overlay|modfile|vettool|o|\w*flags|compiler|pkgdir|gccgoflags|outputdir)(?:=.*)?"
    ),
    "cargo": RiskyFlags(letters="CZ", long="config manifest-path target-dir", abbreviated=False),
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": _NPM,
    "tar": RiskyFlags(
        letters="ICPFTX",
        long="to-command use-compress-program checkpoint-action rsh-command rmt-command directory absolute-names "
        "info-script new-volume-script files-from",
        pattern=r"[A-Za-z]*[CIFP][A-Za-z]*",
    ),
    "find": RiskyFlags(words="-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls"),
    "rg": RiskyFlags(letters="z", long="pre hostname-bin search-zip"),
    "sort": RiskyFlags(letters="oT", long="output compress-program temporary-directory files0-from"),
    "rsync": RiskyFlags(letters="e", long="rsh rsync-path delete remove-source-files"),
    "scp": RiskyFlags(letters="SoFJDX"),
    "sftp": RiskyFlags(letters="SoFJDXb"),
    "curl": RiskyFlags(
        letters="KoOTFd",
        long="config output remote-name upload-file data data-binary data-raw "
        "data-urlencode json form form-string proxy output-dir cookie-jar trace dump-header libcurl unix-socket netrc",
        pattern=r"@.*|-[A-Za-z]+@.*|--[\w-]+=@.*",
    ),
    "wget": RiskyFlags(
        letters="OeiP", long="output-document execute input-file post-file use-askpass directory-prefix"
    ),
    "zip": RiskyFlags(letters="TO", long="unzip-command test"),
    "man": RiskyFlags(letters="PHC", long="pager html config-file"),
    "sed": RiskyFlags(letters="inf", long="in-place file"),
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++", "ld"), _GCC),
    "sqlite3": RiskyFlags(
        pattern=r"(?is)--?(?:cmd|init|append|archive|A|deserialize|vfs).*|\s*\..*|.*\n\s*\..*"
        r"|.*\b(?:load_extension|writefile|readfile|edit|fsdir|attach|vacuum)\b.*"
    ),
    "psql": RiskyFlags(
        letters="foLv", long="file output log-file set variable", pattern=r"(?is).*(?:\\|\bprogram\b).*"
    ),
    **dict.fromkeys(
        ("mysql", "mariadb"),
        _flag_list(pattern=r"(?is:.*(?:\\|\b(?:system|source|tee|pager|outfile|dumpfile|load_file|infile)\b).*)"),
    ),
}
_PROTECTED_BRANCH = re.compile(r"(?:main|master|trunk|develop|production|prod|release|stable)(?:/.*)?", re.IGNORECASE)
RUNNERS = frozenset({"uv", "poetry", "hatch", "pdm", "rye", "bundle", "pipenv"})
"""Programs that run the program after `run` or `exec`."""
_SHORT = re.compile(r"-[A-Za-z0-9].*")
_OFF = re.compile(r"no:[\w.-]+")


def find_risk(words: tuple[Word, ...], rule: tuple[str, ...]) -> str | None:
    """Return the first risky word in a command after the words that `rule` names; None if there is none."""
    known = tuple(_flag_lists(words))
    texts = [word.text for word in words[len(rule) :]]
    for at, text in enumerate(texts):
        # `pytest -p no:NAME` switches a plugin off, while any other `-p` imports a module.
        if text == "-p" and _OFF.fullmatch(texts[at + 1] if at + 1 < len(texts) else ""):
            continue
        if any(_is_risky(text, each) for each in known):
            return text
    return None


def has_flag_list(words: tuple[str, ...]) -> bool:
    """Return whether the risky flags of each program in a command or rule are known."""
    return all(name in RISKY_FLAGS for name in _program_names(words))


def pushed_branch(words: tuple[Word, ...], named: int, current: str) -> str | None:
    """Return the protected branch that a push changes; None if there is none, or the first `named` words name it.

    `current` is the repository's current branch, which a push without a destination changes.
    """
    texts = [word.text for word in words]
    if texts[1:2] != ["push"] or program_name(words[0]) != "git":
        return None
    refs = [(at, text) for at, text in enumerate(texts) if at > 1 and not text.startswith("-")][1:]
    for at, text in refs:
        target = text.rpartition(":")[2].removeprefix("refs/heads/")
        if text in {"HEAD", "@"} and _PROTECTED_BRANCH.fullmatch(current):
            return current
        if at >= named and ("*" in target or _PROTECTED_BRANCH.fullmatch(target)):
            return target
    return current if not refs and "--tags" not in texts and _PROTECTED_BRANCH.fullmatch(current) else None


def _flag_lists(words: tuple[Word, ...]) -> list[RiskyFlags]:
    programs = list(_program_names(tuple(word.text for word in words)))
    subcommand = f"{programs[0]} {words[1].text}" if len(words) > 1 else ""
    return [
        RISKY_FLAGS.get(programs[0], _ANY),
        *(RISKY_FLAGS[each] for each in (subcommand, *programs[1:]) if each in RISKY_FLAGS),
    ]


def _program_names(texts: tuple[str, ...]) -> list[str]:
    # For `python -m pytest` the flags of the module count, for `uv run pytest` those of both.
    name = program_name(Word(texts[0]))
    if len(texts) > 2 and texts[1] == "-m" and re.fullmatch(r"python[\d.]*", name):
        return [texts[2]]
    if len(texts) > 2 and name in RUNNERS and texts[1] in {"run", "exec"}:
        return [name, *_program_names(texts[2:])]
    return [name]


def _is_risky(text: str, known: RiskyFlags) -> bool:
    if text in known.words.split() or (known.pattern and re.fullmatch(known.pattern, text, re.DOTALL)):
        return True
    if text.startswith("--"):
        name = text[2:].partition("=")[0]
        names = known.long.split()
        # `--forc` is `--force` for programs that use getopt.
        return name in names or (bool(name) and known.abbreviated and any(flag.startswith(name) for flag in names))
    # Every letter of a group counts: `-vf` contains `-f`.
    return bool(_SHORT.fullmatch(text)) and any(letter in known.letters for letter in text[1:].partition("=")[0])
