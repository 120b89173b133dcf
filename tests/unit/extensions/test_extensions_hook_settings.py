"""Hooks in settings files: what is read, and what is said about the rest."""

import json

from scaffold.extensions.hooks.hook_settings import MAX_HOOKS, HookFile, read_hooks
from scaffold.extensions.hooks.script_names import named_scripts, with_files_elsewhere


def read(table, *, raw=None):
    content = raw if raw is not None else json.dumps(table).encode()
    return read_hooks(HookFile(name="settings.json", content=content, own=False, home="/home/ada", top="/p"))


def one(entry, event="PreToolUse", **group):
    return read({"hooks": {event: [{**group, "hooks": [entry]}]}})


def test_a_hook_has_its_event_matcher_time_limit_and_scripts():
    found = one({"type": "command", "command": "$CLAUDE_PROJECT_DIR/x.sh", "timeout": 5}, matcher="Bash|Edit")
    [hook] = found.hooks
    assert (hook.event, hook.matcher, hook.timeout_s, hook.scripts) == ("PreToolUse", "Bash|Edit", 5, ("x.sh",))
    assert found.notices == ()


def test_what_is_no_object_with_hooks_has_none():
    contents = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"hooks": null}',
        b'{"permissions": {}}',
        b"0" * 5_000,
    ]
    assert [raw for raw in contents if read(None, raw=raw).hooks] == []


def test_what_is_no_hook_does_not_run_and_is_said():
    rows = [
        ({"hooks": []}, "must be an object"),
        ({"hooks": {"Nonsense": []}}, "no such event"),
        ({"hooks": {"Stop": {}}}, "must be a list"),
        ({"hooks": {"Stop": [3]}}, "must be an object"),
        ({"hooks": {"Stop": [{"hooks": {}}]}}, "must be an object"),
        ({"hooks": {"Stop": [{"hooks": ["x"]}]}}, "must be an object"),
        ({"hooks": {"Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}}, "`prompt` is not supported"),
        ({"hooks": {"Stop": [{"hooks": [{"type": 3, "command": "x"}]}]}}, "must be an object"),
        ({"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}, "must be text"),
        ({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": " "}]}]}}, "must be text"),
        ({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a\0b"}]}]}}, "must be text"),
    ]
    found = [(table, said, read(table)) for table, said in rows]
    assert [(table, said) for table, said, each in found if each.hooks or said not in each.notices[0]] == []


def test_an_unknown_event_is_said_once_and_others_still_run():
    table = {"hooks": {"Nonsense": [], "Stop": [{"hooks": [{"type": "command", "command": "true"}] * 2}]}}
    found = read(table)
    assert len(found.hooks) == 2
    assert len(found.notices) == 1


def test_a_time_limit_is_bounded_and_one_that_is_none_is_the_usual_one():
    table = {"soon": 60, 0: 60, -1: 60, True: 60, None: 60, 10_000: 600, 0.5: 0.5}
    assert {
        given: one({"type": "command", "command": "true", "timeout": given}).hooks[0].timeout_s for given in table
    } == table


def test_a_matcher_that_is_no_text_guards_everything():
    found = one({"type": "command", "command": "true"}, matcher=["Bash"])
    assert found.hooks[0].matcher == ""
    assert "runs for everything" in found.notices[0]


def test_a_file_may_have_a_bounded_number_of_hooks():
    entries = [{"type": "command", "command": f"echo {at}"} for at in range(MAX_HOOKS + 5)]
    found = read({"hooks": {"Stop": [{"hooks": entries}]}})
    assert len(found.hooks) == MAX_HOOKS
    assert "too many" in found.notices[-1]


def test_hooks_that_are_switched_off_do_not_run():
    table = {"disableAllHooks": True, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    assert read(table).hooks == ()


def test_the_files_that_a_command_runs_are_found():
    table = {
        '"$CLAUDE_PROJECT_DIR"/.claude/hooks/a.sh': (".claude/hooks/a.sh",),
        "${CLAUDE_PROJECT_DIR}/a.sh --flag": ("a.sh",),
        "python3 -u .claude/hooks/b.py": (".claude/hooks/b.py",),
        "uv run --quiet scripts/c.py x/y": ("scripts/c.py",),
        "timeout 5 ./d.sh": ("d.sh",),
        "FOO=1 bash e.sh && node f.mjs": ("e.sh", "f.mjs"),
        "~/.claude/hooks/g.sh": ("/home/ada/.claude/hooks/g.sh",),
        "/p/h.sh": ("h.sh",),
        "/usr/bin/jq -r .x": ("/usr/bin/jq",),
        'cd "$CLAUDE_PROJECT_DIR" && npm run lint': (),
        "jq -r .tool_input.command >> $CLAUDE_PROJECT_DIR/log.txt": (),
        "echo a/b": (),
        "../x.sh": (),
        "$HERE/x.sh": (),
        "echo 'open": (),
        "": (),
    }
    assert {command: named_scripts(command, home="/home/ada", top="/p") for command in table} == table


def test_scripts_are_taken_from_another_folder():
    rows = [
        ('"$CLAUDE_PROJECT_DIR"/h/a.sh x', '"$SCAFFOLD_HOOK_FILES"/h/a.sh x'),
        ('"${CLAUDE_PROJECT_DIR}/h/a.sh"', '"$SCAFFOLD_HOOK_FILES/h/a.sh"'),
        ("bash h/a.sh", 'bash "$SCAFFOLD_HOOK_FILES"/h/a.sh'),
        ("./h/a.sh; ./h/a.sh", '"$SCAFFOLD_HOOK_FILES"/h/a.sh; "$SCAFFOLD_HOOK_FILES"/h/a.sh'),
        ('bash "h/a.sh"', 'bash "$SCAFFOLD_HOOK_FILES/h/a.sh"'),
        ("h/a.shx h/a.sh/b", None),
    ]
    found = [(command, with_files_elsewhere(command, ["h/a.sh"])) for command, _ in rows]
    assert found == [(command, (changed or command, () if changed else ("h/a.sh",))) for command, changed in rows]
