"""Real Go, if installed: its reports, in a sandbox, without a network, by package."""

import zipfile

import pytest

from builders import needs
from integration.verify.builders import EnvironmentSetup, check_output, run_gate_once, write_files
from scaffold.core.proof.gates import Gate
from scaffold.verify.gates.detection import detect_in_folder
from scaffold.verify.gates.observed_run import run_gate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200), needs("go")]

GATE = Gate(kind="test", command="go test ./...", runner="go")
MANIFEST = "module example.org/shop\n\ngo 1.19\n"
SUM = """
package sum

import "testing"

func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal("no sum")
	}
}

func TestOld(t *testing.T) { t.Error("broken long since") }

func TestParts(t *testing.T) {
	t.Run("one two", func(t *testing.T) {})
	t.Run("three", func(t *testing.T) { t.Skip("later") })
}
"""
CART = 'package cart\n\nimport "example.org/shop/sum"\n\nfunc Twice(x int) int { return sum.Add(x, x) }\n'
SHOP = {
    "go.mod": MANIFEST,
    "sum/sum.go": "package sum\n\nfunc Add(x, y int) int { return x + y }\n",
    "sum/sum_test.go": SUM,
    "cart/cart.go": CART,
    "cart/cart_test.go": "",
}
OF_SUM = {
    "example.org/shop/sum.TestAdd": "passed",
    "example.org/shop/sum.TestOld": "failed",
    "example.org/shop/sum.TestParts": "passed",
    "example.org/shop/sum.TestParts/one_two": "passed",
    "example.org/shop/sum.TestParts/three": "skipped",
}
TWICE = "example.org/shop/cart.TestTwice"


def of_cart(body: str = "if Twice(2) != 4 { t.Fatal() }", *, more: str = "", imports: str = "") -> str:
    return f'package cart\n\nimport (\n\t"testing"\n{imports})\n\nfunc TestTwice(t *testing.T) {{ {body} }}\n{more}\n'


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A repository of two packages; each test writes the files it changes."""
    return tmp_path_factory.mktemp("shop")


async def shown(folder, *, only=(), timeout_s=60.0, **changed):
    files = {**SHOP, "cart/cart_test.go": of_cart(), **{f"cart/{name}.go": text for name, text in changed.items()}}
    return await run_gate_once(write_files(folder, files), GATE, only=only, timeout_s=timeout_s)


async def test_every_test_and_subtest_of_two_packages_is_reported(shop):
    """BX-4: typed outcomes per test, from `go test -json` itself; of a selection only their packages."""
    whole = await shown(shop)
    assert (whole.problem, dict(whole.outcomes)) == (None, {**OF_SUM, TWICE: "passed"}), whole.detail
    some = await shown(shop, only=("cart/cart_test.go",))
    assert (some.problem, dict(some.outcomes)) == (None, {TWICE: "passed"}), some.detail
    one = await shown(shop, only=("example.org/shop/sum.TestAdd",))
    assert dict(one.outcomes) == {"example.org/shop/sum.TestAdd": "passed"}, one.detail


@pytest.mark.parametrize(
    "changed",
    [
        {"cart": f'{CART}var x int = "no"\n'},
        {"cart_test": of_cart("no")},
        {"cart_test": "package cart\n\nfunc {"},
        {"cart_test": of_cart('t.Errorf("%d", "x")')},
    ],
    ids=["code", "tests", "syntax", "vet"],
)
async def test_a_package_that_does_not_build_is_an_error(shop, changed):
    """BX-4: whatever the other packages show; the compiler's messages are reported."""
    found = await shown(shop, **changed)
    assert (found.problem, "build failed: example.org/shop/cart" in found.detail) == ("error", True), found.detail
    assert "cart/cart" in found.detail


@pytest.mark.parametrize(
    ("changed", "outcomes"),
    [
        ({"cart_test": of_cart('panic("no")', more="func TestAfter(t *testing.T) {}")}, {TWICE: "failed"}),
        ({"cart_test": of_cart("os.Exit(0)", imports='\t"os"\n')}, {TWICE: "failed"}),
        ({"cart": f"{CART}func init() {{ panic(1) }}\n"}, {"example.org/shop/cart": "error"}),
        ({"cart_test": of_cart(imports='\t"os"\n', more="func TestMain(m *testing.M) { os.Exit(0) }")}, {}),
    ],
    ids=["a panic", "an exit", "a panic before", "a TestMain that runs nothing"],
)
async def test_tests_that_did_not_finish_have_not_passed(shop, changed, outcomes):
    """BX-4: a panic is a failure, and tests that did not run are not reported."""
    found = await shown(shop, **changed)
    assert (found.problem, dict(found.outcomes)) == (None, {**OF_SUM, **outcomes}), found.detail


async def test_a_hanging_test_is_named(shop):
    """BX-4: as `timeout`, with the running test."""
    found = await shown(shop, timeout_s=8, cart_test=of_cart("time.Sleep(time.Hour)", imports='\t"time"\n'))
    assert (found.problem, f"while running {TWICE}" in found.detail) == ("timeout", True), found.detail


async def test_packages_without_tests_are_vacuous(tmp_path):
    """BX-4: exit code 0 of nothing is no pass; a complaint of `go vet` is a finding."""
    code = 'package shop\n\nimport "fmt"\n\nfunc A() { fmt.Println("a") }\n'
    none = await run_gate_once(write_files(tmp_path, {"go.mod": MANIFEST, "a.go": code}), GATE)
    assert (none.problem, dict(none.outcomes)) == ("vacuous", {}), none.detail
    vet = next(gate for gate in detect_in_folder(tmp_path).gates if gate.kind == "lint")
    clean = await run_gate_once(tmp_path, vet)
    assert (clean.problem, dict(clean.outcomes)) == (None, {}), clean
    found = await run_gate_once(write_files(tmp_path, {"a.go": code.replace('Println("a"', 'Printf("%d", "a"')}), vet)
    assert [name.partition(":")[0] for name in found.outcomes] == ["a.go"], found


@pytest.fixture(params=[False, True], ids=["free", "in a sandbox"])
def project(harness, tmp_path, request):
    return EnvironmentSetup(harness, tmp_path, sandboxed=request.param)


async def test_modules_are_fetched_once_and_found_without_a_network(project, tmp_path):
    """AL-9: checks read them where setup put them, and build in a cache inside the sandbox."""
    publish(project.repo / "proxy")
    local = 'export GOPROXY="file://$PWD/proxy" GONOSUMDB="*" GOSUMDB=off'
    uses = 'package cart\n\nimport "example.org/far"\n\nfunc Twice(x int) int { return far.Two() * x }\n'
    files = {
        "go.mod": f"{MANIFEST}\nrequire example.org/far v1.0.0\n",
        "cart/cart.go": uses,
        "cart/cart_test.go": of_cart(),
    }
    write_files(project.repo, files)
    await project.harness.sh(f"{local} GOMODCACHE='{tmp_path}/aside' GOFLAGS=-modcacherw; go mod tidy && git add --all")
    await project.commit({})
    environment = await project.prepared(f"{local}; go mod download")
    async with project.tree(environment) as tree:
        assert await check_output(tree, "go env GOPROXY") == "off"
        found = await run_gate(GATE, tree, environment="here", timeout_s=60)
        assert (found.problem, dict(found.outcomes)) == (None, {TWICE: "passed"}), found.detail
        assert await check_output(tree, "git status --porcelain") == ""


def publish(proxy):
    """Write the files of a module proxy: one module with one version."""
    folder, manifest = proxy / "example.org/far/@v", "module example.org/far\n\ngo 1.19\n"
    write_files(folder, {"list": "v1.0.0\n", "v1.0.0.info": '{"Version":"v1.0.0"}', "v1.0.0.mod": manifest})
    with zipfile.ZipFile(folder / "v1.0.0.zip", "w") as archive:
        archive.writestr("example.org/far@v1.0.0/go.mod", manifest)
        archive.writestr("example.org/far@v1.0.0/far.go", "package far\n\nfunc Two() int { return 2 }\n")
