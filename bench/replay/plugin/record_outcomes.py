"""A pytest plugin that appends the outcome of each test to a file, for our own runs; any pytest can load it."""

import json
import os

_OUT = os.environ["BENCH_OUTCOMES"]


def pytest_runtest_logreport(report):  # noqa: ANN001, ANN201 - loaded by pytest of any version
    """Write a line for each phase that decides: the call, or a set-up or tear-down that did not pass."""
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        with open(_OUT, "a", encoding="utf-8") as file:  # noqa: PTH123 - by its absolute path
            file.write(json.dumps([report.nodeid, outcome]) + "\n")
