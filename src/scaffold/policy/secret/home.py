"""The parts of a home that commands see: what `PATH`, variables of tools and the checkout name, without credentials.

Everything else in it is hidden, so nothing has to be known of it. A program is shown with its install root, the folder
around `bin`, and with the links that lead there.
"""

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from itertools import chain, islice
from pathlib import Path

from scaffold.host.sandbox.confinement import Confinement
from scaffold.host.sandbox.mounts import ALWAYS_EMPTY, hiding_path
from scaffold.policy.secret.sources import CREDENTIAL_FILES, GIT_FILES, READ_BYTES, holds_secret
from scaffold.policy.secret.unreadable_files import SETTLED_NS, secret_entry, secret_scan, targets

TOOLS = (
    *("aquaproj-aqua", "asdf", "bazel*", "bundle", "cabal", "cargo", "composer", "conda", "coursier", "cpan*"),
    *("Cypress", "deno", "dotnet", "fnm", "gem", "gradle", "hatch", "hex", "ivy2", "jdks", "julia*", "konan", "lein"),
    *("m2", "mamba", "mise", "mix", "node", "npm", "nuget", "opam", "pdm", "pnpm", "pub-cache", "puppeteer"),
    *("pypoetry", "R", "rustup", "sbt", "stack", "svm", "uv", "virtualenv*", "yarn"),
)
"""Tools that keep packages and settings in folders of their own, whichever of `TOOL_FOLDERS` each has chosen."""
TOOL_FOLDERS = (
    *(".{}", ".{}rc", ".config/{}", ".local/share/{}", ".local/state/{}", ".cache/{}"),
    *("Library/{}", "Library/Application Support/{}", "Library/Caches/{}"),
)
PACKAGE_STORES = (
    *(folder.format(name) for name in TOOLS for folder in TOOL_FOLDERS),
    *("go/pkg/mod", ".local/bin", ".local/include", ".local/lib", ".local/lib64", ".cache/huggingface/hub"),
    *(".cache/ms-playwright", ".cache/pre-commit", ".cache/torch", "Library/Java", "Library/Python"),
)
"""Where programs look for packages if no variable names another place."""
PACKAGE_VARIABLES = frozenset({
    *("CLASSPATH", "COURSIER_CACHE", "GEM_PATH", "GOMODCACHE", "GRADLE_USER_HOME", "HF_HUB_CACHE", "MIX_HOME"),
    *("JULIA_DEPOT_PATH", "NODE_PATH", "NUGET_PACKAGES", "OPAMROOT", "PERL5LIB", "PLAYWRIGHT_BROWSERS_PATH"),
    *("PRE_COMMIT_HOME", "PUB_CACHE", "PYTHONPATH", "RUBYLIB", "RUSTUP_HOME", "STACK_ROOT", "TORCH_HOME"),
})  # fmt: skip
"""Variables that name folders of packages without programs, which do not look like an installation."""
TOOL_SETTINGS = (
    *(".*-version", ".bazelrc", ".bazelversion", ".bunfig.toml", ".clang-format", ".clang-tidy", ".editorconfig"),
    *(".eslintrc*", ".flake8", ".nvmrc", ".pip", ".prettierrc*", ".pylintrc", ".Rprofile", ".rubocop.yml"),
    *(".claude/CLAUDE.md", ".claude/skills", ".sdkmanrc", ".tool-versions", ".yarnrc*", ".gitignore*"),
    *(".gitattributes*", ".config/git/ignore", ".config/git/attributes", ".config/pip"),
    *(".config/fontconfig", ".config/matplotlib", ".config/go"),
)
"""Settings that tools read; hidden if they hold a secret."""
KEY_STORES = (
    *(".dotnet/corefx", ".julia*/servers", ".sbt/*/credentials*", ".local/share/uv/credentials"),
    *(".m2/settings-security.xml", ".config/mise/age.txt", ".docker/contexts", ".foundry/keystores"),
    *("Library/Keychains", "Library/Cookies", "Library/Messages", "Library/Mail"),
    *("Library/Application Support/Google", "Library/Application Support/Firefox", "snap"),
)
"""Keys and logins within what is shown, always hidden."""
SYSTEM_ENTRIES = frozenset(
    {".git", ".scaffold", ".husky", ".claude", ".mcp.json", ".worktreeinclude", ".scaffold.yaml"}
)
"""Entries of a home that is a workspace, whose content is decided elsewhere."""
SHARED_FOLDERS = ("", ".cache", ".config", ".local", ".local/share", ".local/state", "Library")
"""Folders of a home in which each program has its own: they are no installation, whatever is in them."""
PROGRAM_FOLDERS = frozenset({"bin", ".bin", "sbin", "shims"})
INSTALLED_PARTS = (*PROGRAM_FOLDERS, "lib", "lib64", "libexec")
NO_PLACES = ("PATH", "PWD", "OLDPWD")
"""Variables of the shell; PATH is followed by its own rule."""
ALTERNATIVES = Path("/etc/alternatives")
MAX_FOLDER_ENTRIES = 50_000
MAX_SETTINGS = 500
"""At most this many entries below the top of what is shown are read for logins."""
MAX_LINKS = 16
MAX_SCRIPT_BYTES = 4_096
"""At most this much of a script is searched for the programs that it names."""
SCRIPT = "#!"
VENV_SETTINGS = "pyvenv.cfg"
SHOW = "{0} is hidden from commands; to show it: sandbox.read: [{0}] in your settings"
"""Of what `hidden_path` returns."""
MAX_NAMED = 1_000
"""At most this many paths in a command and its output are looked at."""
_HOME = re.compile(r"^(?:~|\$HOME|\$\{HOME\})(?=/)")
_PATH = re.compile(r"(?<![\w./~-])(?:~|\$HOME|\$\{HOME\}|\.\.|)/[^\s'\"`:;,|&<>()\[\]{}$*?\\\0\ud800-\udfff]+")


def view_of_home(
    home: Path, root: Path, environ: Mapping[str, str], *, checkouts: Sequence[Path] = (), opened: Sequence[Path] = ()
) -> tuple[Sequence[Path], Sequence[Path]]:
    """Return what commands in `root` do not see of `home`, and what they see below that, links among them.

    The paths are absolute, and but for `opened` without links; these, perhaps elsewhere, the user's settings show.
    `environ` are the variables of commands.
    """
    shown = _ShownPaths(home, (root, *checkouts))
    shown.add_named(environ)
    shown.add_program(Path(sys.executable))
    for checkout in dict.fromkeys((root, *checkouts)):
        shown.add_packages_of(checkout)
    for path in _match_paths(home, *PACKAGE_STORES, *TOOL_SETTINGS):
        shown.add(path)
    ends = [shown.add(path, chosen=True) for path in opened]
    is_inside = home.is_relative_to(root) or home == Path(home.anchor)
    readable = tuple(shown.paths)
    masked = chain(
        # Missing ones, too: a login may follow.
        filter(holds_secret, (home / name for name in CREDENTIAL_FILES if name not in GIT_FILES)),
        _match_paths(home, *KEY_STORES),
        *(_secrets_within(path, home, whole=path in ends) for path in readable if not path.is_symlink()),
    )
    hidden = dict.fromkeys((*(_private_entries(home, root, readable) if is_inside else (home,)), *masked))
    return tuple(hidden), tuple(path for path in readable if path not in hidden)


def _private_entries(home: Path, root: Path, readable: Sequence[Path]) -> Iterator[Path]:
    for entry in folder_entries(home):
        # An entry that is the workspace itself is decided by other rules.
        is_other = home == root and entry.name in SYSTEM_ENTRIES
        if entry.name.startswith(".") and not is_other and home / entry.name not in readable:
            yield home / entry.name


def _secrets_within(path: Path, home: Path, *, whole: bool) -> Iterator[Path]:
    """Yield what is secret in a shown path: near its top by content, too, as programs keep settings there."""
    # Further below, an installation has packages of others; it is too large to search for each session.
    is_searched = whole or not any(part.startswith(".") for part in path.relative_to(home).parts)
    named = secret_scan(path, most=MAX_FOLDER_ENTRIES if is_searched else 1).paths()
    top = folder_entries(path)
    below = (each for each in top if each.name not in INSTALLED_PARTS and each.is_dir(follow_symlinks=False))
    deeper = chain.from_iterable(folder_entries(Path(folder)) for folder in islice(below, MAX_SETTINGS))
    plain = (each for each in chain(top, islice(deeper, MAX_SETTINGS)) if each.is_file(follow_symlinks=False))
    files = [Path(entry) for entry in plain] or [path]
    # In other files than settings, such as version files, much looks random.
    logins = (file for file in files if not os.access(file, os.X_OK) and holds_secret(file, guessed=False))
    yield from targets([*named, *logins], within=(path,))


class _ShownPaths:
    """Collects the paths of a home that are shown, and the links that lead to them."""

    def __init__(self, home: Path, writable: Sequence[Path]) -> None:
        """`writable` are the folders in which an agent may have planted links: none there is followed unchecked."""
        self._home = home
        self._writable = tuple(f"{str(path).rstrip(os.sep)}/" for path in writable)
        above = (parent for path in (home, *writable) for parent in path.parents)
        self._shared = {*(home / name for name in SHARED_FOLDERS), *above, *writable}
        self.paths: dict[Path, None] = {}
        # Hundreds of programs are in the same few folders, and lead to the same interpreters.
        self._followed: set[Path] = set()
        self._installations: dict[Path, bool] = {}
        self._real = cache(lambda folder: Path(os.path.realpath(folder)))

    def add(self, path: Path, *, chosen: bool = False) -> Path:
        """Show a path of the home with the links to it, unless it is named like a secret; return where they lead.

        One that the user has chosen may be elsewhere, or a folder around the workspace.
        """
        links, end = _links_to(path)
        # What is in the workspace is seen anyway, unless that is around the home.
        is_seen = self._is_writable(end) and not self._is_writable(self._home)
        if self._is_writable(*links) or is_seen or secret_entry(str(end)):
            return end
        self._add_links(links)
        is_named = not self._home.is_relative_to(end) if chosen else end.is_relative_to(self._home)
        if is_named and os.path.lexists(end) and (chosen or end not in self._shared):
            self.paths[end] = None
        return end

    def _is_writable(self, *paths: Path) -> bool:
        return any(f"{path}/".startswith(self._writable) for path in paths)

    def _add_links(self, links: Sequence[Path]) -> None:
        # A version manager may have put the link of a shell into the folder of its login.
        hiding = (self._home, *ALWAYS_EMPTY)
        self.paths.update(dict.fromkeys(each for each in links if any(map(each.is_relative_to, hiding))))

    def add_named(self, environ: Mapping[str, str]) -> None:
        """Show the programs of PATH, and the installations and packages that other variables name."""
        folders = [Path(part) for part in environ.get("PATH", "").split(os.pathsep) if part.startswith("/")]
        ends = [Path(os.path.realpath(folder)) for folder in folders]
        # `/bin` is often a link to another folder of PATH.
        places = (end if end.is_relative_to("/usr") else folder for folder, end in zip(folders, ends, strict=True))
        for folder in dict.fromkeys(places):
            self._add_program_folder(folder)
        for name, value in environ.items():
            for part in value.split(os.pathsep) if name not in NO_PLACES and "/" in value else ():
                path = Path(os.path.realpath(part)) if part.startswith("/") else self._home
                if not path.is_relative_to(self._home) or path in self._shared:
                    continue
                if name in PACKAGE_VARIABLES or any(end.is_relative_to(path) for end in ends):
                    self.add(Path(part))
                elif _is_installation(path):
                    self._add_installation(Path(part))
                elif os.access(path, os.X_OK):
                    self.add_program(Path(part))

    def _add_program_folder(self, folder: Path) -> None:
        links, place = _links_to(folder)
        if is_own := place.is_relative_to(self._home):
            self._add_installation(folder)
            self.add(folder)
        if self._is_writable(place, *links):
            return
        # A link in it may lead on by others, most of which are in the folder of alternatives.
        changed = tuple(_changed_ns(each) for each in (place, ALTERNATIVES))
        names = (
            [each.name for each in folder_entries(place)] if is_own else _names_leading_to(self._home, place, changed)
        )
        for name in names:
            self.add_program(place / name)

    def _add_installation(self, folder: Path) -> bool:
        """Show the installation that is, or is around, a folder of programs; return whether there is one."""
        if folder not in self._installations:
            self._installations[folder] = self._find_installation(folder)
        return self._installations[folder]

    def _find_installation(self, folder: Path) -> bool:
        root = folder.parent if folder.name in PROGRAM_FOLDERS else folder
        if Path(os.path.realpath(root)) in self._shared or not _is_installation(root):
            return False
        if self.add(root) in self.paths:
            self.add_base_of(root)
        return True

    def add_program(self, program: Path) -> None:
        """Show the installation of a program of a home; of a link or a script also that where it leads."""
        left = [program]
        while left:
            program = left.pop()
            place = self._real(program.parent) / program.name
            if program in self._followed or os.path.isdir(place):  # noqa: PTH112 - unlike that of a path, it never raises
                continue
            self._followed.add(program)
            if place.is_relative_to(self._home) and not self._add_installation(program.parent):
                self.add(program)
            left += self._following(place)

    def _following(self, place: Path) -> Iterable[Path]:
        """Return what a link leads to, or what runs a script of the home and what that runs; nothing for others."""
        if self._is_writable(place):
            return ()
        if target := _target(place):
            return (place.parent / target,)
        return _programs_of_script(place, self._home) if place.is_relative_to(self._home) else ()

    def add_base_of(self, environment: Path) -> None:
        """Show the installation whose interpreter a virtual environment runs; an agent may have written both names."""
        lines = os.fsdecode(_head(environment / VENV_SETTINGS)).splitlines()
        named = (line.partition("=")[2].strip() for line in lines if line.split()[:1] == ["home"])
        for python in (environment / "bin" / "python", *(Path(folder, "python3") for folder in named)) if lines else ():
            prefix = self._real(python).parent.parent
            # Nothing but an installed Python has its library.
            if prefix.is_relative_to(self._home) and any(_match_paths(prefix, "lib*/py*/os.py")):
                self._add_links(_links_to(python)[0])
                self.add(prefix)

    def add_packages_of(self, checkout: Path) -> None:
        """Show what the virtual environments of a checkout run on, and the packages that its `node_modules` links."""
        entries = folder_entries(checkout)
        # `.tox`, `.nox` and `.direnv` have one environment for each version or session.
        hidden = (each for each in entries if each.name.startswith(".") and each.is_dir(follow_symlinks=False))
        for entry in chain(entries, *(folder_entries(Path(folder)) for folder in hidden)):
            self.add_base_of(Path(entry))
        modules = checkout / "node_modules"
        scopes = (each for each in folder_entries(modules) if each.name.startswith("@"))
        for entry in chain(folder_entries(modules), *(folder_entries(Path(scope)) for scope in scopes)):
            if entry.is_symlink():
                links, end = _links_to(Path(entry))
                # An agent could have planted the link, but not the package that bears its name.
                is_outside = end.is_relative_to(self._home) and not self._is_writable(end)
                if is_outside and _package_name(end) == str(Path(entry).relative_to(modules)):
                    self._add_links(links)
                    self.add(end)


def hidden_path(text: str, zone: Confinement) -> str:
    """Return what `sandbox.read` would name to show the first path in a text that exists but is hidden; empty for none.

    What is hidden for a reason of its own, such as a secret, no setting shows.
    """
    home, here = Path.home().resolve(), next(iter(zone.writable), Path("/"))
    for found in islice(_PATH.finditer(text), MAX_NAMED):
        path = Path(os.path.realpath(here / _HOME.sub(lambda _: str(home), found[0].rstrip("."))))
        hiding = hiding_path(path, zone)
        if hiding not in {home, *ALWAYS_EMPTY} or not os.path.lexists(path) or secret_entry(str(path)):
            continue
        for shown in () if path == hiding else (path, *path.parents):
            is_last = shown.parent in {hiding, *(home / name for name in SHARED_FOLDERS)}
            if is_last or (shown.is_dir() and shown.name not in PROGRAM_FOLDERS):
                return f"~/{shown.relative_to(home)}" if shown.is_relative_to(home) else str(shown)
    return ""


@lru_cache(maxsize=64)
def _names_leading_to(home: Path, folder: Path, _changed: tuple[int, ...]) -> tuple[str, ...]:
    """Return the links in a folder of the system that lead into the home; read anew when something has changed."""
    # Of its thousands of programs, few are links to a named place, and fewer to one in a home.
    links = (entry for entry in folder_entries(folder) if entry.is_symlink())
    named = (entry for entry in links if os.readlink(entry.path).startswith("/"))  # noqa: PTH115 - ten times faster
    return tuple(entry.name for entry in named if os.path.realpath(entry.path).startswith(f"{home}/"))


def _changed_ns(folder: Path) -> int:
    """Return when the entries of a folder last changed; now if that is not long ago, so that nothing is kept of it."""
    now_ns, changed_ns = time.time_ns(), 0
    with contextlib.suppress(OSError):
        changed_ns = folder.stat().st_ctime_ns
    return changed_ns if changed_ns + SETTLED_NS < now_ns else now_ns


def _links_to(path: Path) -> tuple[list[Path], Path]:
    """Return the links on the way to a path, each in a folder without links, and where they lead."""
    if os.path.realpath(path) == os.path.normpath(path):
        return [], Path(os.path.normpath(path))
    links: list[Path] = []
    while len(links) < MAX_LINKS:
        found = ((each, target) for each in (*reversed(path.parents), path) if (target := _target(each)))
        link, target = next(found, (None, None))
        if link is None or target is None:
            break
        links.append(link)
        path = Path(os.path.normpath(link.parent / target / path.relative_to(link)))
    return links, Path(os.path.normpath(path))


def _target(link: Path) -> Path | None:
    # Names come from variables and files: they may be too long, or in a folder that is closed to us.
    with contextlib.suppress(OSError, ValueError):
        return link.readlink()
    return None


def _is_installation(folder: Path) -> bool:
    return any(entry.name in INSTALLED_PARTS for entry in folder_entries(folder))


def _programs_of_script(script: Path, home: Path) -> Iterator[Path]:
    """Yield the program that a script names in its first line, and the programs of the home that its text names."""
    text = os.fsdecode(_head(script, MAX_SCRIPT_BYTES))
    words = text.partition("\n")[0].removeprefix(SCRIPT).split()
    if text.startswith(SCRIPT) and words and words[0].startswith("/"):
        yield Path(words[0])
        named = (Path(os.path.normpath(_HOME.sub(lambda _: str(home), found[0]))) for found in _PATH.finditer(text))
        # Elsewhere, it may be a script of a project, and the project no installation.
        installed = (path for path in named if path.is_relative_to(home) and path.parent.name in INSTALLED_PARTS)
        yield from (path for path in installed if os.access(path, os.X_OK))


def _package_name(folder: Path) -> str | None:
    try:
        read = json.loads(_head(folder / "package.json"))
    except (ValueError, RecursionError):
        return None
    return read.get("name") if isinstance(read, dict) else None


def _head(file: Path, most: int = READ_BYTES) -> bytes:
    """Return the beginning of a text file; empty if it is something else, or unreadable."""
    with contextlib.suppress(OSError, ValueError):
        if file.is_file():
            with file.open("rb") as opened:
                text = opened.read(most)
            return b"" if b"\0" in text else text
    return b""


def _match_paths(folder: Path, *patterns: str) -> Iterator[Path]:
    """Yield the existing paths below a folder whose names match, in any case; a name may have a `*`."""
    rests: dict[str, list[str]] = {}
    for pattern in patterns:
        first, _, rest = pattern.casefold().partition("/")
        rests.setdefault(first, []).append(rest)
    wild = [first for first in rests if "*" in first]
    for entry in folder_entries(folder):
        name = entry.name.casefold()
        for first in (*({name} & rests.keys()), *(each for each in wild if fnmatchcase(name, each))):
            if "" in rests[first]:
                yield folder / entry.name
            if below := [rest for rest in rests[first] if rest]:
                yield from _match_paths(folder / entry.name, *below)


def folder_entries(folder: Path) -> list["os.DirEntry[str]"]:
    """Return the entries of a folder; empty if it is unreadable."""
    with contextlib.suppress(OSError, ValueError), os.scandir(folder) as entries:
        return list(entries)
    return []
