"""The home that commands see: empty, but for what is named."""

import asyncio
import os

import pytest
from msgspec import structs

from builders import bubblewrap_or_skip, git, make_repository
from scaffold.core.run_settings import SandboxSettings
from scaffold.git.client.disabled_programs import ConfigEntry
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.host.sandbox.mounts import hiding_path
from scaffold.policy.command_sandbox import SandboxInputs
from scaffold.policy.sandbox_profile import build_sandbox_spec, workspace_profile
from scaffold.policy.secret.git_settings import shown_git_settings


@pytest.fixture
def root(tmp_path):
    folder = tmp_path.resolve() / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path):
    folder = tmp_path.resolve() / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def zone(root, home, tmp_path):
    """Return the zone as it is now, with further options."""

    def make(environ=None, **options):
        inputs = SandboxInputs(root=root, home=home, temporary=tmp_path / "temporary", **options)
        return workspace_profile(inputs, environ or {})

    return make


def fill(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("canary")


def seen(zone, home, names):
    return [name for name in names if hiding_path(home / name, zone) is None]


INSTALLED = (
    *(
        ".rubies/ruby-3/bin",
        ".gvm/gos/go1/bin",
        ".foundry/bin",
        ".sdkman/candidates/java/17/bin",
        ".bun/bin",
        ".deno/bin",
    ),
    *(".volta/bin", ".ghcup/bin", ".juliaup/bin", ".opam/default/bin", ".stack/programs/ghc/bin", ".cabal/bin"),
    *(
        ".local/share/mise/shims",
        ".nvm/versions/node/v20/bin",
        ".pyenv/shims",
        ".asdf/shims",
        "sdk/go/bin",
        "conda/bin",
    ),
    *("site/node_modules/.bin", ".unknown/bin"),
)


def test_every_installation_that_path_names_is_shown_whole(zone, home):
    """RA-4, BX-9: whatever its name."""
    parts = [f"{folder.rpartition('/')[0]}/{name}" for folder in INSTALLED for name in ("lib/x", "share/y")]
    fill(
        home,
        *parts,
        *(f"{folder}/tool" for folder in INSTALLED),
        "zig/zig",
        "zig/std/x.zig",
        "work/x",
        "bin/own",
        "lib/x",
    )
    path = ":".join(str(home / folder) for folder in (*INSTALLED, "zig", "bin"))
    made = zone(environ={"PATH": path})
    for name in (*parts, "zig/std/x.zig", "bin/own"):
        assert seen(made, home, [name]), name
    assert seen(made, home, ("work/x", "lib/x", ".nvm/alias/default")) == []


def test_variables_show_installations_and_packages_but_no_other_folder(zone, home):
    """RA-4, BX-9"""
    fill(
        home,
        ".nvm/versions/node/v20/bin/node",
        ".nvm/alias/x",
        "jdk/lib/x",
        "pyx/x.py",
        "tools/gcc/bin/gcc",
        "tools/gcc/y",
    )
    fill(home, "notes/x", "work/x", "work/other/bin/x", ".ssh/lib/x")
    (home / "tools" / "gcc" / "bin" / "gcc").chmod(0o755)
    named = {
        "PATH": f"/usr/bin:{home}/.nvm/versions/node/v20/bin",
        "NVM_DIR": f"{home}/.nvm",
        "ANY": f"{home}/jdk",
        "PYTHONPATH": f"{home}/pyx",
        "CC": f"{home}/tools/gcc/bin/gcc",
        "NOTES": f"{home}/notes",
        "PWD": f"{home}/work/other",
        "HOME": str(home),
        "XDG_CONFIG_HOME": f"{home}/.config",
        "SSH_DIR": f"{home}/.ssh",
    }
    made = zone(environ=named)
    shown = (".nvm/alias/x", "jdk/lib/x", "pyx/x.py", "tools/gcc/y")
    assert seen(made, home, (*shown, "notes/x", "work/x", "work/other/bin/x", ".ssh/lib/x")) == list(shown)


def test_settings_of_tools_are_hidden_if_they_hold_a_secret(zone, home):
    """BX-9, RA-14: and credential files in readable folders always."""
    fill(home, ".cargo/bin/cargo", ".cargo/credentials.toml", ".gem/credentials", ".npm/x", ".new/bin/tool")
    keys = (".dotnet/corefx/x509stores/my/x.pfx", ".julia/servers/x/auth.toml", ".local/share/uv/credentials/x")
    fill(home, *keys)
    logins = {
        ".m2/settings.xml": "<server><password>hunter2hunter2</password></server>",
        ".condarc": "channels: [https://ann:hunter2hunter2@conda.example/x]\n",
        ".config/pip/pip.conf": "[global]\nindex-url = https://ann:hunter2hunter2@x.example\n",
        ".yarnrc-work.yml": "npmAuthToken: hunter2hunter2\n",
        ".bundle/config": "BUNDLE_GEMS__EXAMPLE__TOKEN: hunter2hunter2\n",
        ".nuget/NuGet/NuGet.Config": "<x><password>hunter2hunter2</password></x>",
        ".cargo/config.toml": '[registries.x]\ntoken = "hunter2hunter2"\n',
        ".new/config.yml": "access_token: hunter2hunter2\n",
        ".gem/conf/x.ini": "[a]\npassword=hunter2hunter2\n",
        ".composer/auth.json": '{"http-basic": {"x": {"username": "ann", "password": "hunter2hunter2"}}}',
        ".config/NuGet/NuGet.Config": '<add key="ClearTextPassword" value="hunter2hunter2" />',
        ".gradle/init.d/x.gradle": "maven { credentials { username 'ann'; password 'hunter2hunter2' } }",
        ".hex/hex.config": '{api_key,<<"hunter2hunter2">>}.',
        ".yarnrc": '"//r.example/:_authToken" "hunter2hunter2"\n',
        ".bazelrc": "build --remote_header=x-api-key=hunter2hunter2\n",
        ".pip/pip.conf": "[global]\nindex-url = https://hunter2hunter2hunter2@x.example\n",
        ".gem/x/config": 'BUNDLE_GEMS__EXAMPLE__COM: "ann:hunter2hunter2"\n',
    }
    fill(home, *(f".new/{number}/x" for number in range(600)), *logins)
    for name, text in logins.items():
        (home / name).write_text(text)
    plain = {
        ".config/uv/uv.toml": 'index-url = "https://ann@x.example"\nkeyring-provider = "subprocess"\n',
        ".gradle/init.d/y.gradle": "maven { credentials { password = findProperty('repoPassword') } }",
        ".gradle/init.d/z.gradle": "maven { credentials { username u; password System.getenv('CORP_PASSWORD') } }",
        ".yarnrc.yml": "yarnPath: .yarn/releases/yarn-4.1.0.cjs\n",
        ".nuget/config": '<add key="globalPackagesFolder" value="packages-of-all" />',
        ".new/env.sh": 'curl --header "Authorization: ${header}" "$url"\n',
    }
    for name, text in plain.items():
        fill(home, name)
        (home / name).write_text(text)
    made = zone(environ={"PATH": f"{home}/.new/bin"})
    assert seen(made, home, plain) == list(plain)
    assert seen(made, home, (*logins, ".cargo/credentials.toml", ".gem/credentials", *keys)) == []
    assert len(seen(made, home, (".cargo/bin/cargo", ".npm/x", ".new/bin/tool"))) == 3


def test_what_the_users_settings_show_is_shown_without_its_secrets(zone, home, root, tmp_path):
    """BX-9: nor is a home shown whole, or a folder that is hidden for another reason."""
    fill(home, "data/x.csv", "data/a/b/.env", "data/key.pem", ".newcli/y", ".ssh/id_rsa", "work/z", "private/login")
    fill(tmp_path.resolve(), "elsewhere/x")
    opened = (home / "data", home / ".newcli", home / ".ssh", home, home.parent, tmp_path.resolve() / "elsewhere")
    made = zone(opened=(*opened, home / "private"), private=(home / "private",))
    names = ("data/x.csv", ".newcli/y", "data/a/b/.env", "data/key.pem", ".ssh/id_rsa", "work/z", "private/login")
    assert seen(made, home, names) == ["data/x.csv", ".newcli/y"]
    assert tmp_path.resolve() / "elsewhere" in made.readable


def test_a_link_to_a_readable_folder_of_a_home_is_followed_unless_an_agent_could_have_placed_it(zone, root, home):
    """BX-9, RA-14: of a workspace, only an installed Python and a package with the link's name are shown."""
    fill(home, ".dotfiles/condarc", ".ssh/config", "secret/bin/python", "secret/x", "lib/js/i.js", "private/i.js")
    fill(home, "py/bin/python3.12", "py/lib/python3.12/os.py", "py3/bin/python3", "py3/lib/python3/os.py")
    fill(root, ".tox/py3/pyvenv.cfg", ".tox/py3/bin/x")
    (root / ".tox" / "py3" / "bin" / "python").symlink_to(home / "py3" / "bin" / "python3")
    (home / ".condarc").symlink_to(".dotfiles/condarc")
    (home / ".cargo").symlink_to(".ssh")
    (home / "lib" / "js" / "package.json").write_text('{"name": "@own/js"}')
    (home / "private" / "package.json").write_text('{"name": "private"}')
    fill(root, "node_modules/@own/x", ".venv/pyvenv.cfg", "planted/pyvenv.cfg", ".venv/bin/x", "planted/bin/x")
    (root / ".venv" / "bin" / "python").symlink_to(home / "py" / "bin" / "python3.12")
    (root / "planted" / "bin" / "python").symlink_to(home / "secret" / "bin" / "python")
    (root / "planted" / "pyvenv.cfg").write_text(f"home = {home}/secret/bin\n")
    (root / "node_modules" / "@own" / "js").symlink_to(home / "lib" / "js")
    (root / "node_modules" / "other").symlink_to(home / "private")
    (root / "link").symlink_to(home / "secret")
    environ = {"PATH": f"{root}/link/bin:{root}/planted/bin", "VIRTUAL_ENV": f"{root}/link"}
    made = zone(environ=environ, searched=(root,))
    names = (".condarc", ".dotfiles/condarc", "py/lib/python3.12/os.py", "py3/lib/python3/os.py", "lib/js/i.js")
    assert seen(made, home, (*names, ".ssh/config", "secret/x", "private/i.js")) == list(names)
    around = workspace_profile(SandboxInputs(root=home.parent, home=home, temporary=home.parent / "t"), {})
    assert home / ".dotfiles" / "condarc" not in around.readable


def test_rubbish_shows_nothing_and_stops_nothing(zone, root, home):
    """BX-9: an agent writes the files of a workspace, anything the variables."""
    fill(home, "tools/bin/tool", "tools/bin/script", "tools/bin/binary", "package/x", "closed/x/y", "d/x")
    (home / "tools" / "bin" / "script").write_bytes(b"#!/\0x\n")
    (home / "tools" / "bin" / "binary").write_bytes(b"#!" + bytes(range(256)))
    (home / "tools" / "bin" / "link").symlink_to("/" + "y" * 300)
    (home / "loop").symlink_to("loop")
    (home / "closed").chmod(0)
    fill(root, "a/pyvenv.cfg", "b/pyvenv.cfg", "node_modules/x", "c/x")
    (root / "a" / "pyvenv.cfg").write_bytes(b"home = /\0\nhome\nhome =\nhome = relative\n")
    (root / "b" / "pyvenv.cfg").write_text(f"home = /{'x' * 300}\nhome = {home}/{'x' * 5000}\nhome = {home}/closed/x\n")
    (root / "node_modules" / "package").symlink_to(home / "package")
    (home / "package" / "package.json").write_text("[" * 60_000)
    for place in (
        home / "tools" / "bin" / "pipe",
        home / "tools" / "pipe.conf",
        home / ".condarc",
        root / "c" / "pyvenv.cfg",
    ):
        os.mkfifo(place)
    named = {
        "PATH": f"{home}/tools/bin:{home}/loop:.::{home}/{'z' * 300}/bin",
        "A_HOME": f"{home}/closed/x:{home}/{'z' * 5000}",
    }
    try:
        assert seen(zone(environ=named, searched=(root,)), home, ("tools/bin/tool", "package/x", "d/x")) == [
            "tools/bin/tool"
        ]
    finally:
        (home / "closed").chmod(0o755)


def test_a_home_that_is_a_checkout_is_not_shown_to_work_in_it(zone, home):
    """BX-9: as one with `.git` for its dot files."""
    fill(home, "Documents/x")
    assert seen(zone(searched=(home,), shown=(home,)), home, ["Documents/x"]) == []


GIT_LOGINS = """[url "https://ann:hunter2hunter2@git.example/"]
	insteadOf = "x:"
[http "https://git.example"]
	extraHeader = "T: hunter2"
[alias]
	s = "status --porcelain"
[core]
	excludesFile = ~/ignored
"""


@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_programs_of_a_home_run_with_their_links_and_git_without_its_logins(root, home, tmp_path, level, monkeypatch):
    """RA-4, BX-9: the links to them exist, too."""
    if level == "landlock" and landlock.unsupported_reason():
        pytest.skip("there is no Landlock")
    program = asyncio.run(bubblewrap_or_skip()).program if level == "bubblewrap" else ""
    make_repository(root)
    venv = home / ".local/share/pipx/venvs/app"
    for name, text in {
        f"{venv}/bin/app": f"#!{venv}/bin/python\n",
        f"{venv}/pyvenv.cfg": "",
        ".local/state/profile-1/bin/tool": "#!/bin/sh\necho tool\n",
        "py-3.12/bin/python3.12": "#!/bin/sh\necho base\n",
        "py-3.12/lib/python3.12/os.py": "",
        "ignored": "*.log\n",
        ".gitconfig": GIT_LOGINS,
        "Documents/x": "hunter2",
        ".local/bin/x": "",
    }.items():
        fill(home, name)
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    (home / "py").symlink_to("py-3.12")
    (venv / "bin" / "python").symlink_to(home / "py" / "bin" / "python3.12")
    (home / ".local" / "bin" / "app").symlink_to(venv / "bin" / "app")
    (home / ".profile-now").symlink_to(".local/state/profile-1")
    monkeypatch.setenv("HOME", str(home))
    environ = {"HOME": str(home), "PATH": f"{home}/.local/bin:{home}/.profile-now/bin:{os.environ['PATH']}"}
    inputs = SandboxInputs(root=root, home=home, temporary=tmp_path / "t" / "temporary", searched=(root,))
    spec = asyncio.run(build_sandbox_spec(SandboxSettings(), inputs, environ, cache=tmp_path / "level"))
    reading = f"(git config --list; cat {home}/Documents/x {home}/.gitconfig) | grep -c hunter2"
    running = run_command(
        ["bash", "-c", f"app; tool; touch a.log b; git s; {reading}"],
        cwd=root,
        env=environ,
        timeout_s=30,
        containment=Containment(sandbox=structs.replace(spec, level=level, program=program)),
    )
    finished = asyncio.run(running)
    assert finished.stdout == b"base\ntool\n?? b\n0\n", finished.stderr


PLAIN = {
    "credential.https://git.example.helper": "!gh auth git-credential",
    "user.signingkey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3 ann@home",
    "url.ssh://git@git.example/.insteadof": "https://git.example/",
    "http.proxy": "http://proxy:8080",
    "github.user": "ann",
    "alias.odd": 'log "a\\b" # \t;',
}
LOGINS = {
    "url.https://ann:hunter2@git.example/.insteadof": "x:",
    "url.https://hunter2@git.example/.insteadof": "y:",
    "http.https://git.example.extraheader": "Any: hunter2",
    "github.token": "hunter2",
    "sendemail.smtppass": "hunter2",
    "http.proxy": "http://ann:hunter2@proxy",
    "alias.up": "!curl -H 'Authorization: Bearer hunter2hunter2hunter2hunter2' git.example",
}


def test_only_logins_are_left_out_of_gits_settings(home):
    """BX-9, RA-4: without one, git reads the user's own files."""
    (home / "own").write_text("")
    entries = [ConfigEntry(name, value, home / "own") for name, value in PLAIN.items()]
    assert shown_git_settings(entries, home, home / "copy") == ((home / "own",), (), {})
    logins = [ConfigEntry(name, value, home / "own") for name, value in LOGINS.items()]
    copied = ([], [home / "own"], {"GIT_CONFIG_GLOBAL": home / "copy"})
    assert shown_git_settings([*entries, *logins], home, home / "copy") == copied
    listed = git(home, "config", "--file", "copy", "--list", "-z")
    assert dict(each.split("\n", 1) for each in listed.split("\0") if each) == PLAIN
    for name, value in LOGINS.items():
        alone = shown_git_settings([ConfigEntry(name, value, home / "own")], home, home / "copy")
        assert alone[2], name


def test_a_program_that_is_linked_later_from_a_folder_of_the_system_is_shown(zone, home, tmp_path):
    """AL-9: what such a folder links is kept, and read again once something in it has changed."""
    system = tmp_path.resolve() / "system"
    system.mkdir()
    fill(home, ".tool/bin/first", ".late/bin/second")
    (system / "first").symlink_to(home / ".tool/bin/first")
    names = [".tool/bin/first", ".late/bin/second"]
    assert seen(zone({"PATH": str(system)}), home, names) == names[:1]
    (system / "second").symlink_to(home / ".late/bin/second")
    assert seen(zone({"PATH": str(system)}), home, names) == names
