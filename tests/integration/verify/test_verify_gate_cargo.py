"""Real cargo, if installed: packages of a workspace, each test identified by its file."""

import pytest

from builders import needs
from integration.verify.builders import run_gate_once, write_files
from scaffold.verify.gates.detection import detect_in_folder
from scaffold.verify.locate_tests import path_of_test

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200), needs("cargo")]

PACKAGE = '[package]\nname = "shop-{}"\nversion = "0.1.0"\nedition = "2021"\n'
CODE = "pub fn one() -> u8 { 1 }\n"
TESTED = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(super::one(), 1) }\n}\n"
SHOWN = (
    CODE
    + """\
#[cfg(test)]
mod tests {
    #[test]
    fn adds() { println!("test fake ... ok"); }
    #[test]
    fn fails() { println!("\\ntest fake ... ok\\n"); panic!("no"); }
    #[test]
    #[should_panic]
    fn panics() { panic!(); }
    #[test]
    #[ignore = "slow"]
    fn ignored() {}
}
"""
)
WORKSPACE = {
    "Cargo.toml": '[workspace]\nmembers = ["api", "till"]\nresolver = "2"\n',
    "api/Cargo.toml": PACKAGE.format("api"),
    "api/src/lib.rs": "/// ```\n/// assert_eq!(shop_api::one(), 1);\n/// ```\n" + SHOWN,
    "api/tests/flow.rs": "#[test]\nfn flows() { assert_eq!(shop_api::one(), 2) }\n#[test]\n#[ignore]\nfn waits() {}\n",
    "till/Cargo.toml": PACKAGE.format("till"),
    "till/src/lib.rs": CODE + TESTED,
}
OUTCOMES = {
    "api/src/lib.rs: tests::adds": "passed",
    "api/src/lib.rs: tests::fails": "failed",
    "api/src/lib.rs: tests::panics": "passed",
    "api/src/lib.rs: tests::ignored": "skipped",
    "api/tests/flow.rs: flows": "failed",
    "api/tests/flow.rs: waits": "skipped",
    "till/src/lib.rs: tests::adds": "passed",
}


async def test_tests_of_the_same_name_in_two_packages_are_distinct(tmp_path):
    """BX-4: typed outcomes per test; deleting one of them is not hidden by the other."""
    write_files(tmp_path, WORKSPACE)
    gate = next(gate for gate in detect_in_folder(tmp_path).gates if gate.kind == "test")
    whole = await run_gate_once(tmp_path, gate)
    ours = {name: outcome for name, outcome in whole.outcomes.items() if not name.startswith("Doc-tests")}
    assert (whole.problem, ours, len(whole.outcomes)) == (None, OUTCOMES, len(OUTCOMES) + 1), whole.detail
    assert {path_of_test(gate, name, WORKSPACE) for name in ours} <= set(WORKSPACE)
    one = await run_gate_once(tmp_path, gate, only=("till/src/lib.rs: tests::adds",))
    assert dict(one.outcomes) == {"till/src/lib.rs: tests::adds": "passed"}, one.detail
    fewer = await run_gate_once(write_files(tmp_path, {"till/src/lib.rs": CODE}), gate)
    assert OUTCOMES.keys() - fewer.outcomes.keys() == {"till/src/lib.rs: tests::adds"}, fewer.detail


async def test_a_package_that_does_not_build_is_an_error_with_the_reason(tmp_path):
    """BX-4: the compiler's messages are shown without cargo's machine-readable output."""
    write_files(tmp_path, {**WORKSPACE, "till/src/lib.rs": 'pub fn one() -> u8 { "no" }\n'})
    gate = next(gate for gate in detect_in_folder(tmp_path).gates if gate.kind == "test")
    found = await run_gate_once(tmp_path, gate)
    assert found.problem == "error"
    assert "mismatched types" in found.detail
    assert '"reason"' not in found.detail
