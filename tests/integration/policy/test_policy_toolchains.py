"""Toolchains as people have them in their homes: laid out as each one's own documentation says, with small scripts."""

import asyncio
import os
from pathlib import Path

import pytest
from msgspec import Struct, toml

from builders import bubblewrap_or_skip
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.policy.command_sandbox import SandboxInputs
from scaffold.policy.sandbox_profile import workspace_profile

SECRET = "hunter2hunter2"


class Toolchain(Struct):
    """One entry of `toolchains.toml`."""

    path: str
    command: str
    files: dict[str, str] = {}
    data: tuple[str, ...] = ()
    links: dict[str, str] = {}
    environ: dict[str, str] = {}
    secrets: dict[str, str] = {}


def laid_out(toolchain: Toolchain, home: Path) -> dict[str, str]:
    """Lay a toolchain out in a home and return the variables of a user who has it."""
    texts = {**dict.fromkeys(toolchain.data, "x"), **toolchain.files, **toolchain.secrets, "Documents/x": SECRET}
    for name, text in texts.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("~", str(home)))
        path.chmod(0o755 if name in toolchain.files else 0o644)
    for name, target in toolchain.links.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(target.replace("~", str(home)))
    folders = (os.path.normpath(home / each) for each in toolchain.path.split(":"))
    named = {name: value.replace("~", str(home)) for name, value in toolchain.environ.items()}
    return {"HOME": str(home), "PATH": ":".join((*folders, "/usr/bin", "/bin")), **named}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_toolchains_of_a_home_run_in_the_sandbox_as_outside_and_show_no_secret(level, tmp_path, monkeypatch):
    """RA-4, BX-9: by where PATH, links, scripts and variables lead, not by their names."""
    if level == "landlock" and landlock.unsupported_reason():
        pytest.skip("there is no Landlock")
    program = asyncio.run(bubblewrap_or_skip()).program if level == "bubblewrap" else ""
    wrong = {}
    toolchains = toml.decode(Path(__file__).with_name("toolchains.toml").read_bytes(), type=dict[str, Toolchain])
    for number, (name, toolchain) in enumerate(toolchains.items()):
        place = tmp_path.resolve() / str(number)
        root, home = place / "root", place / "home"
        root.mkdir(parents=True)
        home.mkdir()
        environ = laid_out(toolchain, home)
        monkeypatch.setenv("HOME", str(home))
        zone = workspace_profile(SandboxInputs(root=root, home=home, temporary=place / "t", disposable=True), environ)
        secrets = " ".join(f"'{home}/{each}'" for each in ("Documents/x", *toolchain.secrets))
        running = run_command(
            ["/bin/sh", "-c", f"{toolchain.command}; echo; cat {secrets} 2>/dev/null"],
            cwd=root,
            env=environ,
            timeout_s=60,
            containment=Containment(sandbox=SandboxSpec(level, zone, program=program)),
        )
        finished = asyncio.run(running)
        if finished.stdout != b"ok\n\n":
            wrong[name] = (finished.stdout, finished.stderr)
    assert wrong == {}
