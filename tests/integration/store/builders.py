"""Builders for tests of the store: connections or processes that act at the same time."""

import os
import subprocess  # noqa: TID251 - the tests are about other processes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from scaffold.core.errors import ScaffoldError
from scaffold.store.database import Store
from scaffold.store.driver.location import StoreLocation
from support.fake_clock import FakeClock

BESIDE_TESTS = {"PYTHONPATH": str(Path(__file__).parents[2]), "SCAFFOLD_HOME": os.environ["SCAFFOLD_HOME"]}


def race(place: StoreLocation, refusal: type[ScaffoldError], change: Callable[[Store, int], Any]) -> list[Any]:
    """Return what four connections at once get from a change; None from each that is refused."""

    def take_part(number: int) -> Any:
        with closing(Store.open(place, clock=FakeClock())) as mine:
            try:
                with mine.transaction():
                    return change(mine, number)
            except refusal:
                return None

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(take_part, range(1, 5)))


def end_together(*commands: Sequence[str]) -> list[int]:
    """Start commands that wait for a line, let them go on at once, and return their exit codes."""
    children = [subprocess.Popen(each, stdin=subprocess.PIPE, env=BESIDE_TESTS, text=True) for each in commands]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        with child:
            child.communicate(timeout=60)
    return [child.returncode for child in children]
