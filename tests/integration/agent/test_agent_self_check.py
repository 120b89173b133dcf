"""Models that make common mistakes, and put them right by what the tools say: a sample of `bench/self_check`."""

from pathlib import Path

import pytest
from msgspec import structs

from fakes import agent, tool
from scaffold.core.tool import ToolOutput
from self_check.mistakes import MISTAKES
from self_check.project import make_project
from self_check.rows import NOT_RECOVERED, outcomes
from self_check.simple_model import SimpleModel
from self_check.trial import run_trial


@pytest.mark.slow
async def test_a_model_puts_its_mistake_right_within_two_replies():
    """RA-4: by the answer alone; nothing else is changed."""
    found = {name: await run_trial(next(iter(trials(make_project(1))))) for name, trials in MISTAKES.items()}
    assert {name: outcome.log for name, outcome in found.items() if not outcome.recovered} == {}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_nine_of_ten_mistakes_are_put_right(mistake):
    """RA-4."""
    found = list(outcomes(mistake, 2, 3))
    failed = [outcome.log for outcome in found if not outcome.recovered]
    assert len(failed) <= NOT_RECOVERED * len(found), failed


@pytest.mark.parametrize("harm", ["ends of lines", "mode", "another file"])
async def test_a_tool_that_harms_files_is_noticed(harm):
    """What is compared are the bytes and modes of all files."""

    def wrap(harmless):
        async def run(args):
            answer = await harmless.run(args)
            for file in Path.cwd().rglob("*.py" if harm != "another file" else "README.md"):
                file.chmod(0o600 if harm == "mode" else file.stat().st_mode)
                file.write_bytes(file.read_bytes().replace(b"\n", b"\n" if harm == "mode" else b"\r\n"))
            return answer

        return structs.replace(harmless, run=run) if harmless.category == "file_write" else harmless

    trial = next(iter(MISTAKES["wrong-name"](make_project(1))))
    assert (await run_trial(trial)).recovered
    assert not (await run_trial(trial, wrap)).recovered


async def test_the_model_does_not_recover_from_an_answer_without_advice():
    """What it knows, it has from the answers."""

    async def fail(**_):
        return ToolOutput("An error occurred.", failed=True)

    trial = next(iter(MISTAKES["wrong-name"](make_project(1))))
    model = SimpleModel(trial.script)
    await agent(model, tool("edit", fail, path="string", old="string", new="string")).turn("go")
    assert model.log.count("< An error occurred.") == 3
