"""Read hooks, skills, roles and commands from their files."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from msgspec import structs

from scaffold.agent.prompts import Notice
from scaffold.config.folder_trust import CLAUDE_FOLDER, HOOK_SETTINGS, HOOKS_FILE, markdown_files, skill_files
from scaffold.config.settings import Settings
from scaffold.core.extension_set import Extensions, Hook, HookSandbox
from scaffold.core.printable_text import count_of, one_line
from scaffold.extensions.hooks.hook_settings import HookFile, read_hooks
from scaffold.extensions.prompt_file import FoundFile, parse_commands, parse_roles, parse_skills
from scaffold.host.atomic_files import delete_path
from scaffold.host.contained_path import ContainedPath
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust_decision import (
    COMMAND_FOLDER,
    MAX_BYTES,
    ROLE_FOLDER,
    SCRIPT_FOLDER,
    SKILL_FILE,
    SKILL_FOLDERS,
    TrustFile,
    TrustStatus,
    fingerprint,
)

MOST_NOTICES = 10


def read_extensions(
    pieces: Sequence[TrustFile], settings: Settings, trust: TrustStatus | None, *, home: Path, notice: Notice
) -> Extensions:
    """Return the extensions that apply; see `trusted_extensions.find_extensions`."""
    own = _OwnFiles(home)
    top = trust.folder.top if trust else None
    if top == home.resolve():
        # There the project's files are the user's own.
        pieces = [piece for piece in pieces if not piece.name.startswith(f"{CLAUDE_FOLDER}/")]
    notices: list[str] = []
    if pieces and trust is not None and not trust.trusted:
        notices.append(
            f"{_ignored_summary(pieces)} ignored: {trust.reason}; `scaffold trust` shows them, and trusts them"
        )
        pieces = ()
    digests = trust.folder.digests if pieces and trust is not None else {}
    hooks = list(_read_hooks(pieces, own, str(home), str(top or ""), digests, notices))
    skills, skill_notices = parse_skills((*_project_skills(pieces), *own.skills()))
    roles, role_notices = parse_roles((*_project_files(pieces, ROLE_FOLDER), *own.markdown("agents")))
    commands, command_notices = parse_commands((*_project_files(pieces, COMMAND_FOLDER), *own.markdown("commands")))
    notices += [*skill_notices, *role_notices, *command_notices]
    for line in notices[:MOST_NOTICES]:
        notice(one_line(line))
    if len(notices) > MOST_NOTICES:
        notice(f"{count_of(len(notices) - MOST_NOTICES, 'more such line')}; `scaffold doctor` counts what was found")
    return Extensions(
        folder=str(top) if top is not None and digests else "",
        digests=digests,
        hooks=tuple(hooks),
        skills=skills,
        roles=roles,
        commands=commands,
        sandbox=cast("HookSandbox", settings.text("hooks.sandbox")),  # the parser checked it
    )


def keep_files(found: Extensions, trust: TrustStatus, place: Path) -> Extensions:
    """Copy the project's files that the extensions need into a folder in `place`, and return them as of that folder.

    The bytes that are trusted are written, not those that are on the disk by now.
    """
    needed = {*found.scripts, *(skill.file for skill in found.skills if not skill.file.startswith("/"))}
    pieces = [
        piece for piece in trust.folder.pieces if piece.name in needed or piece.name.startswith(f"{SCRIPT_FOLDER}/")
    ]
    digests = {piece.name: piece.digest for piece in pieces}
    folder = place / fingerprint(digests)
    # A repository can bring such a folder along, and a script runs what lies beside it.
    if os.path.lexists(folder) and not _holds_only(folder, pieces):
        delete_path(folder)
    if not folder.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="new-", dir=place))
        for piece in pieces:
            copy = fresh / piece.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(piece.content)
            copy.chmod(0o755 if os.access(trust.folder.top / piece.name, os.X_OK) else 0o644)
        try:
            fresh.rename(folder)
        except OSError:  # another run was faster
            delete_path(fresh)
    return structs.replace(found, folder=str(folder), digests=digests)


def _holds_only(folder: Path, pieces: Sequence[TrustFile]) -> bool:
    paths = [folder, *folder.rglob("*")]
    if any(path.is_symlink() or not (path.is_dir() or path.is_file()) for path in paths):
        return False
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if path.is_file()}
    return found == {piece.name: piece.content for piece in pieces}


def _read_hooks(
    pieces: Sequence[TrustFile], own: "_OwnFiles", home: str, top: str, digests: dict[str, str], notices: list[str]
) -> Iterator[Hook]:
    """Yield the hooks, those of the project first; add a line to `notices` for each that cannot run."""
    files = [
        HookFile(name=piece.name, content=piece.content, own=False, home=home, top=top)
        for piece in pieces
        if piece.name in HOOK_SETTINGS
    ]
    for file in (*files, *own.hook_files(top)):
        found = read_hooks(file)
        notices += found.notices
        for hook in found.hooks:
            foreign = next((name for name in hook.scripts if not name.startswith("/") and name not in digests), "")
            # A script of the project that is not trusted runs neither for the project nor for the user.
            if hook.own and foreign and top and (Path(top) / foreign).exists():
                notices.append(f"a hook of {file.name} does not run: {foreign} is the project's, and not trusted")
            else:
                yield hook


def _ignored_summary(pieces: Sequence[TrustFile]) -> str:
    kinds = {
        "hooks": any(piece.name in HOOK_SETTINGS for piece in pieces),
        "skills": any(piece.name.endswith(f"/{SKILL_FILE}") for piece in pieces),
        "roles": any(piece.name.startswith(f"{ROLE_FOLDER}/") for piece in pieces),
        "commands": any(piece.name.startswith(f"{COMMAND_FOLDER}/") for piece in pieces),
    }
    return f"{', '.join(kind for kind, there in kinds.items() if there) or 'scripts of hooks'} of this folder"


def _project_skills(pieces: Sequence[TrustFile]) -> Iterator[FoundFile]:
    for piece in pieces:
        if piece.name.endswith(f"/{SKILL_FILE}") and piece.name.startswith(SKILL_FOLDERS):
            yield FoundFile(source=piece.name, content=piece.content, name=piece.name.split("/")[-2], file=piece.name)


def _project_files(pieces: Sequence[TrustFile], folder: str) -> Iterator[FoundFile]:
    for piece in pieces:
        if piece.name.startswith(f"{folder}/") and piece.name.endswith(".md"):
            yield FoundFile(source=piece.name, content=piece.content, name=Path(piece.name).stem)


class _OwnFiles:
    """The user's own files: in the configuration directory, then in `~/.claude`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._places = (user_dirs().config, home / CLAUDE_FOLDER)

    def hook_files(self, top: str) -> Iterator[HookFile]:
        """Yield the settings with hooks."""
        config, claude = self._places
        for path in (config / HOOKS_FILE, claude / "settings.json"):
            if (content := _file_content(path)) is not None:
                name = self._home_relative(path)
                yield HookFile(name=name, content=content, own=True, home=str(self._home), top=top)

    def skills(self) -> Iterator[FoundFile]:
        """Yield the skills."""
        for place in self._places:
            for name in skill_files(place, "skills"):
                if (content := _file_content(place / name)) is not None:
                    path = place / name
                    yield FoundFile(
                        source=self._home_relative(path), content=content, name=path.parent.name, file=str(path)
                    )

    def markdown(self, folder: str) -> Iterator[FoundFile]:
        """Yield the roles or commands."""
        for place in self._places:
            for name in markdown_files(place, folder):
                if (content := _file_content(place / name)) is not None:
                    yield FoundFile(source=self._home_relative(place / name), content=content, name=Path(name).stem)

    def _home_relative(self, path: Path) -> str:
        return f"~/{path.relative_to(self._home)}" if path.is_relative_to(self._home) else str(path)


def _file_content(path: Path) -> bytes | None:
    """Return the content of a file of the user; None if it is not a regular file, or too large."""
    place = Path(os.path.realpath(path))
    content = ContainedPath(place.parent, place.name).read(MAX_BYTES)
    return None if isinstance(content, str) else content
