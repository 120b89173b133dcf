"""The examples of docs/plan-files.md produce the findings they describe."""

import re
import textwrap
from pathlib import Path

from scaffold.plan.analysis.explanation import explain
from scaffold.plan.analysis.lint import ErrorCode, WarningCode, lint
from scaffold.plan.text.file_format import read_plan

TEXT = (Path(__file__).parents[3] / "docs" / "plan-files.md").read_text()
EXAMPLES = re.findall(r"```yaml\n# ([a-z-]+): [^\n]+\n(.*?)```", TEXT, re.DOTALL)
WHOLE = re.findall(r"```yaml\n(version.*?)```", TEXT, re.DOTALL)


def test_an_example_has_its_code_and_no_other_error():
    wrong = {}
    for code, middle in EXAMPLES:
        text = "version: 1\ngoals:\n  - name: g\n" + textwrap.indent(middle, "    ")
        plan, warnings = read_plan(text, name="plan.yaml")
        report = lint(plan).after(warnings)
        weaknesses = explain(plan).weaknesses if report.valid else ()
        found = {finding.code for finding in (*report.findings, *weaknesses)}
        causes = {finding.code for finding in report.findings if finding.severity == "error"}
        if code not in found or not causes <= {code, "unreachable-goal"}:
            wrong[code] = found
    assert wrong == {}


def test_every_lint_code_has_an_example():
    assert {code for code, _ in EXAMPLES} >= {*ErrorCode.__args__, *WarningCode.__args__}


def test_the_plan_at_the_top_is_sound():
    (text,) = WHOLE
    plan, warnings = read_plan(text, name="plan.yaml")
    assert (warnings, lint(plan).findings, explain(plan).weaknesses) == ((), (), ())
