"""Paths that installers wrote down, rewritten for another location."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.verify.environment.provisioning import relocated_content, relocated_link

OLD, NEW = b"/cache/gold.checkout", b"/runs/a tree"
BY_SHELL = b"#!/bin/sh\n'''exec' \"" + NEW + b'/.venv/bin/python" "$0" "$@"\n\' \'\'\'\n'


def test_whole_paths_are_rewritten_and_scripts_find_their_interpreter():
    expected = {
        b"#!/cache/gold.checkout/.venv/bin/python\nimport x\n": BY_SHELL + b"import x\n",
        b"#!/cache/gold.checkout/.venv/bin/python\r\nimport x\n": BY_SHELL + b"import x\n",
        b"#!/bin/sh\n'''exec' /cache/gold.checkout/.venv/bin/python \"$0\" \"$@\"\n' '''\n": BY_SHELL,
        b"#!/bin/sh\n'''exec' \"/cache/gold.checkout/.venv/bin/python\" \"$0\" \"$@\"\n' '''\n": BY_SHELL,
        b"#!/bin/sh\necho /cache/gold.checkout/x": b"#!/bin/sh\necho /runs/a tree/x",
        b"VIRTUAL_ENV=/cache/gold.checkout/.venv\nexport x": b"VIRTUAL_ENV='/runs/a tree/.venv'\nexport x",
        b"set -gx VIRTUAL_ENV /cache/gold.checkout/.venv\n": b"set -gx VIRTUAL_ENV '/runs/a tree/.venv'\n",
        b"setenv VIRTUAL_ENV '/cache/gold.checkout/.venv'\n": b"setenv VIRTUAL_ENV '/runs/a tree/.venv'\n",
        b"VIRTUAL_ENV=/cache/gold.checkouts/.venv\n": b"VIRTUAL_ENV=/cache/gold.checkouts/.venv\n",
        b"#!/usr/bin/env python\nx": b"#!/usr/bin/env python\nx",
        b"/cache/gold.checkout/src\n": b"/runs/a tree/src\n",
        b'"/cache/gold.checkout"': b'"/runs/a tree"',
        b"file:///cache/gold.checkout": b"file:///runs/a tree",
        b"/cache/gold.checkout-2/x /cache/gold.checkouts": b"/cache/gold.checkout-2/x /cache/gold.checkouts",
        b"": b"",
    }
    assert {told: relocated_content(told, OLD, NEW) for told in expected} == expected


def test_interpreter_options_are_kept():
    moved = relocated_content(b"#!/cache/gold.checkout/bin/python -I -S\nx", OLD, NEW)
    assert moved.startswith(b"#!/bin/sh\n'''exec' \"/runs/a tree/bin/python\" -I -S \"$0\"")


@given(st.binary())
def test_files_without_the_old_path_are_unchanged(told):
    assert relocated_content(told, OLD, NEW) == told or OLD in told


def test_links_inside_the_checkout_stay_inside_and_others_stay_outside():
    expected = {
        ("", "../packages/own"): "../packages/own",
        (".bin/", "../eslint/bin.js"): "../eslint/bin.js",
        ("", "../../library"): "/made/library",
        ("@a/", "../../../library"): "/made/library",
        ("", "/made/for/packages/own"): "/top/packages/own",
        ("", "/made/for"): "/top",
        ("", "/made/for-other"): "/made/for-other",
        ("", "/made/for/../elsewhere"): "/made/for/../elsewhere",
        ("", "/usr/bin/node"): "/usr/bin/node",
        ("..", "../shared/node_modules"): "/made/shared/node_modules",
    }
    assert {
        (folder, leads): relocated_link("/made/for", "/top", "node_modules", folder, leads)
        for folder, leads in expected
    } == expected
