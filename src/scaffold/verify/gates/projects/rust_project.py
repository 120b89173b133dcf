"""Detect the gates of a Rust package or workspace."""

import re

from scaffold.core.proof.gates import Gate
from scaffold.verify.gates.projects.project import Project, Reason
from scaffold.verify.gates.projects.project_files import ProjectFiles

MANIFEST = "Cargo.toml"
DEPENDENCIES = ("dependencies", "dev-dependencies", "build-dependencies", "workspace")

_TEST = re.compile(r"#\[(cfg\(test\)|(\w+::)?test\b)")


def read_rust(files: ProjectFiles) -> Project:
    """Return the gates and the set-up of the Rust package or workspace in a folder."""
    manifest = files.toml(MANIFEST)
    locked = " --locked" if files.has("Cargo.lock") else ""
    every = " --workspace" if "workspace" in manifest else ""
    package = Reason(MANIFEST, "is a Rust package", files.line(MANIFEST, "[package]"))
    if every:
        package = Reason(MANIFEST, "is a Rust workspace", files.line(MANIFEST, "[workspace"))
    lint = f"cargo clippy{every} --message-format short -- -D warnings"
    gates = [Gate(kind="build", command=f"cargo build{every}"), Gate(kind="lint", command=lint, runner="findings")]
    reasons = {gate.name: package for gate in gates}
    if test := _first_test(files):
        gates.insert(0, Gate(kind="test", command=f"cargo test{every}", runner="cargo"))
        reasons["test"] = test
    needed = next((each for each in DEPENDENCIES if each in manifest), None)
    setup = (f"cargo fetch{locked}",) if needed else ()
    requires = Reason(MANIFEST, "requires crates", files.line(MANIFEST, f"[{needed}"))
    return Project(
        gates=tuple(gates),
        setup=setup,
        tools={"test": "cargo", "build": "cargo", "lint": "cargo-clippy"},
        reasons={**reasons, **dict.fromkeys(setup, requires)},
    )


def _first_test(files: ProjectFiles) -> Reason | None:
    for path in sorted(path for path in files.paths if path.endswith(".rs")):
        if found := _TEST.search(text := files.text(path)):
            return Reason(path, "has tests of Rust", text.count("\n", 0, found.start()) + 1)
    return None
