"""The way into a sandbox: what to start instead of a command, whatever holds it."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, assert_never

from msgspec import Struct, structs

from scaffold.host.sandbox import bubblewrap, landlock, relay, seatbelt
from scaffold.host.sandbox.confinement import Confinement, Enclosure
from scaffold.host.sandbox.ground import survey
from scaffold.host.sandbox.seccomp import program

MARK = "SCAFFOLD_SANDBOX"
"""Names the level to whoever runs inside."""


class Entry(Struct, frozen=True, kw_only=True):
    """What to start, with which environment and descriptors; `held` is for the keeper to hold meanwhile."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    passed: tuple[BinaryIO, ...] = ()
    held: tuple[Path, ...] = ()
    status: BinaryIO | None = None
    """Where bubblewrap reports; None: nobody does."""

    def hand_over(self) -> None:
        """Close our copies of what was passed, once it was started."""
        for end in self.passed:
            end.close()

    def code(self, raw: int) -> int:
        """Return the command's exit code, or its signal negated, from how what was started ended.

        OSError if the sandbox could not be set up.
        """
        return bubblewrap.code(raw, self.status.read()) if self.status else raw


@contextlib.contextmanager
def entrance(enclosure: Enclosure, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Iterator[Entry]:
    """Prepare the sandbox for one command; OSError if that fails. Start it before this ends."""
    temporary = enclosure.confinement.temporary
    env = dict(env) | _environment(temporary) | {MARK: enclosure.level}
    for folder in (temporary, temporary / "cache", temporary / bubblewrap.SHARED_MEMORY):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    match enclosure.level:
        case "bubblewrap":
            with _wrapped(*_with_hosts(enclosure, argv), cwd, env) as entry:
                yield entry
        case "landlock":
            yield Entry(argv=landlock.argv(enclosure.confinement, argv), env=env)
        case "seatbelt":
            yield Entry(argv=seatbelt.argv(enclosure.confinement, argv), env=env)
        case "none":
            yield Entry(argv=tuple(argv), env=env)
        case never:
            assert_never(never)


def _environment(temporary: Path) -> dict[str, str]:
    """Return what leads a command to folders it may write."""
    cache = str(temporary / "cache")
    return dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(temporary)) | {
        "XDG_CACHE_HOME": cache,
        "npm_config_cache": str(temporary / "cache" / "npm"),
    }


def _with_hosts(enclosure: Enclosure, argv: Sequence[str]) -> tuple[Confinement, Sequence[str]]:
    """Return the confinement and the command with a way to the proxy, if there is one and hosts are granted."""
    confinement, proxy = enclosure.confinement, enclosure.proxy
    if confinement.network != "hosts" or proxy is None:
        return confinement, argv
    return structs.replace(confinement, shown=(*confinement.shown, proxy)), relay.argv(proxy, argv)


@contextlib.contextmanager
def _wrapped(confinement: Confinement, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Iterator[Entry]:
    wrapper = bubblewrap.find()
    if wrapper is None:
        raise FileNotFoundError(2, "No such file or directory", "bwrap")
    ground = survey(confinement)
    with contextlib.ExitStack() as held:
        reading, writing = os.pipe()
        status, pen = held.enter_context(os.fdopen(reading, "rb")), held.enter_context(os.fdopen(writing, "wb"))
        filters = held.enter_context(os.fdopen(os.memfd_create("seccomp"), "wb", buffering=0))
        filters.write(program(confinement.network))
        filters.seek(0)
        wrapped = bubblewrap.argv(
            wrapper,
            ground,
            argv,
            cwd=cwd.resolve(),
            temporary=confinement.temporary,
            seccomp=filters.fileno(),
            status=pen.fileno(),
            network=confinement.network,
        )
        yield Entry(argv=wrapped, env=env, passed=(filters, pen), held=ground.held, status=status)
