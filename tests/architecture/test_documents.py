"""The documents: every command in them can be right, and every message that is explained is one of ours."""

import ast
import re
from functools import cache

import pytest

from support.documents import PAGES, ROOT, Block, blocks, inline_commands, parse_problem, problems, synopsis

MESSAGE = re.compile(r"^### (?:`` ?(?P<quoted>.+?) ?``|`(?P<plain>[^`]+)`)$", re.MULTILINE)
PART = "..."
"""Stands for what differs from one message to the next."""


@cache
def templates() -> list[str]:
    """Return every text in our code, with `...` for each value that is put into it; docstrings are none."""
    texts = []
    for path in sorted((ROOT / "src" / "scaffold").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts += [text for node in nodes if id(node) not in alone and (text := _template(node))]
    return texts


def _template(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_template(part) if isinstance(part, ast.Constant) else PART for part in parts)
    return ""


def is_ours(message: str) -> bool:
    """Return whether a message occurs in a text of our code; punctuation around a value does not count."""
    return any(_bare(message) in _bare(text) for text in templates())


def _bare(text: str) -> str:
    return re.sub(r"[`'\"]*\.\.\.[`'\"]*", PART, text)


def messages() -> list[str]:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    return [found["quoted"] or found["plain"] for found in MESSAGE.finditer(text)]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_is_in_order(page: str) -> None:
    """It names its language; its commands exist, take these arguments, and run in a test or say why not."""
    assert [problem for block in blocks(page) for problem in problems(block)] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_sentences_exist_and_take_these_arguments(page: str) -> None:
    found = [parse_problem(synopsis(text), is_whole=False) for text in inline_commands(page)]
    assert [problem for problem in found if problem] == []


@pytest.mark.parametrize("message", messages())
def test_an_explained_message_is_one_of_ours(message: str) -> None:
    assert len(message.replace(PART, "")) > 8
    assert is_ours(message)


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


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```\nls\n```\n", "say the language"),
        ("```sh\nscaffold frobnicate\n```\n", "there is no command"),
        ("```sh\nscaffold status --wach\n```\n", "No such option"),
        ("```sh\nscaffold -C . contract\n```\n", "Missing argument"),
        ("```sh\nralph --mode bogus hi\n```\n", "'bogus' is not one of"),
        ('```sh\necho "$(scaffold tasks --bogus)"\n```\n', "No such option"),
        ("```sh\nscaffold logs ACTION [-f]) | (\n```\n", "this is not bash"),
        ("```sh\nmake bogus\n```\n", "there is no target"),
        ("```sh\nuv tool install x\n```\n", "`uv` cannot run here"),
        (
            "<!-- not run: it takes long -->\n```sh\n.venv/bin/pytest tests/bogus.py\n```\n",
            "there is no tests/bogus.py",
        ),
        ("<!-- not run: it takes long -->\n```sh\nscaffold runs --bogus\n```\n", "No such option"),
        ("<!-- not run: -->\n```sh\nuv tool install x\n```\n", "`uv` cannot run here"),
        ("```text\nscaffold status\n```\n", "commands belong in a block of `sh`"),
        ("```yaml\n- run: scaffold status --bogus\n```\n", "No such option"),
    ],
)
def test_a_planted_mistake_is_found(page: str, complaint: str) -> None:
    [block, *_] = blocks("page.md", page)
    assert any(complaint in problem for problem in problems(block)), problems(block)


def test_a_mark_belongs_to_the_block_that_follows_it() -> None:
    text = "<!-- not run: it needs a key -->\n```sh\nralph hi\n```\n\nAnd:\n\n```sh\nscaffold status\n```\n"
    assert [block.reason for block in blocks("page.md", text)] == ["it needs a key", None]
    assert blocks("page.md", text)[1] == Block("page.md", 8, "sh", "scaffold status\n", None)
