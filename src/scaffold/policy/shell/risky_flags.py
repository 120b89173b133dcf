"""Flags and words that change what an allowed command does; a rule covers them only if it names them."""

import re
from collections.abc import Mapping

from msgspec import Struct

from scaffold.policy.shell.script import Word
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


_TESTS = RiskyFlags(
    letters="cop",
    long="rootdir override-ini confcutdir basetemp config-file pastebin pdbcls import-mode pyargs inifile",
    abbreviated=False,
)
_MAKE = RiskyFlags(
    letters="fCIE", long="file makefile directory eval include-dir", pattern=r"(?!(?:(?:V|VERBOSE)=)?\d+\Z)[^-].*"
)
"""Any further word is another target or a variable; only numbers and verbosity are harmless."""
_ANY = RiskyFlags(
    long="config config-file plugin plugins require exec eval output output-file rcfile init-file preload import "
    "loader resolve-plugins-relative-to rulesdir setup-file globals-setup",
    abbreviated=False,
)
"""Flags with similar meaning in most programs: they load other code or write a file."""
_NPM = RiskyFlags(
    letters="C",
    long="prefix script-shell userconfig globalconfig node-options registry global shell call workspace "
    "package ignore-scripts",
)
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
        pattern=r"(\+.*|:.+|[a-z]+::\S*)",
    ),
    "git clone": RiskyFlags(letters="u"),
    "git push": RiskyFlags(pattern=r"[a-z+]+://.*|[^:/]+@[^:/]+:.*|[./~].*"),
    "git checkout": _DISCARDS,
    "git restore": _DISCARDS,
    "git config": RiskyFlags(pattern=rf"(?i)(?!(?:{_HARMLESS_SETTINGS})\Z)[\w-]+\..*"),
    "mypy": RiskyFlags(long="config-file python-executable custom-typeshed-dir custom-typing-module"),
    "pytest": _TESTS,
    "make": _MAKE,
    "gmake": _MAKE,
    "just": _MAKE,
    "rake": _MAKE,
    "ninja": _MAKE,
    "go": RiskyFlags(pattern=r"--?(exec|toolexec|C|overlay|modfile|vettool|o)(=.*)?"),
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
    "curl": RiskyFlags(
        letters="KoOTFd",
        long="config output remote-name upload-file data data-binary data-raw "
        "data-urlencode json form form-string proxy output-dir cookie-jar trace dump-header libcurl unix-socket netrc",
    ),
    "wget": RiskyFlags(
        letters="OeiP", long="output-document execute input-file post-file use-askpass directory-prefix"
    ),
    "zip": RiskyFlags(letters="TO", long="unzip-command test"),
    "man": RiskyFlags(letters="PHC", long="pager html config-file"),
    "sed": RiskyFlags(letters="inf", long="in-place file"),
}
_SHORT = re.compile(r"-[A-Za-z0-9].*")
_OFF = re.compile(r"no:[\w.-]+")


def find_risk(words: tuple[Word, ...], rule: tuple[str, ...]) -> str | None:
    """Return the first risky word in a command after the words that `rule` names; None if there is none."""
    program = _program(words)
    subcommand = RISKY_FLAGS.get(f"{program} {words[1].text}") if len(words) > 1 else None
    known = (RISKY_FLAGS.get(program, _ANY), *((subcommand,) if subcommand else ()))
    texts = [word.text for word in words[len(rule) :]]
    for at, text in enumerate(texts):
        # `pytest -p no:NAME` switches a plugin off, while any other `-p` imports a module.
        if text == "-p" and _OFF.fullmatch(texts[at + 1] if at + 1 < len(texts) else ""):
            continue
        if any(_is_risky(text, each) for each in known):
            return text
    return None


def _program(words: tuple[Word, ...]) -> str:
    """Return the program's name; for `python -m pytest` the module's."""
    names = [word.text for word in words[:3]]
    if len(names) == 3 and names[1] == "-m" and re.fullmatch(r"python[\d.]*", program_name(words[0])):
        return names[2]
    return program_name(words[0])


def _is_risky(text: str, known: RiskyFlags) -> bool:
    if text in known.words.split() or (known.pattern and re.fullmatch(known.pattern, text)):
        return True
    if text.startswith("--"):
        name = text[2:].partition("=")[0]
        names = known.long.split()
        # `--forc` is `--force` for programs that use getopt.
        return name in names or (bool(name) and known.abbreviated and any(flag.startswith(name) for flag in names))
    # Every letter of a group counts: `-vf` contains `-f`.
    return bool(_SHORT.fullmatch(text)) and any(letter in known.letters for letter in text[1:].partition("=")[0])
