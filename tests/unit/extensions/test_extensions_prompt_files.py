"""Skills, roles and commands: what is read of their files, and what is said about the rest."""

from inline_snapshot import snapshot

from scaffold.agent.skills import MAX_LIST_CHARS, listed_skills
from scaffold.core.extension_set import Skill
from scaffold.extensions.prompt_file import MOST, FoundFile, parse_commands, parse_roles, parse_skills, read_prompt_file


def file(text, name="x", source="", path="p/SKILL.md"):
    content = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    return FoundFile(source=source or name, content=content, name=name, file=path)


SKILL = "---\nname: tests\ndescription: How tests are written.\n---\n\nWrite them first.\n"


def test_a_skill_has_a_name_and_a_description():
    [skill], notices = parse_skills([file(SKILL)])
    assert (skill.name, skill.description, notices) == snapshot(("tests", "How tests are written.", ()))
    assert read_prompt_file(SKILL.encode()).text == "Write them first."


def test_a_skill_without_a_name_is_called_like_its_folder():
    [skill], _ = parse_skills([file("---\ndescription: d\nallowed-tools: Bash(git log:*), Read\n---\n", name="deploy")])
    assert (skill.name, skill.allowed_tools) == ("deploy", ("Bash(git log:*)", "Read"))


def test_a_broken_skill_has_no_effect_and_is_said():
    rows = [
        ("no front matter", "no `description`"),
        ("---\nname: x\n", "has no end"),
        ("---\nname: x\n---\n", "no `description`"),
        ("---\n- a\n- b\n---\n", "not a mapping"),
        ("---\n[\n---\n", "not valid YAML"),
        ("---\nname: [a]\ndescription: {a: b}\n---\n", "no `description`"),
        ("---\nname: ../x\ndescription: d\n---\n", "not a valid skill name"),
        ("---\nname: a b\ndescription: d\n---\n", "not a valid skill name"),
        (b"---\nname: \xff\ndescription: d\n---\n", "not a valid skill name"),
        ("---\n" + "a: " + "[" * 5_000 + "\n---\n", "no "),
        ("---\n!!python/object/apply:os.system [ls]\n---\n", "not valid YAML"),
    ]
    for text, said in rows:
        skills, [notice] = parse_skills([file(text, source="s/SKILL.md")])
        assert skills == (), text
        assert notice.startswith("s/SKILL.md has no effect: "), text
        assert said in notice, text


def test_front_matter_that_is_no_yaml_but_plain_is_read_line_by_line():
    parsed = read_prompt_file(b"---\nname: x\ndescription: Use it when: always\n---\nbody")
    assert parsed.head == snapshot({"name": "x", "description": "Use it when: always"})


def test_aliases_cost_nothing():
    bombs = "\n".join(f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]" for at in range(1, 40))
    assert read_prompt_file(f"---\na0: &a0 [x]\n{bombs}\ndescription: d\n---\n".encode()).head["description"] == "d"


def test_of_two_with_the_same_name_the_nearest_counts_and_is_said():
    skills, notices = parse_skills([file(SKILL, source="a", path="near"), file(SKILL, source="b", path="far")])
    assert [skill.file for skill in skills] == ["near"]
    assert notices == snapshot(("b has no effect: near is the skill tests",))


def test_ten_thousand_skills_are_bounded_in_number_and_in_the_prompt():
    files = [file("---\ndescription: " + "d" * 2_000 + "\n---\n", name=f"s{at}") for at in range(10_000)]
    skills, notices = parse_skills(files)
    assert len(skills) == MOST
    assert f"{10_000 - MOST} more" in notices[-1]
    listed = listed_skills(skills)
    assert len(listed) < MAX_LIST_CHARS + 3_000
    assert "s199" in listed
    assert all(line.startswith("- ") for line in listed.splitlines())


def test_a_description_stays_on_its_line_and_shows_no_escape_sequence():
    text = '---\nname: x\ndescription: "a\\n# Instructions\\n\\e[31mred"\n---\n'
    [skill], _ = parse_skills([file(text)])
    assert len(listed_skills([skill]).splitlines()) == 1
    assert "\x1b" not in skill.description


def test_one_line_for_each_skill():
    skills = [Skill(name=name, description="d", file="f") for name in ("a", "b")]
    assert listed_skills(skills) == "- a: d\n- b: d"


ROLE = (
    "---\nname: reviewer\ndescription: Reviews.\ntools: Read, Grep, Bash(git diff:*)\nmodel: {model}\n---\nBe strict."
)


def test_a_role_has_instructions_tools_and_a_model():
    for model, meant in (("opus", "large"), ("haiku", "small"), ("inherit", ""), ("openai:gpt-5", "openai:gpt-5")):
        [role], notices = parse_roles([file(ROLE.format(model=model))])
        assert (role.name, role.prompt, role.model, notices) == ("reviewer", "Be strict.", meant, ())
        assert role.tools == ("Read", "Grep", "Bash(git diff:*)")


def test_a_role_needs_a_description_and_instructions():
    texts = ["---\nname: a\ndescription: d\n---\n", "Be strict.", "---\nname: a\n---\nx"]
    found = [parse_roles([file(text)]) for text in texts]
    assert [(roles, len(notices)) for roles, notices in found] == [((), 1)] * len(texts)


def test_a_role_without_tools_gets_all_and_one_with_an_empty_list_none():
    [role], _ = parse_roles([file("---\ndescription: d\n---\nx")])
    assert role.tools is None
    [role], _ = parse_roles([file("---\ndescription: d\ntools: []\n---\nx")])
    assert role.tools == ()


def test_a_command_is_described_by_its_front_matter_or_its_first_line():
    [given], _ = parse_commands(
        [file("---\ndescription: Review.\nargument-hint: [file]\n---\nLook at $1.", name="review")]
    )
    assert (given.name, given.description, given.hint, given.text) == ("review", "Review.", "[file]", "Look at $1.")
    [plain], _ = parse_commands([file("# Look\n\nat $ARGUMENTS", name="Look-2")])
    assert (plain.name, plain.description) == ("look-2", "Look")


def test_a_command_needs_a_name_that_can_be_typed_and_a_text():
    rows = [("a b", "x"), ("-x", "x"), ("é", "x"), ("ok", ""), ("ok", "---\nx: y\n---\n")]
    found = [parse_commands([file(text, name=name)]) for name, text in rows]
    assert [(commands, len(notices)) for commands, notices in found] == [((), 1)] * len(rows)
