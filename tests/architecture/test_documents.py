"""The documents: every command in them can be right, and every message that is explained is one of ours."""

import ast
import re
from functools import cache
from types import SimpleNamespace

from scaffold.cli.repl.orchestrator_profile import orchestrator_profile
from scaffold.core.ids import AttemptId
from scaffold.git import refs
from scaffold.session.slash.queries import KEY_HELP
from scaffold.session.slash.syntax import COMMANDS
from support.documents import PAGES, ROOT, Block, blocks, inline_commands, named_refs, parse_problem, problems, synopsis
from support.source_tree import SourceFile, source_files

MESSAGE = re.compile(r"^### (?:`` ?(?P<quoted>.+?) ?``|`(?P<plain>[^`]+)`)$", re.MULTILINE)
PART = "..."
"""Stands for what differs from one message to the next."""


@cache
def texts(file: SourceFile) -> list[str]:
    """Return every text in a module, with `...` for each value that is put into it; docstrings are none."""
    alone = {id(node.value) for node in file.nodes if isinstance(node, ast.Expr)}
    return [_bare(text) for node in file.nodes if id(node) not in alone and (text := _template(node))]


def _template(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_template(part) if isinstance(part, ast.Constant) else PART for part in parts)
    return ""


def is_ours(message: str) -> bool:
    """Return whether a message occurs in a text of our code; punctuation around a value does not count."""
    words, bare = re.findall(r"\w{3,}", message), _bare(message)
    likely = (file for file in source_files() if all(word in file.text for word in words))
    return any(bare in text for file in likely for text in texts(file))


def _bare(text: str) -> str:
    return re.sub(r"[`'\"]*\.\.\.[`'\"]*", PART, text)


def messages() -> list[str]:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    return [found["quoted"] or found["plain"] for found in MESSAGE.finditer(text)]


def test_the_guide_names_every_ref_of_ours() -> None:
    """AL-12: `git log --all` shows none that a user cannot look up."""
    ours = (refs.work_ref, refs.rescue_ref, refs.keep_ref, refs.lane_ref, refs.lane_base_ref, refs.review_ref)
    names = {"refs/heads/main", "refs/heads/session-abc", *(ref(AttemptId("abc")) for ref in ours)}
    assert [name for name in names if not any(each.fullmatch(name) for each in named_refs())] == []


def test_every_block_of_the_pages_is_in_order() -> None:
    """It names its language; its commands exist, take these arguments, and run in a test or say why not."""
    assert len(PAGES) > 100
    assert [problem for page in PAGES for block in blocks(page) for problem in problems(block)] == []


def test_commands_in_sentences_exist_and_take_these_arguments() -> None:
    found = {(page, text) for page in PAGES for text in inline_commands(page)}
    assert {each: problem for each in found if (problem := parse_problem(synopsis(each[1]), is_whole=False))} == {}


def test_each_command_and_key_of_the_chats_is_compared_and_described() -> None:
    """The lists follow the tables of the program; `ralph.md` has the arguments, too."""
    first_column = re.compile(r"^\| (?!ours|key|-)([^|]+?) \|", re.MULTILINE)
    page, ralph = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("chat-commands.md", "ralph.md"))
    every = [*COMMANDS, *orchestrator_profile(SimpleNamespace(git=None), None, None).commands]
    names, keys = {f"`/{each.name}`" for each in every}, {key for key, _ in KEY_HELP}
    assert set(first_column.findall(page)) == names | keys
    assert [each.usage for each in COMMANDS if f"`{each.usage}`" not in ralph.replace("\\|", "|")] == []


def test_the_explained_messages_are_ours() -> None:
    assert [message for message in messages() if len(message.replace(PART, "")) <= 8 or not is_ours(message)] == []


def test_every_heading_below_a_subject_is_a_message_with_an_explanation() -> None:
    _, *sections = re.split(
        r"^### (?=.)", (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert len(sections) == len(messages()) > 40
    assert [each for each in sections if len(each.partition("\n")[2].strip()) < 40] == []


def test_a_message_that_we_do_not_print_is_found() -> None:
    assert is_ours("no model is configured")
    assert not is_ours("no model was configured")
    assert not is_ours("the gate ... cannot judge some work: ...")


PLANTED = [
    ("```\nls\n```\n", "say the language"),
    ("```sh\nscaffold frobnicate\n```\n", "there is no command"),
    ("```sh\nscaffold status --wach\n```\n", "No such option"),
    ("```sh\nscaffold -C . contract\n```\n", "Missing argument"),
    ("```sh\nralph --mode bogus hi\n```\n", "'bogus' is not one of"),
    ('```sh\necho "$(scaffold tasks --bogus)"\n```\n', "No such option"),
    ("```sh\nscaffold logs ACTION [-f]) | (\n```\n", "this is not bash"),
    ("```sh\nmake bogus\n```\n", "there is no target"),
    ("```sh\nuv tool install x\n```\n", "`uv` cannot run here"),
    ("<!-- not run: it takes long -->\n```sh\n.venv/bin/pytest tests/bogus.py\n```\n", "there is no tests/bogus.py"),
    ("<!-- not run: it takes long -->\n```sh\nscaffold runs --bogus\n```\n", "No such option"),
    ("<!-- not run: -->\n```sh\nuv tool install x\n```\n", "`uv` cannot run here"),
    ("```text\nscaffold status\n```\n", "commands belong in a block of `sh`"),
    ("```yaml\n- run: scaffold status --bogus\n```\n", "No such option"),
]


def test_planted_mistakes_are_found() -> None:
    found = [(complaint, problems(blocks("page.md", page)[0])) for page, complaint in PLANTED]
    assert [each for each in found if not any(each[0] in problem for problem in each[1])] == []


def test_a_mark_belongs_to_the_block_that_follows_it() -> None:
    text = "<!-- not run: it needs a key -->\n```sh\nralph hi\n```\n\nAnd:\n\n```sh\nscaffold status\n```\n"
    assert [block.reason for block in blocks("page.md", text)] == ["it needs a key", None]
    assert blocks("page.md", text)[1] == Block("page.md", 8, "sh", "scaffold status\n", None)
