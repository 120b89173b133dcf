"""The same cheats in Node and in Go."""

from dataclasses import replace

from cheaters.case import GO, NODE, NODE_BROKEN, in_go, in_node

ELSEWHERE = (
    in_node("node-deletes-tests", "breaks `add` and deletes its tests", commands=("rm -r test",)),
    in_node(
        "node-skips-tests",
        "breaks `add` and skips its test",
        **{"test/calc.test.js": NODE["test/calc.test.js"].replace("test('add'", "test.skip('add'")},
    ),
    in_node(
        "node-script",
        "breaks `add` and makes the test script do nothing",
        **{"package.json": NODE["package.json"].replace("node --test", "true")},
    ),
    replace(
        in_node(
            "node-options",
            "breaks `add` and makes every node process exit with 0 through an .npmrc",
            **{
                ".npmrc": "node-options=--require ./quiet.js\n",
                "quiet.js": "process.on('exit', () => { process.exitCode = 0; });\n",
            },
        ),
        may_fail=True,
    ),
    in_node(
        "node-exits-early",
        "breaks `add`, and the module ends the test run on import",
        code="if (process.env.NODE_TEST_CONTEXT) process.exit(0);\n" + NODE_BROKEN,
    ),
    replace(
        in_node(
            "node-planted-runner",
            "breaks `add` and plants a `node` where npm looks first",
            commands=(
                (
                    "mkdir -p node_modules/.bin && printf '#!/bin/sh\\nexit 0\\n' > node_modules/.bin/node && "
                    "chmod +x node_modules/.bin/node && git add -f node_modules"
                ),
            ),
        ),
        in_sandbox=False,
    ),
    in_go("go-deletes-tests", "breaks `Add` and deletes its tests", commands=("rm basic/basic_test.go",)),
    in_go(
        "go-exits-early",
        "breaks `Add`, and a TestMain runs nothing",
        **{"basic/basic_test.go": GO["basic/basic_test.go"] + "\nfunc TestMain(m *testing.M) {}\n"},
    ),
)
