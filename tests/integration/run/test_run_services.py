"""Services that a killed process left running; a fake Docker starts and ends real servers."""

import pytest

from scaffold.core.proof.gates import CheckEnvironment
from scaffold.run.resources.sandbox import check_services, stop_leftover_services
from scaffold.verify.services import compose
from scaffold.verify.services.compose import ComposeProject
from scaffold.verify.services.specs import ComposeSpec
from support.harness import Harness, act, goal


@pytest.fixture
async def harness(tmp_path, docker, monkeypatch):
    monkeypatch.setenv("PATH", str(docker.programs), prepend=":")
    made = await Harness.build(tmp_path)
    yield made
    made.store.close()


async def test_leftover_services_are_stopped_even_if_no_longer_configured(harness, docker, port):
    """AL-9: after a change of `services` and a resume, the old containers are gone at the end."""
    run = await harness.own(goal("g", act("a")))
    means = check_services(
        harness.context, run, CheckEnvironment(fingerprint="", services=(f"compose @{port}",))
    ).compose_context
    means.shared.mkdir(parents=True)
    assert await compose.check_out_files(means) is None
    (means.folder / "compose.yaml").write_text(f"serve {port} hello\n")
    project = ComposeProject(
        name=f"{means.name}_1",
        program=await compose.find_compose(means),
        files=(),
        folder=str(means.folder),
        ports=(port,),
    )
    assert await compose.start_project(means, ComposeSpec(files=(), names=(), ports=(port,)), project) is None
    assert (run.settings.environment.services, docker.up) == ((), [project.name])
    await stop_leftover_services(harness.context, run)
    assert (docker.up, compose.recorded_projects(means), means.folder.exists()) == ([], (), False)
