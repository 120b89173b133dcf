"""What an agent is told when the sandbox is the likely reason of a failure."""

import signal
from pathlib import Path

from msgspec import structs

from scaffold.host.process.command_runner import CommandResult
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.tools.command.sandbox_notice import sandbox_notice

FAILED = CommandResult(
    exit_code=1, signal=None, timed_out=False, stdout=b"", stderr=b"", stdout_sha256="", truncated=False, duration_s=0.1
)


def sandbox(network="loopback", level="bubblewrap", hosts=()):
    zone = Confinement(writable=(), temporary=Path("/tmp/x"), network=network, hosts=hosts)
    return SandboxSpec(level, zone)


def test_the_notice_says_what_the_sandbox_allows_and_what_to_do():
    """RA-4."""
    rows = [
        ("curl: (6) Could not resolve host: example.com", sandbox(), "the sandbox has no network"),
        (
            "[Errno 101] Network is unreachable",
            sandbox("hosts", hosts=("example.org",)),
            "only example.org can be reached",
        ),
        ("touch: cannot touch '/etc/x': Read-only file system", sandbox(), "only the workspace and $TMPDIR"),
        (
            "touch: cannot touch '/etc/x': Permission denied",
            sandbox(level="landlock"),
            "only the workspace and $TMPDIR",
        ),
        ("  [cause]: Error: getaddrinfo EAI_AGAIN example.org", sandbox(), "the sandbox has no network"),
        ("Error: connect ENETUNREACH 192.0.2.1:80 - Local (0.0.0.0:0)", sandbox(), "the sandbox has no network"),
        ("dial tcp 192.0.2.1:443: connect: network is unreachable", sandbox(), "the sandbox has no network"),
        ("lookup example.org: no such host", sandbox(), "the sandbox has no network"),
        ("java.net.UnknownHostException: example.org", sandbox(), "the sandbox has no network"),
        ("Error: EROFS: read-only file system, open '/etc/x'", sandbox(), "only the workspace and $TMPDIR"),
        ("open /etc/x: permission denied", sandbox(level="landlock"), "only the workspace and $TMPDIR"),
        ("touch: cannot touch '/etc/x': Permission denied", sandbox(), ""),
        ("curl: (6) Could not resolve host: example.com", sandbox("open"), ""),
        ("curl: (6) Could not resolve host: example.com", None, ""),
        ("1 failed", sandbox(), ""),
    ]
    for output, spec, says in rows:
        notice = sandbox_notice(FAILED, output, spec, command="")
        assert says in notice, output
        assert bool(notice) is bool(says), output
        assert not notice or "tell the user" in notice


def test_a_command_that_succeeded_needs_no_notice_and_a_forbidden_system_call_has_its_own():
    ended, output = structs.replace(FAILED, exit_code=0), "Read-only file system"
    assert sandbox_notice(ended, output, sandbox(), command="") == ""
    killed = structs.replace(FAILED, exit_code=None, signal=signal.SIGSYS)
    assert "system call" in sandbox_notice(killed, "", sandbox(), command="")


def test_a_hidden_path_that_a_command_names_is_told_with_what_shows_it(tmp_path, monkeypatch):
    """BX-9: but never a secret, nor what does not exist."""
    home = tmp_path.resolve() / "home"
    monkeypatch.setenv("HOME", str(home))
    for name in ("data/sub/x.csv", ".ssh/id_rsa", ".config/new", "notes.txt", "sdk/bin/tool", "work/main.py"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    zone = Confinement(writable=(home / "work",), temporary=tmp_path / "t", hidden=(home,))
    spec = SandboxSpec("bubblewrap", zone)
    for command, output, path in [
        ("cat ~/data/sub/x.csv", "", "~/data/sub"),
        ("cat '$HOME/data/sub/x.csv'; cat ${HOME}/notes.txt", "", "~/data/sub"),
        ("ls ~/data/", "", "~/data"),
        ("make", f"open {home}/notes.txt: no such file or directory.", "~/notes.txt"),
        ("make", f"FileNotFoundError: '{home}/.config/new'", "~/.config/new"),
        (f"{home}/sdk/bin/tool", "", "~/sdk"),
        ("cat ../data/sub/x.csv ../../missing", "", "~/data/sub"),
        ("cat ~/.ssh/id_rsa ~/.ssh/x ~ ~/ /etc/hostname", "", ""),
        (f"cat {home}/missing {home}/work/main.py x~/data https://x.example/{home}/data", "", ""),
        ("cat /" + "x" * 5000 + "\0", "", ""),
    ]:
        notice = sandbox_notice(FAILED, output, spec, command=command)
        says = f"notice: {path} is hidden from commands; to show it: sandbox.read: [{path}] in your settings"
        assert notice == (says if path else ""), (command, output)
