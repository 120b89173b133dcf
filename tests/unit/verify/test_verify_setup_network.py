"""Which hosts set-up commands may reach, by the user's configuration of package indexes."""

import base64

import pytest

from scaffold.host.sandbox.proxy_request import HostPort
from scaffold.verify.environment.setup_network import PACKAGE_INDEXES, is_elsewhere, outer_proxy, setup_network

PYPI, _, NPM, GO, GO_SUMS, _ = (index.hosts for index in PACKAGE_INDEXES)


@pytest.mark.parametrize(
    ("command", "environ", "files", "hosts"),
    [
        (".venv/bin/python -m pip install -r r.txt", {}, {}, PYPI),
        ("pip install x", {"PIP_INDEX_URL": "https://me:pw@mirror.test:8443/simple"}, {}, ("mirror.test:8443",)),
        ("pip install x", {"PIP_EXTRA_INDEX_URL": "http://127.0.0.1/s"}, {}, ("127.0.0.1:80", *PYPI)),
        (
            "pip install x",
            {},
            {".config/pip/pip.conf": "[global]\nindex-url = https://mirror.test/s\n"},
            ("mirror.test",),
        ),
        ("pip install x", {}, {".pip/pip.conf": "[global]\nextra-index-url = https://a.test/s\n"}, ("a.test", *PYPI)),
        ("pip install x", {}, {".pip/pip.conf": "[global]\nindex-url = https://u:Zq8vTr2Lw9@a.test/s\n"}, PYPI),
        ("uv sync --locked", {"UV_DEFAULT_INDEX": "http://localhost:8/simple"}, {}, ("localhost:8",)),
        ("npm ci", {}, {".npmrc": "registry=https://npm.test/\n@a:registry=https://a.test\n"}, ("npm.test", "a.test")),
        ("cd web && yarn install", {}, {}, NPM),
        ("go mod download", {"GOPROXY": "http://127.0.0.1:9"}, {}, ("127.0.0.1:9", *GO_SUMS)),
        ("go mod download", {"GOPROXY": "off", "GOSUMDB": "off"}, {}, ()),
    ],
)
def test_the_users_configuration_names_the_hosts(tmp_path, command, environ, files, hosts):
    """BX-9: a file with a login is hidden from set-up, so it does not count."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = setup_network([command], environ, tmp_path, also=())
    assert (found.hosts, found.only) == (hosts, True)


def test_a_command_of_an_unknown_program_may_use_each_index(tmp_path):
    found = setup_network(["make deps", "npm ci"], {}, tmp_path, also=None)
    assert {*PYPI, *NPM, *GO, "index.crates.io"} <= {*found.hosts}
    assert not found.only


def test_indexes_on_loopback_are_reached_by_their_ports(tmp_path):
    places = {"PIP_INDEX_URL": "http://localhost:81/s", "PIP_EXTRA_INDEX_URL": "http://127.0.0.1:82 http://a.test:83"}
    assert setup_network(["pip install x"], places, tmp_path, also=("h.test",)).ports == (81, 82)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::ffff:127.0.0.1", "169.254.169.254"])
def test_this_machine_is_not_elsewhere(address):
    """BX-9"""
    assert not is_elsewhere(address)


@pytest.mark.parametrize(
    ("environ", "host", "port", "proxy"),
    [
        ({"https_proxy": "http://u:p%40@out.test:3128"}, PYPI[0], 443, ("out.test:3128", "u:p@")),
        ({"HTTP_PROXY": "out.test:1"}, PYPI[0], 80, ("out.test:1", "")),
        ({"ALL_PROXY": "http://out.test"}, PYPI[0], 8443, ("out.test:80", "")),
        ({"https_proxy": "http://out.test:1", "no_proxy": "x, .corp.test"}, "pypi.corp.test", 443, None),
        ({"https_proxy": "socks5://out.test:1"}, PYPI[0], 443, None),
        ({}, PYPI[0], 443, None),
    ],
)
def test_the_users_own_proxy_is_gone_through(environ, host, port, proxy):
    found = outer_proxy(HostPort(host, port), environ)
    assert (found and (str(found.place), base64.b64decode(found.login).decode())) == proxy
