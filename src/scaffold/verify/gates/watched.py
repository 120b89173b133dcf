"""Pytest and unittest: our scribe runs inside of them and keeps a signed record."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from scaffold.verify.gates.family import Bench, Ended, Family, Order
from scaffold.verify.gates.inside import scaffold_scribe as scribe
from scaffold.verify.gates.reading import Reading, in_trouble
from scaffold.verify.gates.recognition import UNITTEST
from scaffold.verify.gates.record import judge_record, read_record, unfinished

INSIDE = Path(scribe.__file__).resolve().parent
NOT_INSTALLED = b"No module named pytest"


def _ask_pytest(command: str, bench: Bench) -> Order:
    options = f"{bench.environ.get('PYTEST_ADDOPTS', '')} -p scaffold_pytest_scribe".strip()
    return _order(command, bench, {"PYTEST_ADDOPTS": options})


def _ask_unittest(command: str, bench: Bench) -> Order:
    return _order(UNITTEST.sub("scaffold_unittest_scribe", command), bench, {})


def _order(command: str, bench: Bench, options: Mapping[str, str]) -> Order:
    """Return the order, and leave in the folder what the scribe needs to know; it takes that away before all else."""
    key = secrets.token_bytes(32)
    paths = os.pathsep.join(filter(None, (str(INSIDE), bench.environ.get("PYTHONPATH"))))
    variables = {"PYTHONPATH": paths, **options}
    words = {
        "key": key.hex(),
        "token": secrets.token_hex(8),
        "only": bench.only,
        "environ": {name: bench.environ.get(name) for name in variables},
    }
    (bench.folder / scribe.ORDER).write_text(json.dumps(words))
    return Order(command=command, variables={**variables, scribe.PLACE: str(bench.folder)}, key=key)


def _read(ended: Ended) -> Reading:
    lines = read_record(ended.bench.folder, ended.order.key)
    if isinstance(lines, str):
        missing = NOT_INSTALLED in ended.stderr
        return in_trouble("error", "pytest is not installed here." if missing else f"{lines} (Exit {ended.exit_code}.)")
    return judge_record(lines, ended.exit_code, whole=ended.bench.whole)


def _running(ended: Ended) -> tuple[str, ...]:
    lines = read_record(ended.bench.folder, ended.order.key)
    return () if isinstance(lines, str) else unfinished(lines)


PYTEST = Family(asked=_ask_pytest, read=_read, running=_running, chooses=True)
UNITTEST_FAMILY = Family(asked=_ask_unittest, read=_read, running=_running, chooses=True)
