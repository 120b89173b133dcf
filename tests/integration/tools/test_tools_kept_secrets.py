"""Stored output contains no secret."""

import sys

import pytest

from scaffold.policy.secret.redaction import Redactor
from scaffold.tools.command.shell import python, shell
from scaffold.tools.command.spooled_output import CommandSpec, run_spooled
from scaffold.tools.workspace import Workspace

SECRET = "canary-7f3e6a1d"
REDACTOR = Redactor({"MY_TOKEN": SECRET})
NOISE = "x" * 99 + "\n"


def kept(folder):
    return [path.read_bytes() for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("lines", [1_000, 30_000])
async def test_a_secret_in_long_output_is_not_written_to_disk(tmp_path, lines):
    """BX-9: at any position; the rest is stored byte by byte, even if it is binary."""
    program = f"import sys; w = sys.stdout.buffer.write; [w(b'{SECRET} \\xff\\n' + b'x' * 99) for _ in range({lines})]"
    command = CommandSpec(
        argv=[sys.executable, "-c", program],
        cwd=tmp_path,
        env={},
        timeout_s=60,
        outputs=tmp_path / "out",
        clean=REDACTOR.clean,
    )
    output = await run_spooled(command)
    assert output.finished.exit_code == 0
    assert kept(tmp_path / "out") == [(b"[redacted:MY_TOKEN] \xff\n" + b"x" * 99) * lines]


async def test_output_without_secrets_is_stored_unchanged(tmp_path):
    """RA-4: nothing is written twice, and only the file is left."""
    argv = [sys.executable, "-c", f"print({NOISE!r} * 1000, end='')"]
    command = CommandSpec(argv=argv, cwd=tmp_path, env={}, timeout_s=60, outputs=tmp_path / "out", clean=REDACTOR.clean)
    output = await run_spooled(command)
    assert len(output.kept) == 1
    assert kept(tmp_path / "out") == [NOISE.encode() * 1000]


async def test_tools_that_run_commands_store_no_secret(tmp_path):
    """BX-9: shell and python; their answers are redacted by the caller."""
    workspace = Workspace(tmp_path, {"PATH": "/usr/bin:/bin"}, redactor=REDACTOR)
    outputs = tmp_path / "out"
    await shell(workspace, outputs).run({"command": f"for n in $(seq 3000); do echo {SECRET}; done"})
    await python(workspace, outputs=outputs).run({"code": f"print('{SECRET}\\n' * 3000)"})
    files = kept(outputs)
    assert len(files) == 2
    assert all(data.count(b"[redacted:MY_TOKEN]") == 3000 and SECRET.encode() not in data for data in files)
