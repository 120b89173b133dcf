"""A setting is changed in a file, and all else in the file stays: comments, order, quotes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from ruamel.yaml.error import YAMLError

from scaffold.config.edit import set_in_file, with_setting
from scaffold.config.settings_file import parse_settings
from scaffold.core.errors import UsageError
from scaffold.host.contained_path import ContainedPath

FILE = """\
# mine
environment:
  # first
  - 'A' # one
  # between
  - "B"
  # last

# how hard to try
tiers:
  # four
  scout: # s
    agents: 2 # two
tier: scout
budget_usd: 2.50 # money
model: null
"""


def test_a_value_goes_where_it_belongs():
    table = {
        ("", "model", "codex:a"): 'model: "codex:a"\n',
        ("# nothing yet\n", "model", "codex:a"): '# nothing yet\nmodel: "codex:a"\n',
        ("tier: scout", "model", "codex:a"): 'tier: scout\nmodel: "codex:a"\n',
        ("---\n# why\ntier: 'scout' # so\n", "tier", "quick"): '---\n# why\ntier: "quick" # so\n',
        ("{tier: scout, agents: 3}\n", "agents", 4): "{tier: scout, agents: 4}\n",
        ("model: # none yet\nidle_s: ~\n", "model", "codex:a"): 'model: "codex:a" # none yet\nidle_s: ~\n',
        ("budget_usd: 1 # x\n", "budget_usd", None): "budget_usd: null # x\n",
        ("model: codex:a # mine\r\n", "model", "codex:b"): 'model: "codex:b" # mine\r\n',
        ("", "tiers.scout.agents", 4): "tiers:\n  scout:\n    agents: 4\n",
        (
            "sandbox:\n  # mode: off\ntier: scout\n",
            "sandbox.mode",
            "off",
        ): 'sandbox:\n  mode: "off"\n  # mode: off\ntier: scout\n',
        (
            "tiers:\n    # four spaces\n    scout:\n        agents: 2\n",
            "tiers.quick.agents",
            4,
        ): "tiers:\n    quick:\n        agents: 4\n    # four spaces\n    scout:\n        agents: 2\n",
        ("", "environment", ("A", "B")): 'environment: ["A", "B"]\n',
        ("environment: [A, B] # of [mine]\n", "environment", ("C",)): 'environment: ["C"]  # of [mine]\n',
        ("environment: ['A', \"B\"]\n", "environment", ()): "environment: []\n",
        ("environment:\r\n- A\r\n- B # two", "environment", ("B",)): "environment:\r\n- B # two\r\n",
        ("environment: # e\n  - A\n# why\n", "environment", ()): "environment: [] # e\n# why\n",
        (FILE, "environment", ("A", "C")): FILE.replace('"B"', '"C"'),
        (FILE, "environment", ("B", "C")): FILE.replace(
            "  - 'A' # one\n  # between\n  - \"B\"\n", '  - "B"\n  - "C"\n  # between\n'
        ),
        (FILE, "environment", ()): FILE.replace("environment:", "environment: []")
        .replace("  - 'A' # one\n", "")
        .replace('  - "B"\n', ""),
        ("setup: []\n# why\nenvironment:\n  - A\n", "environment", ()): "setup: []\n# why\nenvironment: []\n",
        (FILE, "tiers.scout.iterations", 4): FILE.replace("# s\n", "# s\n    iterations: 4\n"),
        (FILE, "replans", 4): f"{FILE}replans: 4\n",
    }
    assert {(before, key, setting): with_setting(before, key, setting) for before, key, setting in table} == table


def test_a_file_that_cannot_be_changed_without_loss_is_left_alone_and_said(tmp_path):
    path, text = tmp_path / "config.yaml", "environment: [ # x\n  A, # one\n  B]\n"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        set_in_file(ContainedPath(path.parent, path.name), "environment", ("C",))
    assert path.read_text() == text
    assert caught.value.fix == snapshot('Set `environment` to ["C"] there with an editor.')
    with pytest.raises(YAMLError):
        with_setting(text, "environment", ("C",))


def test_a_file_with_an_unknown_setting_is_left_alone(tmp_path):
    path, text = tmp_path / "config.yaml", "tiers: &t {scout: {agents: 3}}\nx: *t\n"
    path.write_text(text)
    with pytest.raises(UsageError, match="`x`"):
        set_in_file(ContainedPath(path.parent, path.name), "environment", ("C",))
    assert path.read_text() == text


NAMES = st.lists(st.sampled_from("ABCD"), unique=True).map(tuple)
VALUES = {
    "model": st.sampled_from(["codex:a", "small"]),
    "budget_usd": st.integers(1, 9),
    "environment": NAMES,
    "sandbox.mode": st.sampled_from(["off", "auto"]),
    "sandbox.hosts": NAMES.map(lambda names: tuple(f"{name}.example".lower() for name in names)),
    "tiers.scout.agents": st.integers(1, 9),
    "tiers.scout.threshold": st.integers(0, 9),
    "tiers.quick.agents": st.integers(1, 9),
}


@st.composite
def files(draw):
    """Draw the text of a configuration file with comments in all places, each of them with a number of its own."""
    numbers = iter(range(1000))
    beside = lambda: draw(st.sampled_from(["", " # c{}", "  # c{}"])).format(next(numbers))  # noqa: E731
    lines = []

    def above(indent):
        lines.extend(f"{indent}# c{next(numbers)}" for _ in range(draw(st.integers(0, 2))))
        lines.extend([""] * draw(st.integers(0, 1)))

    def write(tree, indent):
        for key, value in tree.items():
            above(indent)
            if isinstance(value, dict):
                lines.append(f"{indent}{key}:{beside()}")
                write(value, f"{indent}  ")
            elif isinstance(value, tuple) and value and draw(st.booleans()):
                lines.append(f"{indent}{key}:{beside()}")
                for entry in value:
                    above(f"{indent}  ")
                    quote = draw(st.sampled_from(["", "'", '"']))
                    lines.append(f"{indent}  - {quote}{entry}{quote}{beside()}")
            elif isinstance(value, tuple):
                lines.append(f"{indent}{key}: [{', '.join(value)}]{beside()}")
            else:
                lines.append(f"{indent}{key}: {value}{beside()}")

    tree = {}
    for name in draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True)):
        *sections, key = name.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = draw(VALUES[name])
    write(tree, "")
    above("")
    return "".join(f"{line}\n" for line in lines)


def comments(text, *, without=()):
    """Return the comments of a text, those beside the list entries `without` left out."""
    entries = "|".join(map(re.escape, without)) or "(?!)"
    kept = (line for line in text.splitlines() if not re.match(rf'\s*- ["\']?(?:{entries})["\']?(\s|$)', line))
    return sorted(re.findall(r"# c\d+", "\n".join(kept)))


@given(before=files(), change=st.sampled_from(sorted(VALUES)).flatmap(lambda n: st.tuples(st.just(n), VALUES[n])))
def test_every_comment_and_every_other_setting_stays(tmp_path_factory, before, change):
    """AL-28: but for comments beside entries of a list that are removed."""
    name, value = change
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    held = {each: setting.value for each, setting in parse_settings(before, path).items()}
    after = with_setting(before, name, value)
    found = {each: setting.value for each, setting in parse_settings(after, path).items()}
    assert found == held | {name: value}
    assert [each for each in found if each in held] == list(held)
    removed = set(held[name]) - set(value) if isinstance(value, tuple) and name in held else ()
    assert comments(before, without=removed) == comments(after)
