"""What a permitted command may bring along without a question: harmless variables, and a log of its output."""

import re
from collections.abc import Mapping

from scaffold.policy.shell.parsed_command import Word
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.policy.shell.wrappers import program_name

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.-]*")
_NO_PAGER = re.compile(r"(?:cat)?")
HARMLESS_VARIABLES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("CI", "NO_COLOR", "FORCE_COLOR", "LANG", "LC_ALL", "COLUMNS", "LINES"), _PLAIN_VALUE),
    **dict.fromkeys(("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "TZ", "CLICOLOR"), _PLAIN_VALUE),
    **dict.fromkeys(("PAGER", "GIT_PAGER"), _NO_PAGER),
}
"""Variables with the values that make no program run another one."""
_FOLDERS = re.compile(r"[\w./-]+(?::[\w./-]+)*", re.ASCII)
_LOG = re.compile(r"(?:[\w.-]+/)*(?:[\w.-]+\.(?:log|out)|log|output)", re.ASCII)


def is_harmless_assignment(name: str, value: str, words: tuple[Word, ...], workspace: WorkspacePaths) -> bool:
    """Return whether a variable before this command changes nothing that matters.

    A folder of the workspace on PYTHONPATH is harmless for tests: they run the workspace's code anyway.
    """
    if known := HARMLESS_VARIABLES.get(name):
        return known.fullmatch(value) is not None
    if name != "PYTHONPATH" or not _runs_tests(words) or not _FOLDERS.fullmatch(value):
        return False
    root = frozenset({workspace.root})
    return not any(workspace.away(Word(folder), root) for folder in value.split(":"))


def _runs_tests(words: tuple[Word, ...]) -> bool:
    texts = [word.text for word in words[:3]]
    if texts[1:2] == ["-m"] and re.fullmatch(r"python[\d.]*", program_name(words[0])):
        return texts[2:] in (["pytest"], ["unittest"])
    return texts[:1] == ["pytest"]


def log_files(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the files that `tee` writes if their names are those of logs; empty for other programs and names."""
    files = tuple(word for word in words[1:] if word.text not in {"-a", "--append", "-i"})
    is_log = all(word.literal and _LOG.fullmatch(word.text) for word in files)
    return files if is_log and words[:1] == (Word("tee"),) else ()
