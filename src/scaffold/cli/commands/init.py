"""`init`: examine a repository, write a commented configuration, and suggest a first plan."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click
import yaml
from msgspec import Struct

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.style import print_json
from scaffold.config.settings import PROJECT_FILES
from scaffold.core.errors import UsageError
from scaffold.core.gates import GateKind
from scaffold.core.printable_text import printable
from scaffold.git.repository import open_repository
from scaffold.host.files import write_atomic
from scaffold.host.process.async_runner import run_async
from scaffold.verify.gates.detection import DetectedGates, detect_in_folder
from scaffold.verify.gates.project import ProjectKind

CommandsByKind = Mapping[Literal["setup"] | GateKind, str]
AGENT_PROGRAMS = ("claude", "codex")
MAX_COMMAND_CHARS = 10_000
ADVISORY = "only warns: your own checks never run it"
KEY_VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


class ProjectScan(Struct, frozen=True, kw_only=True):
    """The findings of `init`."""

    type: ProjectKind
    gates: CommandsByKind
    """Commands that prepare and check the project, by kind; missing kinds were not found."""
    sources: Mapping[GateKind, str]
    """The project's own file that a check was taken from, by kind; the others follow from configuration."""
    advisory: tuple[GateKind, ...]
    """Checks that only warn, because the project's own set-up never runs them."""
    agents: tuple[str, ...]
    """Agent programs on PATH."""
    keys: tuple[str, ...]
    """Names of variables that hold a provider's key; never their values."""


CONFIGURATION = PROJECT_FILES[0]
NOTES = "NOTES.md"

CONFIGURATION_TEMPLATE = """\
# Scaffold's settings for this repository. Everything here is a comment; remove a `#` to set something.
# This file applies to users who have run `scaffold trust` here. It can tighten their settings, not loosen them.
# Your own settings: `scaffold config KEY VALUE`.

# model: anthropic:NAME           # the model of all agents; see `scaffold config model`
# tier: builder                   # quick, scout, builder or architect
# agents: 3                       # agents in parallel; overrides the tier
# budget_usd: 5.00                # no model request starts beyond this
# approvals: {network: deny}      # of file_write, shell, network, ...: ask or deny
# permissions:
#   deny: ["shell:git push *"]    # always wins over an allowing rule
# sandbox: {mode: require, network: none}
# tiers:
#   builder: {agents: 3, iterations: 5, timeout_min: 15}
"""

PLAN_TEMPLATE = """\
version: 1
goals:
  - name: first-steps
    description: Land one small change that passes its checks.
    goal_state: [notes_written]
    actions:
      - key: notes
        description: Write {notes} about the purpose of this project, and how to build and test it.
        role: documentation
        effects: [notes_written]
        files: [{notes}]
        contract:
          intent: The notes exist{intact}.
          must_exist: [{notes}]
"""


@click.command()
@click.option("--force", is_flag=True, help="Replace an existing configuration.")
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@json_option
def init(*, force: bool, dry_run: bool, as_json: bool) -> None:
    """Examine this repository and write a commented `.scaffold.yaml`.

    Does not run any of the repository's code.
    """
    root = run_async(_root())
    findings = scan_project(root, os.environ)
    path = root / CONFIGURATION
    # A dangling link counts as a file, which `exists` would not see.
    written = not dry_run and (force or not os.path.lexists(path))
    if written:
        _write(path, configuration(findings))
    if as_json:
        print_json({"findings": findings, "configuration": str(path), "written": written, "plan": first_plan(findings)})
        return
    click.echo(printable(_summary(root, findings)))
    click.echo(_about_file(path, written=written, dry_run=dry_run), err=True)
    click.echo(f"\nA small first plan; save it as plan.yaml:\n\n{first_plan(findings)}")
    click.echo("Next\n  scaffold plan check plan.yaml\n  scaffold run --plan plan.yaml --model MODEL")


async def _root() -> Path:
    return (await open_repository(Path.cwd(), environ=os.environ)).root


def _write(path: Path, text: str) -> None:
    try:
        write_atomic(path, text.encode())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", "Make the folder writable, or use `--dry-run`."
        ) from error


def _summary(root: Path, findings: ProjectScan) -> str:
    lines = [f"{root.name}: {findings.type} project"]
    lines += [f"  {gate:<10} {command}{_about_gate(findings, gate)}" for gate, command in findings.gates.items()]
    if findings.gates:
        lines.append("  another command: `quality_gates.KIND` in the configuration, or `off`; set-up commands: `setup`")
    if "test" not in findings.gates:
        lines.append("  no tests were found: give the actions of your plans contracts with checks")
    lines.append(f"  agents     {', '.join(findings.agents) or 'no other agent program on PATH'}")
    lines.append(f"  keys       {', '.join(findings.keys) or 'no API key of a provider in the environment'}")
    return "\n".join(lines)


def _about_gate(findings: ProjectScan, kind: str) -> str:
    """Return where a check was found and whether it only warns, in brackets; empty without either."""
    about = [f"from {where}" for gate, where in findings.sources.items() if gate == kind]
    about += [ADVISORY] if kind in findings.advisory else []
    return f"  ({', '.join(about)})" if about else ""


def _about_file(path: Path, *, written: bool, dry_run: bool) -> str:
    if written:
        return f"wrote {path}"
    return f"{path} was not written" if dry_run else f"{path} exists and was not changed; `--force` replaces it"


def configuration(findings: ProjectScan) -> str:
    """Return the text of a configuration that consists of comments."""
    text = CONFIGURATION_TEMPLATE
    if "setup" in findings.gates:
        text += "\n# Found here; it runs once you trust this folder. Another list of commands, or `off`:\n"
        text += _commented({"setup": [findings.gates["setup"]]})
    checks = {kind: command for kind, command in findings.gates.items() if kind != "setup"}
    if checks:
        text += "\n# Checks found here. A command of yours, or `off`, replaces one; it then counts in any case.\n"
        text += _commented({"quality_gates": checks})
        text += "".join(f"# {kind}{about}\n" for kind in checks if (about := _about_gate(findings, kind)))
    return text


def _commented(settings: Mapping[str, object]) -> str:
    text = yaml.safe_dump(settings, sort_keys=False, width=MAX_COMMAND_CHARS)
    return "".join(f"# {line}\n" for line in text.splitlines())


def first_plan(findings: ProjectScan) -> str:
    """Return a plan of one harmless action, checked by the tests of the project if it has any."""
    test = findings.gates.get("test")
    text = PLAN_TEMPLATE.format(notes=NOTES, intact=", and nothing else broke" if test else "")
    if test:
        text += f"          commands:\n            - {{command: {json.dumps(test)}, timeout_s: 600}}\n"
    return text


def scan_project(root: Path, environ: Mapping[str, str]) -> ProjectScan:
    """Return the findings about the files in `root` and about the environment."""
    detection = detect_in_folder(root)
    return ProjectScan(
        type=detection.kind,
        gates=_commands(detection),
        sources={gate.kind: detection.sources[gate.name] for gate in detection.gates if gate.name in detection.sources},
        advisory=tuple(gate.kind for gate in detection.gates if gate.advisory),
        agents=tuple(name for name in AGENT_PROGRAMS if shutil.which(name, path=environ.get("PATH", ""))),
        keys=tuple(name for name in KEY_VARIABLES if environ.get(name)),
    )


def _commands(detection: DetectedGates) -> CommandsByKind:
    """Return the commands by kind, to be run in the root folder; several of one kind are joined by `&&`."""
    commands: dict[Literal["setup"] | GateKind, list[str]] = {"setup": list(detection.setup)} if detection.setup else {}
    for gate in detection.gates:
        there = f"(cd {gate.folder} && {gate.command})" if gate.folder else gate.command
        commands.setdefault(gate.kind, []).append(there)
    return {kind: " && ".join(several) for kind, several in commands.items()}
