"""Units for systemd and launchd that continue a repository's interrupted runs when the user logs in."""

import plistlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import UsageError


class Service(Struct, frozen=True, kw_only=True):
    """What is started when the user logs in."""

    name: str
    """Of the unit, without an ending."""
    repository: Path
    argv: Sequence[str]
    environ: Mapping[str, str]
    secrets: Path
    """A file with lines `NAME=VALUE` for what must not be in the unit, such as keys; may be missing."""


def systemd_unit(service: Service) -> str:
    """Return the text of a systemd user unit; raises UsageError if a path or value has a line break."""
    values = (str(service.repository), str(service.secrets), *service.argv, *service.environ.values())
    if any("\n" in value or "\r" in value for value in values):
        raise UsageError("a path or a variable contains a line break", "Move the repository, or change the variable.")
    # SIGKILL: a run that is asked to end is paused by that, and a paused run is not continued after the reboot.
    lines = [
        f"# ~/.config/systemd/user/{service.name}.service",
        "[Unit]",
        f"Description=Scaffold: continue the interrupted runs of {_escape_specifiers(str(service.repository))}",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        "KillSignal=SIGKILL",
        f"WorkingDirectory={_escape_specifiers(str(service.repository))}",
        *(f"Environment={_systemd_quoted(f'{name}={value}')}" for name, value in service.environ.items()),
        f"EnvironmentFile=-{_escape_specifiers(str(service.secrets))}",
        f"ExecStart={' '.join(_systemd_quoted(word).replace('$', '$$') for word in service.argv)}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def launchd_plist(service: Service) -> str:
    """Return the text of a launchd property list, which reads the secrets by a shell."""
    read_secrets = 'set -a; test -f "$0" && . "$0"; set +a; exec "$@"'
    content = {
        "Label": service.name,
        "ProgramArguments": ["/bin/sh", "-c", read_secrets, str(service.secrets), *service.argv],
        "WorkingDirectory": str(service.repository),
        "EnvironmentVariables": dict(service.environ),
        "RunAtLoad": True,
        # The runs outlive the command that started them.
        "AbandonProcessGroup": True,
    }
    return plistlib.dumps(content, sort_keys=False).decode()


def _systemd_quoted(word: str) -> str:
    """Return a word in the quotes of systemd."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_escape_specifiers(escaped)}"'


def _escape_specifiers(text: str) -> str:
    """Return the text with specifiers of systemd escaped."""
    return text.replace("%", "%%")
