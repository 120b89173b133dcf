"""`ralph --check-update` and `--update`, by real pip and an index on this machine."""

import functools
import os
import subprocess
import sys
import sysconfig
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from inline_snapshot import snapshot

from support.distribution import build
from support.terminal import Screen

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NEWER = "99.0"


def with_version(wheel, version, folder):
    """Write the same wheel under another version."""
    old = wheel.name.split("-")[1]
    made = folder / wheel.name.replace(old, version)
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith((".dist-info/METADATA", ".dist-info/RECORD")):
                data = data.replace(old.encode(), version.encode())
            target.writestr(name.replace(old, version), data)
    return made


@pytest.fixture
def index(tmp_path):
    """Serve a package index; yield its address and the folder of the package."""
    folder = tmp_path / "index" / "ralph-scaffold"
    folder.mkdir(parents=True)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", folder
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def installed(tmp_path, index):
    """Install this version from the index into an environment that has what it needs; yield its environment."""
    address, folder = index
    _, wheel = build(tmp_path)
    old = with_version(wheel, "1.0", folder)
    new = with_version(wheel, NEWER, tmp_path)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    fresh = tmp_path / "fresh"
    [packages] = fresh.glob("lib/*/site-packages")
    # Ours has all that it depends on, but not in the way that pip would install into.
    (packages / "needed.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    environ = {name: value for name, value in os.environ.items() if name not in {"CI", "VIRTUAL_ENV", "PYTHONPATH"}}
    environ |= {
        "PIP_INDEX_URL": address,
        "PIP_NO_CACHE_DIR": "1",
        "SCAFFOLD_HOME": str(tmp_path / "home"),
        "PATH": f"{fresh / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm",
    }
    python = fresh / "bin" / "python"
    install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--ignore-installed",
        f"ralph-scaffold=={old.name.split('-')[1]}",
    ]
    subprocess.run([python, *install], check=True, env=environ, cwd=tmp_path)
    return environ, fresh / "bin", new


def said(command, *args, environ, cwd):
    done = subprocess.run([command, *args], env=environ, cwd=cwd, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_newer_release_is_found_when_asked_and_installed_after_consent(installed, index, tmp_path):
    """RA-20: never silently, through what installed it, and one question to the index in an hour."""
    (environ, programs, new), (_, folder) = installed, index
    ask = functools.partial(said, programs / "ralph", environ=environ, cwd=tmp_path)
    assert ask("--check-update") == snapshot((0, "1.0 is the newest release\n"))
    new.rename(folder / new.name)
    assert ask("--check-update") == snapshot((0, "1.0 is the newest release\n")), "it has asked less than an hour ago"
    (tmp_path / "home" / "cache" / "update.json").write_text("rubbish")
    assert ask("--check-update") == (0, f"{NEWER} is available, 1.0 is installed; `ralph --update` installs it\n")
    code, text = ask("--update")
    assert (code, "there is no terminal" in text, "-m pip install --upgrade ralph-scaffold" in text) == (64, True, True)
    for answer, outcome, version in (("n\r", "nothing was changed", "1.0"), ("y\r", f"{NEWER} is installed", NEWER)):
        screen = Screen([str(programs / "scaffold"), "--update"], cwd=tmp_path, env=environ, columns=200)
        screen.wait_for(r"\? \[y/N\]", seconds=60)
        screen.send(answer)
        screen.wait_for(outcome, seconds=120)
        assert screen.wait_for_exit() == 0
        assert ask("--version") == (0, f"ralph, version {version}\n")
    assert ask("--check-update") == (0, f"{NEWER} is the newest release\n")


def test_a_run_is_not_updated_under_its_feet_and_ci_asks_nothing(installed, index, tmp_path):
    """RA-20."""
    (environ, programs, new), (_, folder) = installed, index
    new.rename(folder / new.name)
    sleeper = subprocess.Popen(
        [str(programs / "python"), "-c", "import time; time.sleep(60)", "scaffold"], env=environ, cwd=tmp_path
    )
    try:
        screen = Screen([str(programs / "ralph"), "--update"], cwd=tmp_path, env=environ, columns=200)
        screen.wait_for(rf"replaced:\s+{sleeper.pid}", seconds=60)
        assert screen.wait_for_exit() == 64
    finally:
        sleeper.kill()
        sleeper.wait()
    quiet = environ | {"CI": "true", "PIP_INDEX_URL": "http://127.0.0.1:9/"}
    assert said(programs / "ralph", "--check-update", environ=quiet, cwd=tmp_path) == snapshot(
        (0, "1.0; updates are not checked in CI\n")
    )
