"""Real node test runner, jest and vitest, if available."""

import os
from pathlib import Path

import pytest

from builders import needs
from integration.verify.builders import run_gate_once, write_files
from scaffold.core.proof.gates import Gate
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import run_command

TESTS = """
{header}
describe("cart", () => {{
  test("adds", () => {{ expect(1 + 1).toBe(2) }})
  test("sums", () => {{ expect(1 + 1).toBe(3) }})
  test.skip("waits", () => {{}})
}})
"""
HEADERS = {"jest": "", "vitest": "import { describe, expect, test } from 'vitest'"}


@pytest.fixture(params=["jest", "vitest"])
async def installed(request, tmp_path):
    """A folder with a runner in it, and the runner's name."""
    return await _with_runner(tmp_path, request.param), request.param


async def _with_runner(place: Path, runner: str) -> Path:
    """Return a folder in which npm has installed the runner, of any version that is given."""
    folder = write_files(place, {"package.json": _manifest(runner.partition("@")[0])})
    words = ["npm", "install", "--no-audit", "--no-fund", "--save-dev", runner]
    npm = await run_command(words, cwd=folder, env=child_environment(os.environ), timeout_s=100)
    if npm.exit_code != 0:
        last = npm.stderr.decode(errors="replace").strip().splitlines()[-1:]
        pytest.skip(f"`{' '.join(words)}` failed with exit code {npm.exit_code}: {''.join(last)}")
    return folder


def _manifest(runner: str) -> str:
    return f'{{"name": "shop", "version": "1.0.0", "scripts": {{"test": "{runner}"}}}}'


async def _shown(folder: Path, runner, **options):
    gate = Gate(kind="test", command="npm run test", runner=runner)
    return await run_gate_once(folder, gate, timeout_s=100, **options)


@pytest.mark.slow
@needs("npm")
@pytest.mark.timeout(500)
async def test_outcomes_are_those_of_the_runners_own_report(installed):
    """BX-4: typed outcomes per test, by stable names."""
    folder, runner = installed
    source = TESTS.format(header=HEADERS[runner])
    none = await _shown(folder, runner)
    assert (none.problem, dict(none.outcomes)) == ("vacuous", {}), none.detail
    write_files(folder, {"src/cart.test.js": source, "src/other.test.js": source})
    some = await _shown(folder, runner, only=("src/cart.test.js > cart > adds",))
    assert (some.problem, dict(some.outcomes)) == (None, {"src/cart.test.js > cart > adds": "passed"}), some.detail
    whole = await _shown(folder, runner)
    assert whole.problem is None, whole.detail
    assert dict(whole.outcomes) == {
        f"src/{file}.test.js > cart > {test}": outcome
        for file in ("cart", "other")
        for test, outcome in (("adds", "passed"), ("sums", "failed"), ("waits", "skipped"))
    }
    write_files(folder, {"src/other.test.js": "import './nothing-like-it.js'\n"})
    broken = await _shown(folder, runner)
    others = {name: outcome for name, outcome in whole.outcomes.items() if name.startswith("src/cart")}
    assert (broken.problem, dict(broken.outcomes)) == ("error", {**others, "src/other.test.js": "error"}), broken.detail


MOCHA = """
const assert = require("assert")
{header}
describe("cart", function () {{
  it("adds", function () {{ assert.equal(1 + 1, 2) }})
  it("sums", function () {{ assert.equal(1 + 1, 3) }})
  it.skip("waits", function () {{}})
}})
describe("till", function () {{
  before("opens", function () {{ throw new Error("it is stuck") }})
  it("rings", function () {{}})
}})
"""


@pytest.mark.slow
@needs("npm")
@pytest.mark.timeout(500)
@pytest.mark.parametrize(("version", "hooked"), [("3", ""), ("latest", ' for "rings"')])
async def test_outcomes_of_mocha_are_those_that_it_tells_our_reporter(tmp_path, version, hooked):
    """BX-4: per test and failed hook; a file that cannot be loaded, or that ends the run, leaves no result."""
    folder = await _with_runner(tmp_path, f"mocha@{version}")
    none = await _shown(folder, "mocha")
    assert none.problem in {"vacuous", "error"}, none.detail
    write_files(folder, {"test/cart.js": MOCHA.format(header="")})
    whole = await _shown(folder, "mocha")
    assert (whole.problem, dict(whole.outcomes)) == (
        None,
        {
            "test/cart.js > cart > adds": "passed",
            "test/cart.js > cart > sums": "failed",
            "test/cart.js > cart > waits": "skipped",
            f'test/cart.js > till > "before all" hook: opens{hooked}': "failed",
        },
    ), whole.detail
    assert "it is stuck" in whole.detail
    one = await _shown(folder, "mocha", only=("test/cart.js > cart > adds",))
    assert (one.problem, dict(one.outcomes)) == (None, {"test/cart.js > cart > adds": "passed"}), one.detail
    write_files(folder, {"test/cart.js": MOCHA.format(header="assert.equal = () => {}")})
    replaced = await _shown(folder, "mocha")
    assert (replaced.problem, replaced.replaced) == (None, ("assert.equal",)), replaced.detail
    write_files(folder, {"test/other.js": "require('./nothing-like-it.js')\n"})
    assert (await _shown(folder, "mocha")).problem == "error"
    write_files(folder, {"test/other.js": "after(function () { process.exit(0) })\n"})
    assert (await _shown(folder, "mocha")).problem == "error"


CART = "test/cart.test.js > cart"
OWN = """
const {{ describe, test }} = require("node:test")
const assert = require("node:assert")
{header}
describe("cart", () => {{
  test("adds", () => assert.equal(1 + 1, 2))
  test("sums", () => assert.equal(1 + 1, {sum}))
}})
"""


@needs("npm")
@pytest.mark.slow
async def test_nodes_own_runner_is_called_through_npm(tmp_path):
    """BX-4: per test; a module that ends the run early leaves tests without a report."""
    folder = write_files(tmp_path / "a shop", {"package.json": _manifest("node --test")})
    write_files(folder, {"test/cart.test.js": OWN.format(header="", sum=3)})
    some = await _shown(folder, "node")
    assert (some.problem, dict(some.outcomes)) == (
        None,
        {f"{CART}{name}": outcome for name, outcome in ((" > adds", "passed"), (" > sums", "failed"), ("", "failed"))},
    ), some.detail
    write_files(folder, {"test/cart.test.js": OWN.format(header="process.exit(0)", sum=2)})
    early = await _shown(folder, "node")
    assert not {f"{CART} > adds", f"{CART} > sums"} & set(early.outcomes), early.detail


@needs("npm")
@pytest.mark.slow
async def test_replaced_assertions_of_node_are_recorded(tmp_path):
    """BX-4: in any process of the run; not those that are restored."""
    folder = write_files(tmp_path / "a shop", {"package.json": _manifest("node --test")})
    write_files(folder, {"a.test.js": 'require("assert").equal = () => {}; require("node:test")("a", () => {})\n'})
    write_files(
        folder,
        {
            "b.test.js": 'const assert = require("assert"); require("node:test")("b", (t) => {\n'
            '  t.mock.method(assert, "ok", () => {}); assert.ok(0)\n})\n'
        },
    )
    shown = await _shown(folder, "node")
    assert (shown.problem, shown.replaced) == (None, ("assert.equal",)), shown.detail


KNOWN_BUG = "require('node:test')('known bug', () => { if (BAD) throw new Error('it is back'); });\n"


@pytest.mark.slow
@needs("node")
async def test_a_new_test_with_the_title_of_a_failing_one_is_told_from_it(tmp_path):
    """BX-4: honest work is not refused for a failure that was there before."""
    gate = Gate(kind="test", command="node --test", runner="node")
    folder = write_files(tmp_path, {"test/old.test.js": KNOWN_BUG.replace("BAD", "true")})
    before = await run_gate_once(folder, gate)
    write_files(folder, {"test/new.test.js": KNOWN_BUG.replace("BAD", "false")})
    after = await run_gate_once(folder, gate)
    assert dict(before.outcomes) == {"test/old.test.js > known bug": "failed"}
    assert dict(after.outcomes) == {"test/new.test.js > known bug": "passed", "test/old.test.js > known bug": "failed"}


@needs("node")
async def test_files_without_tests_have_the_same_name_in_each_checkout(tmp_path):
    """BX-4: Node counts each as a test."""
    gate = Gate(kind="test", command="node --test", runner="node")
    folder = write_files(tmp_path, {"test/helper.js": "exports.same = 1;\n", "test/broken.js": "throw new Error();\n"})
    shown = await run_gate_once(folder, gate)
    assert dict(shown.outcomes) == {"test/helper.js": "passed", "test/broken.js": "failed"}
