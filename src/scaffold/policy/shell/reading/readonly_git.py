"""Git commands that only read, and the repository settings that make them run programs anyway."""

import re
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from scaffold.policy.shell.parsed_command import Word
from scaffold.policy.shell.reading.flags import FlagSpec, ParsedArguments, parse_arguments
from scaffold.policy.shell.reading.readonly_arguments import ReadAccess
from scaffold.policy.shell.reading.search_scope import search_scope

_DIFF_LONG = (
    "patch no-patch unified[=] raw patch-with-raw patience histogram minimal diff-algorithm[=] stat[=] numstat "
    "shortstat dirstat[=] summary patch-with-stat name-only name-status color[=] no-color color-words[=] "
    "word-diff[=] word-diff-regex[=] no-renames check full-index binary abbrev[=] find-renames[=] find-copies[=] "
    "find-copies-harder diff-filter[=] pickaxe-all pickaxe-regex relative[=] text ignore-space-at-eol "
    "ignore-cr-at-eol ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines[=] "
    "inter-hunk-context[=] function-context exit-code quiet no-ext-diff no-textconv src-prefix[=] dst-prefix[=] "
    "no-prefix cached staged merge-base ignore-submodules[=] compact-summary color-moved[=] "
    "ita-invisible-in-index cc combined-all-paths indent-heuristic"
)
_LOG_LONG = (
    "oneline pretty[=] format[=] abbrev-commit no-abbrev-commit max-count[=] skip[=] since[=] after[=] until[=] "
    "before[=] author[=] committer[=] grep[=] all-match invert-grep regexp-ignore-case extended-regexp "
    "fixed-strings perl-regexp merges no-merges first-parent all branches[=] tags[=] remotes[=] glob[=] "
    "exclude[=] reflog graph decorate[=] no-decorate decorate-refs[=] follow date[=] relative-date topo-order "
    "date-order author-date-order reverse no-walk[=] left-right cherry-pick cherry-mark boundary "
    "simplify-by-decoration full-history ancestry-path source no-notes notes[=] parents children cherry "
    "walk-reflogs no-mailmap mailmap dense sparse"
)
_DIFF_TEXTS = (
    "U unified diff-algorithm stat dirstat color color-words word-diff word-diff-regex abbrev find-renames "
    "find-copies diff-filter ignore-matching-lines inter-hunk-context src-prefix dst-prefix submodule "
    "ignore-submodules color-moved relative S G M C B l"
)
_LOG_TEXTS = (
    "n L pretty format max-count skip since after until before author committer grep branches tags remotes glob "
    "exclude decorate decorate-refs date no-walk notes"
)
_LOG = FlagSpec(
    short="pusqzbwaRirEFPgtmc",
    valued="nLSG",
    attached="UMCBl",
    long=f"{_DIFF_LONG} {_LOG_LONG}",
    texts=f"{_DIFF_TEXTS} {_LOG_TEXTS}",
    counts=True,
)
_DIFF = FlagSpec(short="pusqzbwaRr", valued="SG", attached="UMCBl", long=_DIFF_LONG, texts=_DIFF_TEXTS, counts=True)
_LISTING = (
    "contains[=] no-contains[=] merged[=] no-merged[=] points-at[=] sort[=] format[=] color[=] no-color "
    "ignore-case no-column"
)

SUBCOMMANDS: Mapping[str, FlagSpec] = {
    "status": FlagSpec(
        short="sbvz",
        attached="uM",
        long="short branch show-stash porcelain[=] long verbose untracked-files[=] ignore-submodules[=] ignored[=] "
        "column[=] no-column ahead-behind no-ahead-behind renames no-renames find-renames[=]",
        texts="u M porcelain untracked-files ignore-submodules ignored column find-renames",
    ),
    "diff": _DIFF,
    "log": _LOG,
    "show": _LOG,
    "whatchanged": _LOG,
    "shortlog": FlagSpec(
        short="nsecw", long=f"numbered summary email group[=] {_LOG_LONG}", texts=f"group {_LOG_TEXTS}"
    ),
    "blame": FlagSpec(
        short="bcelfnpstwMC",
        valued="L",
        long="root show-stats score-debug show-name show-number porcelain line-porcelain show-email date[=] since[=] "
        "first-parent abbrev[=] minimal color-lines color-by-age ignore-rev[=]",
        texts="L date since abbrev ignore-rev",
    ),
    "branch": FlagSpec(
        short="alrvi",
        long=f"all list remotes verbose show-current abbrev[=] no-abbrev {_LISTING}",
        texts="contains no-contains merged no-merged points-at sort format color abbrev",
    ),
    "tag": FlagSpec(
        short="li",
        valued="n",
        long=f"list {_LISTING}",
        texts="n contains no-contains merged no-merged points-at sort format",
    ),
    "rev-parse": FlagSpec(
        long="abbrev-ref[=] short[=] verify quiet show-toplevel show-prefix show-cdup git-dir absolute-git-dir "
        "git-common-dir is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository symbolic "
        "symbolic-full-name all branches[=] tags[=] remotes[=] show-object-format",
        short="q",
        texts="abbrev-ref short branches tags remotes",
    ),
    "ls-files": FlagSpec(
        short="cdmoiskuzvtfx",
        long="cached deleted modified others ignored stage killed unmerged directory no-empty-directory eol "
        "exclude-standard error-unmatch full-name recurse-submodules abbrev[=] deduplicate format[=]",
        texts="abbrev format",
    ),
    "ls-tree": FlagSpec(
        short="drtlz",
        long="long name-only name-status object-only full-name full-tree abbrev[=] format[=]",
        texts="abbrev format",
    ),
    "cat-file": FlagSpec(short="tsep"),
    "describe": FlagSpec(
        long="all tags contains abbrev[=] candidates[=] exact-match debug long match[=] exclude[=] always first-parent",
        texts="abbrev candidates match exclude",
    ),
    "rev-list": FlagSpec(valued="n", long=f"count objects {_LOG_LONG}", texts=_LOG_TEXTS, counts=True),
    "merge-base": FlagSpec(short="a", long="all octopus independent is-ancestor fork-point", no_paths=True),
    "symbolic-ref": FlagSpec(short="q", long="short quiet", most=1),
    "name-rev": FlagSpec(long="tags refs[=] exclude[=] all name-only always", texts="refs exclude"),
    "for-each-ref": FlagSpec(
        long=f"count[=] {_LISTING}", texts="count contains merged no-merged points-at sort format"
    ),
    "show-ref": FlagSpec(
        short="dqs", long="head heads branches tags dereference hash[=] verify abbrev[=] quiet", texts="hash abbrev"
    ),
    "show-branch": FlagSpec(short="ar", long="all remotes current list no-name sha1-name topo-order"),
    "diff-tree": FlagSpec(
        short=_DIFF.short + "tmsc",
        valued="SG",
        attached="UMCBl",
        long=f"root no-commit-id {_DIFF_LONG}",
        texts=_DIFF_TEXTS,
    ),
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "grep": FlagSpec(
        short="EFGPiIvwnclLhHpWqarz",
        valued="ABCemf",
        long="cached untracked no-exclude-standard exclude-standard text ignore-case word-regexp invert-match "
        "full-name extended-regexp basic-regexp perl-regexp fixed-strings line-number column files-with-matches "
        "name-only files-without-match only-matching count color[=] no-color break heading show-function "
        "after-context[=] before-context[=] context[=] function-context max-depth[=] all-match quiet and or not "
        "max-count[=] threads[=]",
        texts="A B C e m color after-context before-context context max-depth max-count threads",
        text_first="e f",
    ),
    "count-objects": FlagSpec(short="vH", long="verbose human-readable", most=0),
    "check-ignore": FlagSpec(short="qvnz", long="quiet verbose non-matching no-index"),
    "cherry": FlagSpec(short="v", no_paths=True),
    "version": FlagSpec(long="build-options", most=0),
}
"""Subcommands that only read, with any operands."""

_LISTS: Mapping[str, Mapping[str, FlagSpec]] = {
    "stash": {"list": _LOG, "show": _LOG},
    "remote": {"": FlagSpec(short="v", long="verbose", most=0), "get-url": FlagSpec(long="all push", most=1)},
    "worktree": {"list": FlagSpec(short="vz", long="verbose porcelain", most=0)},
    "reflog": {"": msgspec.structs.replace(_LOG, most=0), "show": _LOG, "exists": FlagSpec(most=1)},
    "config": {
        "get": FlagSpec(most=1),
        "": FlagSpec(long="get get-all name-only show-origin show-scope local type[=]", most=1),
    },
    "notes": {"list": FlagSpec(most=1), "show": FlagSpec(most=1)},
}
"""Subcommands that only read with certain second words; the empty string means no second word."""

HARMLESS_GLOBAL_OPTIONS = frozenset(
    {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"}
)
# Addresses of remotes and proxies may contain a login.
_SECRET_SETTINGS = ("credential", "extraheader", "token", "password", "secret", "proxy", "cookie", "url")
_FORMATS_COMMITS = frozenset({
    *("log", "show", "whatchanged", "shortlog", "reflog", "stash", "rev-list", "diff-tree", "show-branch"),
    *("branch", "tag", "for-each-ref"),
})  # fmt: skip
"""Commands that may print whether a commit or tag is signed, for which git runs gpg or ssh-keygen."""
_LOOKS_AT_FILES = frozenset({
    *("status", "diff", "diff-files", "diff-index", "blame", "stash", "describe", "grep", "ls-files", "check-ignore"),
})  # fmt: skip
_SHOWS_CONTENT = frozenset({
    *("diff", "log", "show", "whatchanged", "blame", "stash", "grep", "diff-tree", "diff-files", "diff-index"),
    *("cat-file", "reflog", "shortlog"),
})  # fmt: skip

_SIGNATURE = re.compile(r"%[+ -]?G|%\(\*?signature|(?:.*=)?-?\*?signature(?::.*)?$")
"""The part of a format or sort key that makes git check signatures."""
_RUN_BY: tuple[tuple[re.Pattern[str], frozenset[str] | None], ...] = (
    # A partial clone fetches missing objects whenever they are read, by a transport that may be a program.
    (re.compile(r"core\.(alternaterefscommand|pager)|pager\..*|extensions\.partialclone|remote\..*promisor"), None),
    # Reading the index asks fsmonitor; refreshing it runs that hook and enters repositories inside.
    (re.compile(r"core\.fsmonitor"), _SHOWS_CONTENT | _LOOKS_AT_FILES | {"rev-parse"}),
    (re.compile(r"core\.(hookspath|worktree)|hook\.post-index-change|embedded\..*"), _LOOKS_AT_FILES),
    (re.compile(r"filter\..*(clean|process|smudge)"), _SHOWS_CONTENT | _LOOKS_AT_FILES),
    (re.compile(r"diff\.(external|.*(command|textconv))"), _SHOWS_CONTENT),
    (re.compile(r"(gpg|pretty)\..*|log\.showsignature|format\.pretty|(branch|tag)\.sort"), _FORMATS_COMMITS),
)
"""Settings that make git run a program, and the commands that do; None for all."""
_LEAVES_OUT = re.compile(r":(?:[!^]|\([^)]*exclude).*", re.DOTALL)
_MAGIC = re.compile(r"(?:/+|\([^)]*\))(?=.)")
"""The pathspec magic between a `:` and the path, or leading slashes."""

_PROGRAMS = re.compile(
    r"core\.(fsmonitor|worktree|alternaterefscommand|editor|sshcommand|gitproxy|askpass|hookspath|pager)|pager\..*"
    r"|filter\..*\.(clean|smudge|process)|diff\.(external|.*\.(command|textconv))|merge\..*\.driver"
    r"|gpg\.(.*\.)?(program|defaultkeycommand)|credential\.(.*\.)?helper|trailer\..*\.(command|cmd)"
    r"|protocol\.(.*\.)?allow|url\..*\.(push)?insteadof|lfs\.(customtransfer|extension|standalonetransferagent).*"
    r"|(man|browser)\..*\.(cmd|path)|interactive\.difffilter|init\.templatedir|sendemail\..*cmd|remote\..*\.(uploadpack|receivepack|vcs|promisor|proxy)|sequence\.editor"
    r"|extensions\.partialclone|submodule\..*\.update|.*tool\..*\.cmd"
)


class ConfiguredProgram(Struct, frozen=True):
    """A git command that would run a program named in the repository's config."""

    setting: str
    """The setting's name, or `hook.NAME` for a hook."""


def analyze_git(arguments: tuple[Word, ...], settings: Iterable[str]) -> ReadAccess | ConfiguredProgram | str:
    """Return what `git ARGUMENTS` reads, the setting that makes it run a program, or why it may do more than read.

    `settings` are the names of the repository's own settings as in `git config --list`, and `hook.NAME` for each hook.
    """
    words = list(arguments)
    while words and words[0].literal and words[0].text in HARMLESS_GLOBAL_OPTIONS:
        words.pop(0)
    if not words or not words[0].literal or words[0].text.startswith("-"):
        return _read_global_options(words)
    name = words.pop(0).text
    known = SUBCOMMANDS.get(name)
    if name in _LISTS:
        known = _subcommand_flags(name, words)
    if known is None:
        return f"`git {name}` is not known to be read-only here"
    given = parse_arguments(tuple(words), known)
    if isinstance(given, str):
        return given
    signed = next((word.text for word in words if _SIGNATURE.search(word.text)), None)
    check = f"`{signed}` checks signatures, for which git runs another program" if signed else None
    if problem := _write_reason(name, given) or check:
        return problem
    if setting := next((each for each in sorted(settings) if _would_run(each.casefold(), name)), None):
        return ConfiguredProgram(setting)
    values = (value for _, value in given.flags if value is not None)
    after = (_LEAVES_OUT.sub("", word.text).rpartition(":")[2] for word in (*given.paths, *values) if ":" in word.text)
    return ReadAccess(
        ((*given.paths, *(Word(path) for text in after if (path := _MAGIC.sub("", text))))),
        search=search_scope(f"git {name}", given),
    )


def _read_global_options(words: list[Word]) -> ReadAccess | str:
    if len(words) == 1 and words[0].text in {"--version", "--help", "--html-path", "--man-path", "--exec-path"}:
        return ReadAccess()
    if not words:
        return "has no subcommand"
    return f"`{words[0].text}` changes what git works on or runs"


def _subcommand_flags(name: str, words: list[Word]) -> FlagSpec | None:
    """Return the flags allowed with the second word, which is removed from `words`; None if it may write."""
    seconds = _LISTS[name]
    if words and words[0].literal and words[0].text in seconds:
        return seconds[words.pop(0).text]
    if name == "config" and words and (words[0].text in {"--get", "--get-all"} or "." in words[0].text):
        return seconds[""]
    if words and not words[0].text.startswith("-"):
        return None
    return seconds.get("") if name != "config" else None


def _write_reason(name: str, given: ParsedArguments) -> str | None:
    flags = {flag for flag, _ in given.flags}
    if (
        name == "branch"
        and given.operands
        and not flags & {"l", "list", "contains", "no-contains", "merged", "no-merged"}
    ):
        return f"creates a branch `{given.operands[0].text}`"
    if name == "tag" and given.operands and not flags & {"l", "list", "contains", "points-at", "merged"}:
        return f"creates a tag `{given.operands[0].text}`"
    if name == "config" and any(part in word.text.casefold() for word in given.operands for part in _SECRET_SETTINGS):
        return "may show a password"
    # git runs the rest of such an address as a command.
    if any(word.text.startswith("ext::") for word in given.operands):
        return "names a transport that runs a program"
    return None


def _would_run(setting: str, name: str) -> bool:
    if setting == f"alias.{name}":
        return True  # git lets an alias replace a command that it is about to remove
    return any(known.fullmatch(setting) and (commands is None or name in commands) for known, commands in _RUN_BY)


def any_program_setting(settings: Iterable[str], subcommand: str = "") -> str | None:
    """Return the first of `settings` that makes some git command, or this subcommand, run a program; None if none."""
    names = ((each, each.casefold()) for each in sorted(settings))
    return next((each for each, name in names if _PROGRAMS.fullmatch(name) or name == f"alias.{subcommand}"), None)
