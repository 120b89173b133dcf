"""Services of a run's checks that somebody killed has left up; a stand-in for Docker begins and ends real servers."""

import pytest

from fakes import House, act, goal
from scaffold.core.gates import CheckEnvironment
from scaffold.verify.services import compose
from scaffold.verify.services.compose import Stack
from scaffold.verify.services.lines import Compose
from scaffold.worker.services import forget_services, services_of


@pytest.fixture
async def house(tmp_path, daemon, monkeypatch):
    monkeypatch.setenv("PATH", str(daemon.programs), prepend=":")
    made = await House.build(tmp_path)
    yield made
    made.store.close()


async def test_what_was_left_up_is_taken_down_though_the_settings_ask_for_it_no_more(house, daemon, port):
    """AL-9: whoever mends `services` after a kill and resumes has the containers of before gone at the end."""
    run = await house.own(goal("g", act("a")))
    means = services_of(house.site, run, CheckEnvironment(fingerprint="", services=(f"compose @{port}",))).means
    means.shared.mkdir(parents=True)
    assert await compose.checked_out(means) is None
    (means.folder / "compose.yaml").write_text(f"serve {port} hello\n")
    project = Stack(
        name=f"{means.name}_1",
        program=await compose.program(means),
        files=(),
        folder=str(means.folder),
        ports=(port,),
    )
    assert await compose.brought_up(means, Compose(files=(), names=(), ports=(port,)), project) is None
    assert (run.settings.services, daemon.up) == ((), [project.name])
    await forget_services(house.site, run)
    assert (daemon.up, compose.noted(means), means.folder.exists()) == ([], (), False)
