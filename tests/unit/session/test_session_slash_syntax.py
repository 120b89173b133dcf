from scaffold.core.extension_set import PromptCommand
from scaffold.session.slash.prompt_commands import all_commands, hidden_commands
from scaffold.session.slash.syntax import (
    COMMANDS,
    Clear,
    CommandSyntax,
    Compact,
    Export,
    Help,
    InvalidCommand,
    QuitSession,
    Resume,
    SendPrompt,
    ShowAgents,
    ShowContext,
    ShowCost,
    ShowDiff,
    ShowEffort,
    ShowGoals,
    ShowMode,
    ShowModels,
    ShowText,
    ShowTools,
    StartReview,
    SwitchEffort,
    SwitchMode,
    SwitchModel,
    Undo,
    item_command,
    parse_slash,
    with_own_commands,
)


def test_a_line_is_a_command_only_if_it_starts_with_a_slash_command():
    """RA-1, RA-18, SC-19: commands are read without a model; everything else is for the model."""
    table = {
        "/help": Help(),
        "/model": ShowModels(),
        "/model ": ShowModels(),
        "/MODEL\n": ShowModels(),
        "/model openai:gpt-5": SwitchModel("openai:gpt-5"),
        "/model  local:x@http://127.0.0.1:8/v1 ": SwitchModel("local:x@http://127.0.0.1:8/v1"),
        "/effort": ShowEffort(),
        "/effort high": SwitchEffort("high"),
        "/mode": ShowMode(),
        "/mode plan": SwitchMode("plan"),
        "/goals": ShowGoals(),
        "/goals list": ShowGoals(),
        "/goals Ready": ShowGoals("ready"),
        "/goals show 12": ShowGoals("show", 12),
        "/agents": ShowAgents(),
        "/agents show sub-1": ShowAgents("sub-1"),
        "/cost": ShowCost(),
        "/tools": ShowTools(),
        "/context": ShowContext(),
        "/export": Export(),
        "/export notes of today.md": Export("notes of today.md"),
        "/diff": ShowDiff(),
        "/diff Turn": ShowDiff("turn"),
        "/undo": Undo(),
        "/review": StartReview(),
        "/review main..  the lock\nand x ": StartReview("main..", "the lock\nand x"),
        "/compact": Compact(),
        "/compact keep  names": Compact("keep  names"),
        "/clear": Clear(),
        "/resume": Resume(),
        "/resume abc": Resume("abc"),
        "/quit": QuitSession(),
        "/exit": QuitSession(),
        "model": None,
        " /model x": None,
        "/usr/bin is full": None,
        "/ what": None,
        "//model": None,
        "fix /model": None,
        "": None,
    }
    assert {line: parse_slash(line) for line in table} == table


def test_an_unknown_command_suggests_the_nearest_spelling():
    """RA-18: the nearest spelling, or the syntax."""
    rows = [
        ("/modle x", "/modle", "Did you mean `/mode`?"),
        ("/cots", "/cots", "Did you mean `/cost`?"),
        ("/xyzzy", "/xyzzy", "`/help` lists the commands"),
        ("/model a b", "`/model a b`", "Usage: `/model [NAME]`."),
        ("/model a\n\nb", "`/model a b`", "Usage: `/model [NAME]`."),
        ("/cost now", "`/cost now`", "Usage: `/cost`."),
        ("/goals all", "`/goals all`", "Usage: `/goals [list | ready | show N]`."),
        ("/goals show x", "`/goals show x`", "show N"),
        ("/goals show 99999999999", "/goals", "show N"),
        ("/agents sub-1", "`/agents sub-1`", "Usage: `/agents [show ID]`."),
        (f"/quit {'x' * 100}", "`/quit` has invalid arguments", "Usage: `/quit`."),
    ]
    read = [(line, parse_slash(line)) for line, *_ in rows]
    assert [line for line, command in read if not isinstance(command, InvalidCommand)] == []
    said = [(command.what, command.fix) for _, command in read]
    assert [
        line for (line, what, fix), told in zip(rows, said, strict=True) if what not in told[0] or fix not in told[1]
    ] == []


def test_every_command_in_the_table_works_or_explains_itself_without_its_arguments():
    """RA-18, SC-19: by the table, so also one that is added to it."""
    table = (
        *COMMANDS,
        item_command(" ".join),
        CommandSyntax("needy", "wants a word", lambda words: Help() if words else None),
    )
    for each in table:
        bare, *asked = (parse_slash(f"/{each.name}{more}", table) for more in ("", " ?", " --help", " -h"))
        assert not isinstance(bare, InvalidCommand | None), each.name
        texts = {command.text() for command in asked}
        assert texts == {each.explain()}, each.name
        assert each.usage in each.explain()
        # A single one of its words that wants others explains itself, too; rubbish names the usage.
        for word in each.completions:
            assert not isinstance(parse_slash(f"/{each.name} {word}", table), InvalidCommand | None), (each.name, word)
        rubbish = parse_slash(f"/{each.name} {'rubbish ' * 3}", table)
        assert not isinstance(rubbish, InvalidCommand) or each.usage in rubbish.fix
    assert parse_slash("/needy", table).text() == "/needy: wants a word."
    assert [each for each in COMMANDS if bool(each.words) != (" " in each.usage)] == []


def test_a_client_has_commands_of_its_own_which_come_before_those_of_the_table():
    """RA-18, SC-19."""
    own = CommandSyntax(name="goals", words="[GOAL]", summary="", read=lambda words: ShowText(lambda: "+".join(words)))
    commands = with_own_commands((own,))
    assert [each for each in commands if each.name == "goals"] == [own]
    assert len(commands) == len(COMMANDS)
    assert parse_slash("/Goals my  goal", commands).text() == "my+goal"
    assert parse_slash(" /goals my goal", commands) is None, "a line with a space before it is for the model"
    assert parse_slash("/help", commands) == Help()


def test_a_slash_alone_is_not_said_to_a_model():
    """RA-18: whoever sends it too early pays for no request."""
    assert isinstance(parse_slash("/ "), InvalidCommand)
    assert parse_slash(" /") is None


def test_a_command_of_the_users_own_replaces_only_what_sends_a_message():
    """RA-18: `review`, not `clear`; the user is told of the other."""
    words = {"description": "", "hint": "", "text": "look"}
    own = [PromptCommand(name=name, source=f"{name}.md", **words) for name in ("review", "clear", "fix")]
    commands = all_commands(own)
    found = [parse_slash(line, commands) for line in ("/review it", "/clear", "/fix")]
    assert found == [SendPrompt(own[0], "it"), Clear(), SendPrompt(own[2], "")]
    assert len({each.name for each in commands}) == len(commands)
    assert [*hidden_commands(own)] == ["clear.md has no effect: `/clear` is a command of ralph"]
