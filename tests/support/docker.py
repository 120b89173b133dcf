"""A fake `docker`: `compose` starts and stops real servers on this machine's loopback."""

import shlex
import socket
import sys
from pathlib import Path

DOCKER = """\
#!{python} -IS
import os, pathlib, sys, time
home = pathlib.Path({home!r})
words = sys.argv[1:]
with open(home / "calls", "a") as calls:
    calls.write(" ".join(words) + chr(10))
if words == ["compose", "version"]:
    sys.exit(0)
if (home / "no daemon").exists():
    sys.exit("Cannot connect to the Docker daemon")
assert words[:2] == ["compose", "-p"], words
name, words = words[2], words[3:]
files = []
while words[0] == "-f":
    files, words = [*files, words[1]], words[2:]
up = home / "up" / name
if words[0] == "down":
    assert "--volumes" in words, words
    up.unlink(missing_ok=True)
    while (home / "ready" / name).exists():
        time.sleep(0.01)
elif words[:3] == ["up", "--detach", "--wait"]:
    described = pathlib.Path(files[0] if files else "compose.yaml").read_text().split()
    if described[0] != "serve":
        sys.exit("service db is unhealthy")
    up.parent.mkdir(exist_ok=True)
    up.write_text("")
    if os.fork() == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        [os.dup2(nothing, stream) for stream in range(3)]
        os.execv(sys.executable, [sys.executable, "-IS", {server!r}, str(home), name, *described[1:]])
    while not (home / "ready" / name).exists():
        time.sleep(0.01)
else:
    sys.exit("unknown: " + " ".join(words))
"""
SERVER = """\
import pathlib, socket, sys, threading
home, name, port, greeting = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
ready = home / "ready" / name
kept = []
def serve(caller):
    with caller, caller.makefile("rb") as lines:
        for line in lines:
            kept.append(line.strip().decode())
            caller.sendall((greeting + " " + ",".join(kept) + chr(10)).encode())
listener = socket.create_server(("127.0.0.1", port))
listener.settimeout(0.02)
ready.parent.mkdir(exist_ok=True)
ready.write_text("")
while (home / "up" / name).exists():
    try:
        caller, _ = listener.accept()
    except TimeoutError:
        continue
    caller.settimeout(None)
    threading.Thread(target=serve, args=(caller,), daemon=True).start()
listener.close()
ready.unlink(missing_ok=True)
"""
SAY = """\
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
    server.sendall(sys.argv[2].encode() + b"\\n")
    print(server.makefile().readline().strip())
"""


class FakeDocker:
    """The program is in `programs`; its servers end when they are taken down, or by `end`."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "daemon"
        self.programs = folder / "docker programs"
        self.home.mkdir()
        self.programs.mkdir()
        server = self.home / "server.py"
        server.write_text(SERVER)
        program = self.programs / "docker"
        program.write_text(DOCKER.format(python=sys.executable, home=str(self.home), server=str(server)))
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """Its calls, in order."""
        path = self.home / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def up(self) -> list[str]:
        """The projects that are up."""
        return sorted(path.name for path in (self.home / "up").glob("*"))

    def end(self) -> None:
        """End every server that is still up."""
        for path in (self.home / "up").glob("*"):
            path.unlink()

    def stop_daemon(self) -> None:
        """Make every call fail from now on that needs the daemon."""
        (self.home / "no daemon").touch()


def free_port() -> int:
    """Return a port that no process uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def ask_server(port: int, word: str) -> str:
    """Return the shell command that sends a word to such a server and prints the answer."""
    return shlex.join([sys.executable, "-c", SAY, str(port), word])
