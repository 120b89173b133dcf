"""The units that `scaffold service` prints."""

import plistlib
import shlex
from pathlib import Path

import pytest

from scaffold.cli.commands.upkeep.service import Service, launchd_plist, systemd_unit
from scaffold.core.errors import UsageError


def service(**changes):
    given = {
        "name": "scaffold-shop-1234",
        "repository": Path("/home/ada/100% my shop"),
        "argv": ["/opt/a b/python", "-m", "scaffold", "resume", "--interrupted", 'say "$HOME"\\'],
        "environ": {"PATH": "/usr/bin:/home/ada/my tools", "LANG": "C.UTF-8"},
        "secrets": Path("/home/ada/.config/scaffold/service.env"),
    }
    return Service(**(given | changes))


def test_a_systemd_unit_quotes_what_systemd_would_expand():
    """AL-27, OR-10: after a reboot, interrupted runs continue."""
    lines = systemd_unit(service()).splitlines()
    assert "WorkingDirectory=/home/ada/100%% my shop" in lines
    assert 'Environment="PATH=/usr/bin:/home/ada/my tools"' in lines
    assert "EnvironmentFile=-/home/ada/.config/scaffold/service.env" in lines
    start = next(line for line in lines if line.startswith("ExecStart="))
    words = [word.replace("$$", "$") for word in shlex.split(start.removeprefix("ExecStart="))]
    assert words == list(service().argv)
    assert "KillSignal=SIGKILL" in lines, "a run that is asked to end would be paused, and stay so"


def test_a_line_break_is_refused():
    for changes in ({"repository": Path("/a\nb")}, {"environ": {"PATH": "a\nExecStart=evil"}}):
        with pytest.raises(UsageError, match="line break"):
            systemd_unit(service(**changes))


def test_a_launchd_agent_starts_the_same_command():
    read = plistlib.loads(launchd_plist(service()).encode())
    assert read["ProgramArguments"][-6:] == list(service().argv)
    assert read["ProgramArguments"][3] == str(service().secrets)
    assert read["WorkingDirectory"] == str(service().repository)
    assert read["EnvironmentVariables"] == service().environ
    assert (read["RunAtLoad"], read["AbandonProcessGroup"]) == (True, True)
