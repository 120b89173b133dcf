"""What the owner of a run reads when it wakes up."""

from scaffold.orchestrator.owner.run_end import state_from_goals
from scaffold.orchestrator.owner.run_loop import RunOwner
from support.harness import act, goal
from support.task_engine import TaskEngine


class CountingDriver:
    """Counts the rows that a database returns."""

    def __init__(self, driver):
        self._driver = driver
        self.rows_read = 0

    def __getattr__(self, name):
        return getattr(self._driver, name)

    def rows(self, statement, values):
        found = self._driver.rows(statement, values)
        self.rows_read += len(found)
        return found


async def test_the_owners_reads_do_not_grow_with_open_attempts(harness):
    """BX-23: at each wake-up it asks whether to start, wake, wait or end."""
    keys = [f"a{n}" for n in range(12)]
    run = await harness.own(goal("g", *map(act, keys)), agents=20, goal_agents=20)
    owner = RunOwner(harness.context, run, TaskEngine(None, None))
    connection = harness.store._connection
    read = []
    for open_attempts in (2, 12):
        for key in keys[len(harness.store.attempts.open_of_run(run.id)) : open_attempts]:
            harness.claim(await harness.queue(run, key))
        owner._changes.read()
        connection.driver = counting = CountingDriver(connection.driver)
        owner._wake_goals()
        await owner._launcher.start_queued()
        await owner._queue.step()
        assert (state_from_goals(harness.store, run.id), owner._open_attempts()) == (None, (open_attempts, 0))
        connection.driver = counting._driver
        read.append(counting.rows_read)
    assert read[0] == read[1]
