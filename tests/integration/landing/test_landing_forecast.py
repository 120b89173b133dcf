"""Forecasts of conflicts between candidates: what git cannot merge, and what is remembered."""

from pathlib import Path

import pytest

from builders import an_action, an_attempt
from scaffold.landing.queue.forecast import Forecaster


@pytest.fixture
async def candidates(harness):
    """A forecaster, its tip, and candidates that all change one line."""
    tip, attempts = await harness.sh("git rev-parse HEAD"), []
    for key in "abc":
        await harness.sh(f"git checkout -q --detach {tip}; sed -i s/two/{key}/ list; git commit -qam {key}")
        attempts.append(an_attempt(an_action(key), base_sha=tip, head_sha=await harness.sh("git rev-parse HEAD")))
    folder = harness.context.temporary_folder("run-1")
    return Forecaster(harness.context.git, folder=folder, is_union=lambda _: False, most=2), tip, attempts


async def lose_list(harness, attempt):
    """Delete the object of the file that an attempt changed."""
    name = await harness.sh(f"git rev-parse {attempt.head_sha}:list")
    objects = Path(await harness.sh("git rev-parse --path-format=absolute --git-path objects"))
    (objects / name[:2] / name[2:]).unlink()


async def test_a_pair_that_git_cannot_merge_conflicts_and_the_others_are_forecast(harness, candidates):
    """BX-6, BX-3: a missing object is found out when its candidate lands, and does not end the queue before."""
    forecaster, tip, (a, b, c) = candidates
    await lose_list(harness, b)
    found = await forecaster.conflicts([a, b, c], tip)
    assert found == {one.id: {other.id: ("list",) for other in (a, b, c) if other.id != one.id} for one in (a, b, c)}
    assert await forecaster.between(a.head_sha, b.head_sha, tip, bases=(a.base_sha, b.base_sha)) == ()


async def test_pairs_that_are_still_asked_about_are_remembered(harness, candidates):
    """BX-6: what is forgotten first is what was not asked about for the longest time."""
    forecaster, tip, (a, b, c) = candidates

    async def between(one, other):
        return await forecaster.between(one.head_sha, other.head_sha, tip, bases=(one.base_sha, other.base_sha))

    for pair in ((a, b), (a, c), (a, b), (b, c)):
        assert await between(*pair) == ("list",)
    await lose_list(harness, a)
    assert (await between(a, b), await between(a, c)) == (("list",), ())
