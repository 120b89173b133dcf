"""Secrets are hidden from a model, which cannot write in their place."""

from inline_snapshot import snapshot

from fakes import tool
from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.core.tool import ToolOutput
from scaffold.policy.secret.redaction import Redactor

SECRET = "canary-7f3e6a1d"
REDACTOR = Redactor({"MY_TOKEN": SECRET})


class Pages:
    """A tool that records its arguments."""

    def __init__(self, category):
        async def work(text):
            self.written.append(text)
            return ToolOutput(f"written: {text}")

        self.written = []
        self.tool = tool("write", work, category=category, text="string")

    async def call(self, text):
        return await Toolbox([self.tool], REDACTOR).result(ToolCall("c1", "write", {"text": text}))


async def test_tool_results_reach_the_model_without_secrets():
    """BX-9: the tool itself got the text unchanged."""
    pages = Pages("file_write")
    result = await pages.call(f"token {SECRET}.")
    assert (result.content, result.failed) == ("written: token [redacted:MY_TOKEN].", False)
    assert pages.written == [f"token {SECRET}."]


async def test_tool_errors_reach_the_model_without_secrets():
    """BX-9: errors quote addresses, and addresses hold passwords."""

    async def fail(text):
        raise OSError(f"cannot reach https://me:{text}@host")

    answer = await Toolbox([tool("go", fail, text="string")], REDACTOR).result(
        ToolCall("c", "go", {"text": "hunter22"})
    )
    assert answer.content == snapshot("go crashed: OSError: cannot reach https://me:[redacted:password]@host")
    unknown = await Toolbox([], REDACTOR).result(ToolCall("c", SECRET, {}))
    assert SECRET not in unknown.content


async def test_a_secret_longer_than_the_limit_is_redacted_before_the_text_is_cut():
    """BX-9: half a secret would no longer be recognised."""
    pages = Pages("memory")
    text = "x" * 26_650 + SECRET + "y" * 30_000
    shown = (await pages.call(text)).content
    assert "canary" not in shown
    assert "[redacted:MY_TOKEN]"[:5] in shown


async def test_a_redaction_mark_cannot_be_written_to_a_file():
    """BX-9: it would replace the secret; the model is told what to do instead."""
    for category in ("file_write", "shell", "python"):
        pages = Pages(category)
        result = await pages.call("a = '[redacted:MY_TOKEN]'")
        assert result.failed
        assert result.content.startswith("Not run: [redacted:MY_TOKEN] is a placeholder for a secret you cannot see")
        assert pages.written == []


async def test_a_mark_may_be_searched_for_and_foreign_marks_may_be_written():
    """BX-9: only what would replace a secret is refused."""
    reads, writes = Pages("file_read"), Pages("file_write")
    assert not (await reads.call("[redacted:MY_TOKEN]")).failed
    assert not (await writes.call("`[redacted:NAME]` stands for a secret")).failed
    assert writes.written == ["`[redacted:NAME]` stands for a secret"]
