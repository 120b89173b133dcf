"""Zones: what the commands of an agent may reach; how they are held to it is the sandbox's business."""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import structs

from scaffold.core.model import Network
from scaffold.git.registration import common_dir, pointed_at
from scaffold.host.sandbox.confinement import Confinement, Limits
from scaffold.policy.secrets import SECRETS, secret_by
from scaffold.policy.trust import ACTIVE

SEALED = (".git", ".scaffold", ".husky", ".claude/hooks", ".claude/plugins", *ACTIVE)
"""What git, Scaffold and agents run or obey, from the top of a workspace: no command changes it, and none makes it."""

STARTED = (
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "bin",
    "Library/LaunchAgents",
)
"""Below a home: what its next shell or login runs, be it there or not."""

SOCKETS = (
    ".docker/run",
    ".docker/desktop",
    ".colima",
    ".lima",
    ".orbstack",
    ".rd",
    ".1password",
    ".bitwarden-ssh-agent.sock",
    ".emacs.d/server",
    ".local/share/keyrings",
    "snap/docker",
)
"""Below a home: programs that listen there do what they are told, outside of any sandbox."""

BROWSERS = (
    ".config/chromium",
    ".config/bravesoftware",
    ".config/microsoft-edge",
    ".thunderbird",
    "snap/firefox",
    "library/application support/google/chrome",
    "library/application support/firefox",
)

SYSTEM = tuple(Path(entry.rstrip("*")) for entry in SECRETS if entry.startswith(("/etc", "/run", "/var")))
"""Secrets by their place in the system; a sandbox has a /proc and a /dev of its own."""
HOOKS_PATH = "hookspath"


def workspace_zone(
    root: Path,
    *,
    home: Path,
    temporary: Path,
    private: Sequence[Path] = (),
    shown: Sequence[Path] = (),
    tracked: Collection[str] = (),
    network: Network = "loopback",
    hosts: Sequence[str] = (),
    limits: Limits | None = None,
    absent: bool = True,
) -> Confinement:
    """Return the zone of commands that work in `root`: they change it, and read what is no secret elsewhere.

    `private` are folders of Scaffold's own, its logins and conversations, that nobody sees; `shown` are those below
    them, or in a temporary folder of the system, that can be read all the same. Of the files at the top of `root` those
    with names of secrets are hidden, except those named in `tracked`: what git keeps is no secret. Without `absent`
    what is sealed can be made where it is not there yet: for a checkout of which nothing is used unseen. Where all of
    `home` lies in `root`, its own programs and settings are sealed.
    """
    root, home, temporary = root.resolve(), home.resolve(), temporary.resolve()
    sealed = (
        *(root / name for name in SEALED),
        *_hooks(root),
        *(_settings_of(home, temporary) if home.is_relative_to(root) else ()),
    )
    hidden = (*secrets_at(root, tracked), *_secrets_of(home), *SYSTEM, *(path.resolve() for path in private))
    return Confinement(
        writable=(root,),
        temporary=temporary,
        sealed=tuple(dict.fromkeys(path for path in sealed if absent or os.path.lexists(path))),
        hidden=tuple(dict.fromkeys(hidden)),
        shown=tuple(path.resolve() for path in shown),
        network=network,
        hosts=tuple(hosts),
        limits=limits or Limits(),
    )


def agent_zone(
    root: Path,
    *,
    home: Path,
    temporary: Path,
    credentials: Sequence[Path],
    hosts: Sequence[str],
    private: Sequence[Path] = (),
    shown: Sequence[Path] = (),
) -> Confinement:
    """Return the zone of an external agent's own program: with its `credentials` and its provider's `hosts`."""
    strict = workspace_zone(
        root, home=home, temporary=temporary, private=private, shown=shown, network="hosts", hosts=hosts
    )
    own = tuple(path.resolve() for path in credentials)
    return Confinement(
        writable=(*strict.writable, *own),
        temporary=strict.temporary,
        sealed=strict.sealed,
        hidden=tuple(path for path in strict.hidden if not any(path.is_relative_to(folder) for folder in own)),
        shown=strict.shown,
        network="hosts",
        hosts=strict.hosts,
        limits=strict.limits,
    )


def with_newcomers(zone: Confinement, known: Collection[str]) -> Confinement:
    """Return the zone with those secrets hidden, too, that came to the top of its workspace.

    `known` are the names that were there when the zone was made, and were judged then.
    """
    came = tuple(path for path in secrets_at(zone.writable[0], known) if path not in zone.hidden)
    return structs.replace(zone, hidden=(*zone.hidden, *came)) if came else zone


def secrets_at(root: Path, tracked: Collection[str] = ()) -> Iterator[Path]:
    """Yield the files at the top of a workspace that hold secrets, as their names tell."""
    names = (entry.name for entry in _entries(root) if entry.is_file())
    return (root / name for name in names if name not in tracked and secret_by(name))


def _settings_of(home: Path, temporary: Path) -> Iterator[Path]:
    """Yield what the programs of a home obey or are: all that begins with a dot, and what is started from there.

    Of a folder that leads to `temporary` it is what else lies in there, as far as that is there.
    """
    yield from (home / name for name in STARTED)
    for entry in _entries(home):
        if entry.name.startswith("."):
            yield from _beside(home / entry.name, temporary)


def _beside(path: Path, way: Path) -> Iterator[Path]:
    """Yield `path`, or all in it that is not on the way."""
    if not way.is_relative_to(path):
        yield path
    elif way != path:
        for entry in _entries(path):
            yield from _beside(path / entry.name, way)


def _secrets_of(home: Path) -> Iterator[Path]:
    """Yield what a home keeps from others: at its top, below its folders of configuration, and sockets."""
    yield from (home / entry.name for entry in _entries(home) if secret_by(entry.name))
    deeper = [entry for entry in SECRETS if "/" in entry.strip("/") and not entry.startswith("/")]
    for place in (*deeper, *SOCKETS, *BROWSERS):
        yield from _found(home, place.split("/"))


def _found(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield what stands below `folder` by the `names`: their case does not count, and one may end in `*`."""
    wanted = names[0].rstrip("*")
    for entry in _entries(folder):
        name = entry.name.casefold()
        if name == wanted or (names[0].endswith("*") and name.startswith(wanted)):
            path = folder / entry.name
            if len(names) == 1:
                yield path
            else:
                yield from _found(path, names[1:])


def _hooks(root: Path) -> Iterator[Path]:
    """Yield the folder in the workspace that its git is told to run hooks from, if there is one."""
    try:
        registration = pointed_at(root)
        text = ((common_dir(registration) if registration else root / ".git") / "config").read_bytes()
    except OSError:
        return
    for line in text.decode(errors="replace").splitlines():
        name, _, value = line.partition("=")
        folder = value.strip().strip('"')
        if name.strip().casefold() == HOOKS_PATH and not folder.startswith("~"):
            path = Path(os.path.normpath(root / folder))
            if path.is_relative_to(root) and path != root:
                yield path


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, nothing if it cannot be told."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
