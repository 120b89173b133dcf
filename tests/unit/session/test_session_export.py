"""A conversation as a Markdown file."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from scaffold.core.conversation import AssistantMessage, Image, Text, Thinking, ToolCall, ToolResult, UserMessage
from scaffold.core.errors import UsageError
from scaffold.core.model import Usage
from scaffold.host.wall_clock import zoned_time
from scaffold.session.slash.export import conversation_markdown, export_path, write_new_file
from scaffold.store.user.conversations import StoredConversation

STORED = StoredConversation(
    id="abc",
    cwd="/x",
    model="m",
    title="mend\nit",
    messages=2,
    usage=Usage(cost_usd=None),
    owner=None,
    created_at=datetime(2030, 1, 2, 3, 4, tzinfo=UTC),
    updated_at=datetime(2030, 1, 2, 3, 4, tzinfo=UTC),
)


def test_everything_said_and_done_is_written():
    """RA-18."""
    messages = [
        UserMessage((Text("mend it"), Text("Attached: a.py\nx = 1\n"), Image("image/png", b"123"))),
        AssistantMessage((Thinking("why\nnot"), Text("I look."), ToolCall("1", "read_file", {"path": "a.py"}))),
        UserMessage((ToolResult("1", "read_file", "```\nfenced", failed=True),)),
    ]
    text = conversation_markdown(STORED, messages)
    begun = zoned_time(STORED.created_at)
    assert text.startswith(f"# mend it\n\nConversation abc of ralph in `/x`, begun {begun}.\ncost unknown,")
    assert text.endswith(
        """## You

mend it

Attached: a.py

```
x = 1
```

(an image, image/png, 3 bytes)

## Ralph

> why
> not

I look.

### Call of `read_file`

```json
{
  "path": "a.py"
}
```

### Result of `read_file`, which failed

````
```
fenced
````
"""
    )


def test_default_names_follow_one_another_and_a_named_file_stands_alone(tmp_path):
    """RA-18: a path is relative to the session's directory, and `~` is the user's home."""
    names = islice(export_path(tmp_path, tmp_path / "home", "", "abc/sub-1"), 3)
    assert [path.name for path in names] == ["ralph-abc-sub-1.md", "ralph-abc-sub-1-2.md", "ralph-abc-sub-1-3.md"]
    assert export_path(tmp_path, tmp_path / "home", "~/a.md", "abc") == (tmp_path / "home" / "a.md",)
    assert export_path(tmp_path, tmp_path / "home", "~", "abc") == (tmp_path / "home",)
    assert export_path(tmp_path, tmp_path / "home", "'a b.md'", "abc") == (tmp_path / "a b.md",)
    assert export_path(tmp_path, tmp_path / "home", "/b/a.md", "abc")[0].as_posix() == "/b/a.md"


def test_no_file_is_overwritten(tmp_path):
    """RA-18: neither a file nor what a link leads to."""
    (tmp_path / "a.md").write_text("mine")
    (tmp_path / "b.md").symlink_to(tmp_path / "target")
    for name in ("a.md", "b.md"):
        with pytest.raises(UsageError):
            write_new_file((tmp_path / name,), "text")
    with pytest.raises(UsageError, match=r"no/a\.md"):
        write_new_file((tmp_path / "no" / "a.md",), "text")
    assert write_new_file((tmp_path / "a.md", tmp_path / "c.md"), "lone \udc80") == tmp_path / "c.md"
    assert (tmp_path / "a.md").read_text() == "mine"
    assert not (tmp_path / "target").exists()
