"""The parts of a home that commands may read: of its dot files, only toolchains and git's settings; no secrets."""

import contextlib
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from msgspec import Struct

from scaffold.policy.secret.sources import holds_secret
from scaffold.policy.secret.unreadable_files import is_secret_name, secret_entry, secret_scan, targets

GIT_SETTINGS = (".gitconfig*", ".gitignore*", ".gitattributes*", ".config/git")
TOOLCHAINS = (
    *(".asdf", ".bun", ".bundle", ".cabal", ".cargo", ".composer", ".conda", ".cpan*", ".deno", ".dotnet", ".elan"),
    *(".emsdk", ".fnm", ".gem", ".ghcup", ".goenv", ".gradle", ".hex", ".ivy2", ".jabba", ".jdks", ".jenv", ".julia*"),
    *(".konan", ".m2", ".mamba", ".micromamba", ".mix", ".nimble", ".nix-*", ".nodenv", ".npm", ".nuget", ".nvm"),
    *(".opam", ".perlbrew", ".phpenv", ".pixi", ".pnpm*", ".proto", ".pub-cache", ".pyenv", ".rbenv", ".rustup"),
    *(".rvm", ".rye", ".sbt", ".sdkman", ".stack", ".swiftly", ".tfenv", ".venv*", ".virtualenvs", ".volta", ".yarn"),
    *(".local/bin", ".local/include", ".local/lib", ".local/lib64", ".local/opt", ".local/pipx", ".local/state/nix"),
    *(f".local/share/{name}" for name in ("R", "coursier", "fnm", "gem", "mise", "nvm", "pdm", "pipx", "pnpm")),
    *(f".local/share/{name}" for name in ("pypoetry", "python", "pyenv", "rtx", "uv", "virtualenv*")),
    *(f".cache/{name}" for name in ("Cypress", "bazel*", "coursier", "ms-playwright", "pnpm", "pre-commit")),
    *(f".cache/{name}" for name in ("puppeteer", "pypoetry/virtualenvs", "torch", "huggingface/hub")),
)
"""Folders with programs and packages, or with their caches."""
TOOL_SETTINGS = (
    *(".*-version", ".bazelrc", ".bazelversion", ".clang-format", ".clang-tidy", ".condarc", ".editorconfig"),
    *(".eslintrc*", ".flake8", ".gemrc", ".nvmrc", ".pip", ".prettierrc*", ".pylintrc", ".Rprofile", ".rubocop.yml"),
    *(".claude/CLAUDE.md", ".claude/skills", ".sdkmanrc", ".tool-versions", ".yarnrc*"),
    *(".config/mise", ".config/pip", ".config/uv", ".config/pypoetry"),
    *(".config/fontconfig", ".config/matplotlib", ".config/NuGet", ".config/go"),
)
"""Settings that tools read; hidden if they hold a secret."""
TOOLCHAIN_CREDENTIALS = (
    *(".bundle/config", ".cabal/config", ".cargo/config*", ".cargo/credentials*", ".composer/auth.json"),
    *(".gem/credentials", ".gradle/gradle.properties", ".hex/hex.config", ".ivy2/.credentials*"),
    *(".m2/settings*.xml", ".nuget/NuGet/NuGet.Config", ".pub-cache/credentials.json", ".sbt/*credentials*"),
    *(".config/NuGet/NuGet.Config", ".config/pip/pip.conf", ".config/pypoetry/auth.toml", ".config/uv/*"),
    *(".pip/pip.conf", ".config/mise/*"),
)
"""Files in readable folders that may hold credentials; hidden if they do."""
TOOLCHAIN_SECRETS = (".dotnet/corefx", ".julia*/servers", ".local/share/uv/credentials", ".m2/settings-security.xml")
"""Keys and logins in readable folders, always hidden."""
SYSTEM_ENTRIES = frozenset(
    {".git", ".scaffold", ".husky", ".claude", ".mcp.json", ".worktreeinclude", ".scaffold.yaml"}
)
"""Entries of a home that is a workspace, whose content is decided elsewhere."""
MAX_IN_PROJECT = 20
"""More secrets than this in one folder next to the workspace hide the whole folder."""
MAX_FOLDER_ENTRIES = 50_000
LOCATING_ENDINGS = ("PATH", "_HOME", "_ROOT", "_DIR", "PREFIX", "VIRTUAL_ENV")
"""Endings of variables that name folders with tools."""


class HomeView(Struct, frozen=True):
    """The hidden paths of a home, and the paths below these that are shown; absolute."""

    hidden: tuple[Path, ...]
    readable: tuple[Path, ...]


def view_of_home(home: Path, root: Path, environ: Mapping[str, str]) -> HomeView:
    """Return the view of `home` for commands in `root`; both are absolute, with links resolved."""
    readable = tuple(_allowed_paths(home, (*GIT_SETTINGS, *TOOLCHAINS, *TOOL_SETTINGS)))
    # An entry that is the workspace itself is decided by other rules.
    private = (
        home / entry.name
        for entry in folder_entries(home)
        if entry.name.startswith(".")
        and home / entry.name not in readable
        and not (home == root and entry.name in SYSTEM_ENTRIES)
    )
    masked = (
        path
        for path in _allowed_paths(home, TOOLCHAIN_CREDENTIALS)
        if holds_secret(path) or secret_entry(f"{path.parent.name}/{path.name}") is not None
    )
    # Git fails if it cannot read its own settings, so secrets in them are only redacted.
    settings = (
        path
        for path in readable
        if path.is_file()
        and not any(fnmatchcase(str(path.relative_to(home)), pattern) for pattern in GIT_SETTINGS)
        and holds_secret(path)
    )
    keys = _allowed_paths(home, TOOLCHAIN_SECRETS)
    beside = () if home.is_relative_to(root) else _secrets_beside(home, root, _named_folders(environ))
    found = chain(private, keys, masked, settings, beside)
    # In a workspace, a command may have planted the links.
    links = [] if home.is_relative_to(root) else [path for path in readable if path.is_symlink()]
    ends = (Path(os.path.realpath(path)) for path in links)
    linked = (path for path in ends if path.exists() and not secret_entry(str(path)))
    return HomeView(tuple(dict.fromkeys(found)), (*readable, *linked))


def _allowed_paths(home: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Yield the existing paths in `home` that match a pattern."""
    for pattern in patterns:
        yield from _match_paths(home, pattern.split("/"))


def _match_paths(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    first, *rest = names
    if "*" not in first:
        found = [first] if os.path.lexists(folder / first) else []
    else:
        found = [entry.name for entry in folder_entries(folder) if fnmatchcase(entry.name, first)]
    for name in found:
        yield from _match_paths(folder / name, rest) if rest else (folder / name,)


def _secrets_beside(home: Path, root: Path, named: Collection[Path]) -> Iterator[Path]:
    # macOS would ask the user for each of the folders with personal files, so there only the top is searched.
    above = [folder for folder in (root, *root.parents) if folder.is_relative_to(home) and folder != root] or [home]
    for folder in above:
        for entry in folder_entries(folder):
            path = folder / entry.name
            if folder == home and entry.name.startswith("."):
                continue
            if is_secret_name(str(folder), entry.name):
                yield from targets([path], within=(home,))
            elif sys.platform == "linux" and entry.is_dir(follow_symlinks=False) and not root.is_relative_to(path):
                scan = secret_scan(path, most=MAX_FOLDER_ENTRIES)
                found, in_use = scan.paths(), any(each.is_relative_to(path) for each in named)
                # Whole, if it has many secrets or is too large to search, unless the environment names a part of it.
                is_hidden = not in_use and (not scan.complete or len(found) > MAX_IN_PROJECT)
                yield from [path] if is_hidden else targets(found, within=(home,))


def _named_folders(environ: Mapping[str, str]) -> frozenset[Path]:
    """Return the folders that variables name, such as PATH and ANDROID_HOME."""
    values = [value for name, value in environ.items() if name.endswith(LOCATING_ENDINGS)]
    parts = (part for value in values for part in value.split(os.pathsep) if part.startswith("/"))
    return frozenset(Path(os.path.realpath(part)) for part in parts)


def folder_entries(folder: Path) -> list["os.DirEntry[str]"]:
    """Return the entries of a folder; empty if it is unreadable."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []
