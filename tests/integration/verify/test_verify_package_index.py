"""Packages of unlanded work, fetched by real installers from the user's index, which is a server on loopback."""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile

import pytest

from builders import bubblewrap_or_skip, needs
from integration.verify.builders import EnvironmentSetup, check_output
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.environment.golden import ForeignSources

pytestmark = pytest.mark.slow

PIP = ("python3 -m venv .venv", ".venv/bin/python -m pip install -r requirements.txt")
METADATA = "Metadata-Version: 2.1\nName: {0}\nVersion: 1\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
CALL = """\
import urllib.request
try:
    urllib.request.urlopen("http://127.0.0.1:{0}/code-ran", timeout=5)
except OSError:
    pass
from setuptools import setup
setup(name="source", version="1")
"""
SCRIPT = """\
require('fs').writeFileSync('ran', '');
require('http').get('http://127.0.0.1:PORT/code-ran').on('error', () => {});
"""


def packed(files):
    """Return a compressed archive of these files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text)
            archive.addfile(about, io.BytesIO(text.encode()))
    return made.getvalue()


def wheel(name):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{name}.py", "")
        for entry, text in {"METADATA": METADATA.format(name), "WHEEL": WHEEL, "RECORD": ""}.items():
            archive.writestr(f"{name}-1.dist-info/{entry}", text)
    return made.getvalue()


@contextlib.contextmanager
def serving(contents):
    """Serve contents by path on loopback; yield the port and the paths that were asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = contents.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html" if self.path.startswith("/simple") else "application/json")
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], asked
        server.shutdown()


@pytest.fixture(params=["bubblewrap", "landlock"])
async def project(harness, tmp_path, request):
    made = EnvironmentSetup(harness, tmp_path, sandboxed=True)
    if request.param == "bubblewrap":
        await bubblewrap_or_skip()
    elif landlock.unsupported_reason() or not landlock.has_broker():
        pytest.skip("this kernel has no Landlock with a broker")
    else:
        made.level = "landlock"
    return made


async def test_a_wheel_of_the_configured_index_is_installed_and_a_source_distribution_is_not(project):
    """BX-9: neither its code runs, nor is any other server of this machine reached."""
    contents = {
        "/simple/right/": b'<a href="/right-1-py3-none-any.whl">right-1-py3-none-any.whl</a>',
        "/right-1-py3-none-any.whl": wheel("right"),
        "/simple/source/": b'<a href="/source-1.tar.gz">source-1.tar.gz</a>',
    }
    with serving(contents) as (port, asked), serving({}) as (other, leaked):
        project.environ = {**project.environ, "PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple/"}
        code = {"source-1/setup.py": CALL.format(port), "source-1/PKG-INFO": METADATA.format("source")}
        contents["/source-1.tar.gz"] = packed(code)
        await project.commit({"requirements.txt": "right\n"})
        environment = await project.prepared(*PIP, foreign=ForeignSources())
        async with project.tree(environment) as tree:
            assert await check_output(tree, ".venv/bin/python -c 'import right; print(right.__name__)'") == "right"
        for line in ("source", f"x @ http://127.0.0.1:{other}/x-1.tar.gz?leak"):
            await project.commit({"requirements.txt": f"right\n{line}\n"})
            assert isinstance(await project.prepare(*PIP, foreign=ForeignSources()), NotReady)
    assert "/code-ran" not in asked
    assert leaked == []


@needs("node", "npm")
async def test_npm_runs_scripts_after_the_download_and_without_a_network(project):
    """BX-9: what the base's packages build in an installation is there, and nothing they send arrives."""
    with serving(contents := {}) as (port, asked):
        place = f"http://127.0.0.1:{port}"
        project.environ = {**project.environ, "npm_config_registry": place}
        about = {"name": "left", "version": "1.0.0", "scripts": {"postinstall": "node script.js"}}
        files = {"package/package.json": json.dumps(about), "package/script.js": SCRIPT.replace("PORT", str(port))}
        archive = contents["/left/-/left-1.0.0.tgz"] = packed(files)
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"
        top = {"name": "top", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}
        locked = {
            "version": "1.0.0",
            "resolved": f"{place}/left/-/left-1.0.0.tgz",
            "integrity": integrity,
            "hasInstallScript": True,
        }
        lock = {**top, "lockfileVersion": 3, "packages": {"": top, "node_modules/left": locked}}
        await project.commit({"package.json": json.dumps(top), "package-lock.json": json.dumps(lock)})
        environment = await project.prepared("npm ci", foreign=ForeignSources())
        async with project.tree(environment) as tree:
            assert await check_output(tree, "ls node_modules/left") == "package.json\nran\nscript.js"
        old = {**top, "lockfileVersion": 1, "requires": True, "dependencies": {"left": locked}}
        del locked["hasInstallScript"]
        await project.commit({"package.json": json.dumps({**top, "scripts": {"prepare": "true"}})})
        for lock in (old, {**old, "lockfileVersion": "2"}):
            await project.commit({"package-lock.json": json.dumps(lock)})
            environment = await project.prepared("npm ci", foreign=ForeignSources())
            async with project.tree(environment) as tree:
                assert await check_output(tree, "ls node_modules/left") == "package.json\nscript.js", "nobody was asked"
    assert "/left/-/left-1.0.0.tgz" in asked
    assert "/code-ran" not in asked
