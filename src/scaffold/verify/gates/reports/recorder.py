"""Run pytest and unittest with our recorder inside, which writes a signed record."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from scaffold.verify.gates.injected import scaffold_recorder as recorder
from scaffold.verify.gates.reports.runner_result import (
    RunnerAdapter,
    RunnerCommand,
    RunnerEnv,
    RunnerExit,
    RunnerResult,
    unusable_result,
)
from scaffold.verify.gates.reports.signed_record import judge_older_record, judge_record, read_record, unfinished_tests
from scaffold.verify.gates.runner_detection import UNITTEST_MODULE

RECORDER_FOLDER = Path(recorder.__file__).resolve().parent


def _ask_pytest(command: str, env: RunnerEnv) -> RunnerCommand:
    options = f"{env.environ.get('PYTEST_ADDOPTS', '')} -p scaffold_pytest_recorder".strip()
    return _recorded_command(command, env, {"PYTEST_ADDOPTS": options})


def _ask_unittest(command: str, env: RunnerEnv) -> RunnerCommand:
    return _recorded_command(UNITTEST_MODULE.sub("scaffold_unittest_recorder", command), env, {})


def _recorded_command(command: str, env: RunnerEnv, options: Mapping[str, str]) -> RunnerCommand:
    # The recorder deletes the order file before any project code runs.
    key = secrets.token_bytes(32)
    paths = os.pathsep.join(filter(None, (str(RECORDER_FOLDER), env.environ.get("PYTHONPATH"))))
    variables = {"PYTHONPATH": paths, **options}
    order = {
        "key": key.hex(),
        "token": secrets.token_hex(8),
        "only": env.only,
        "repeat_s": env.repeat_s,
        "stand_ins": None if env.stand_ins is None else msgspec.to_builtins(env.stand_ins),
        # The recorder restores these, so that programs started by tests do not load it as well.
        "environ": {name: env.environ.get(name) for name in variables},
    }
    (env.folder / recorder.ORDER).write_text(json.dumps(order))
    return RunnerCommand(command=command, variables={**variables, recorder.FOLDER_VARIABLE: str(env.folder)}, key=key)


def _read_result(ended: RunnerExit) -> RunnerResult:
    lines = read_record(ended.env.folder, ended.command.key)
    if isinstance(lines, str):
        missing = b"No module named pytest" in ended.stderr
        return unusable_result(
            "error", "pytest is not installed here." if missing else f"{lines} (Exit code {ended.exit_code}.)"
        )
    if ended.env.stand_ins is not None:
        return judge_older_record(lines)
    return judge_record(lines, ended.exit_code, whole=ended.env.whole)


def _unfinished_tests(ended: RunnerExit) -> tuple[str, ...]:
    lines = read_record(ended.env.folder, ended.command.key)
    return () if isinstance(lines, str) else unfinished_tests(lines)


PYTEST = RunnerAdapter(
    build_command=_ask_pytest, read_report=_read_result, unfinished_tests=_unfinished_tests, selects_exactly=True
)
UNITTEST_ADAPTER = RunnerAdapter(
    build_command=_ask_unittest, read_report=_read_result, unfinished_tests=_unfinished_tests, selects_exactly=True
)
