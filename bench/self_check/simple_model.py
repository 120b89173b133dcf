"""A model that makes one mistake on purpose, and then does what the answers say, in the plainest way.

It knows nothing of `ralph`: it reads answers by the rules of `reading`, and repeats its call where it finds no advice.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from scaffold.core.conversation import (
    AssistantMessage,
    DeltaHandler,
    Reply,
    Request,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
    ignore_delta,
)
from scaffold.core.model import Usage
from scaffold.llm.wire.format import parse_arguments
from self_check import reading
from self_check.intention import Call, Intention, change_call

REPLIES_LEFT = 2
"""Replies after the mistake in which it has to be put right."""
EDITING = ("edit", "apply_delta", "apply_patch", "write_file")
_NOT_THERE = re.compile(
    r"no (?:such )?(?:file|folder|directory)|outside|not a folder|does not exist|There is no", re.IGNORECASE
)
_NUMBERS = re.compile(r"(?:without|leave|remove|no)\b.{0,40}\bnumbers", re.IGNORECASE)


class Habits(Struct, frozen=True, kw_only=True):
    """How the model behaves besides its mistake."""

    numbered: bool = False
    """It copies line numbers along with lines, until it is told not to."""
    stubborn: bool = False
    """It repeats a call that failed, as long as the answer stays the same."""


class Script(Struct, frozen=True, kw_only=True):
    """What the model does up to its mistake: whole replies of calls, then the mistaken one, of calls or of text."""

    first: Sequence[Sequence[Intention]] = ()
    wrong: Sequence[Intention] = ()
    text: str = ""
    """A mistaken reply without a call; `wrong` is what it would have been."""
    is_text: bool = False
    habits: Habits = Habits()
    meanwhile: Callable[[], object] = bool
    """Called right before the mistaken reply: what the user does then."""


class SimpleModel:
    """A model, as an agent uses it."""

    window_tokens = None
    is_small = False

    def __init__(self, script: Script) -> None:
        self._script = script
        self._numbered = script.habits.numbered
        self._asked = 0
        self._tools: Sequence[str] = ()
        self._open: dict[str, Intention] = {}
        self._known: dict[str, dict[int, str]] = {}
        self._read: list[str] = []
        self._answer = ""
        self.log: list[str] = []
        """What it read, for whoever wants to know why it failed."""

    def estimate(self, request: Request) -> Usage:  # noqa: ARG002 - it costs nothing
        """Return the usage of one request."""
        return Usage(requests=1)

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:  # noqa: ARG002 - it says all at once
        """Return the next reply of the script, then what the answers lead to."""
        self._asked += 1
        self._tools = [tool.name for tool in request.tools]
        last = request.messages[-1]
        assert isinstance(last, UserMessage)
        before = len(self._script.first)
        if self._asked <= before:
            self._take(last)
            return self._calls(self._script.first[self._asked - 1])
        if self._asked == before + 1:
            self._take(last)
            self._script.meanwhile()
            return self._mistake()
        todo = self._take(last)
        done = not todo or self._asked > before + 1 + REPLIES_LEFT
        return self._said(self._answer or "Done.") if done else self._calls(todo)

    def _mistake(self) -> Reply:
        if not self._script.is_text:
            return self._calls(self._script.wrong)
        self._open = {str(at): each for at, each in enumerate(self._script.wrong)}
        return self._said(self._script.text)

    def _calls(self, intentions: Sequence[Intention]) -> Reply:
        calls = [_tool_call(f"{self._asked}-{at}", each.call) for at, each in enumerate(intentions)]
        self._open = {call.id: each for call, each in zip(calls, intentions, strict=True)}
        self.log += [f"> {call.name} {dict(call.args)}"[:300] for call in calls]
        return Reply(message=AssistantMessage(tuple(calls)), usage=Usage(requests=1), stop="tool_calls")

    def _said(self, text: str) -> Reply:
        self.log.append(f"> {text}")
        return Reply(message=AssistantMessage((Text(text),)), usage=Usage(requests=1), stop="end")

    def _take(self, message: UserMessage) -> Sequence[Intention]:
        """Return what is to be done after these results, or after a text that asks for a call."""
        opened, self._open = self._open, {}
        texts = "\n".join(part.text for part in message.parts if isinstance(part, Text))
        self.log += [f"< {texts}"] if self._asked > 1 and texts else []
        todo = list[Intention]()
        for part in message.parts:
            if isinstance(part, ToolResult):
                self.log.append(f"< {part.content}"[:600])
                todo += self._after(opened[part.call_id], part)
        if self._asked > 1 and re.search(r"\b(?:call|tool)\b", texts):
            todo += opened.values()
        return todo

    def _after(self, done: Intention, result: ToolResult) -> Sequence[Intention]:
        text, wish, call = result.content, done.wish, done.call
        self._read.append(text)
        self._learn(call, text, failed=result.failed)
        self._answer = self._answer or wish.answer_in(text)
        if (not result.failed and call.name in EDITING) or (wish.find and self._answer):
            return ()
        if result.failed and self._script.habits.stubborn and self._read.count(text) == len(self._read):
            return (done,)
        return (self._next(done, text, failed=result.failed),)

    def _learn(self, call: Call, text: str, *, failed: bool) -> None:
        shown = reading.numbered_lines(text)
        if call.path and shown and not failed:
            path = call.path if call.name == "read_file" else reading.nearest_path(call.path, reading.paths_in(text))
            self._known.setdefault(path or call.path, {}).update(shown)

    def _next(self, done: Intention, text: str, *, failed: bool) -> Intention:
        rules: Sequence[Callable[[Intention, str], Intention | None]] = (
            self._other_tool,
            _well_formed,
            _other_arguments,
            _other_pattern,
            self._without_numbers,
            self._in_folder,
            self._other_path,
            self._from_shown_lines,
            _with_shown_line,
            _with_shown_words,
            _at_named_line,
            self._from_known_lines,
            self._other_proposal,
            self._reread,
            self._named_tool,
            _further,
        )
        if not failed and done.goal is None and done.call.name in {"shell", "read_file", "search_files"}:
            rules = (self._from_shown_lines, _other_pattern, self._named_tool, _further)
        elif not failed:
            rules = (self._from_shown_lines, _resumed, self._named_tool)
        found = (rule(done, text) for rule in rules)
        return next((each for each in found if each is not None), done)

    def _other_tool(self, done: Intention, text: str) -> Intention | None:
        name = done.call.name
        if name in self._tools:
            return None
        proposed = [each for each in reading.suggestions(text) if each in self._tools]
        other = proposed[0] if proposed else reading.nearest(name, tuple(reading.tools_in(text, self._tools)))
        if not other:
            return None
        renamed = done.by(Call(other, done.call.args))
        return _other_arguments(renamed, text) or renamed

    def _without_numbers(self, done: Intention, text: str) -> Intention | None:
        if not self._numbered or not _NUMBERS.search(text):
            return None
        self._numbered = False
        plain = {name: _unnumbered(value) for name, value in done.call.args.items()}
        return done.by(Call(done.call.name, plain))

    def _in_folder(self, done: Intention, _: str) -> Intention | None:
        advised = re.search(r"\bcd (\S+) &&", "\n".join(self._read))
        command = str(done.call.args.get("command", ""))
        if not advised or not command or command.startswith("cd "):
            return None
        return done.by(done.call.having(command=f"cd {advised[1]} && {command}"))

    def _other_path(self, done: Intention, text: str) -> Intention | None:
        goal = done.goal or done.call
        if not goal.path or not _NOT_THERE.search(text):
            return None
        other = reading.nearest_path(goal.path, [each for each in reading.paths_in(text) if each != goal.path])
        if other:
            return done.by(goal.at(other))
        parent, _, name = goal.path.rpartition("/")
        for tool in reading.tools_in(text, self._tools):
            if tool == "list_dir":
                return done.looking(Call(tool, {"path": parent or "."}))
            if tool in {"glob", "search_files"}:
                return done.looking(Call(tool, {"pattern": name}))
        return None

    def _other_proposal(self, done: Intention, text: str) -> Intention | None:
        """Take the next path that an earlier answer proposed, where the first one was not it."""
        path = done.call.path
        earlier = [
            each for each in self._read if path in (named := reading.paths_in(each)) and "mean" in each and named
        ]
        rest = [each for each in reading.paths_in(earlier[0])[1:] if each != path] if earlier and path else []
        other = reading.nearest_path(path, rest)
        return done.by(done.call.at(other)) if other and self._read[-1] is text else None

    def _from_shown_lines(self, done: Intention, text: str) -> Intention | None:
        goal = done.goal or done.call
        shown = reading.numbered_lines(text)
        tool = goal.name if goal.name in EDITING[:3] else "edit"
        change = change_call(tool, self._path_of(goal, text), shown, done.wish, numbered=self._numbered)
        return done.by(change) if change and change != done.call else None

    def _path_of(self, goal: Call, text: str) -> str:
        """Return the path that the lines of a text belong to."""
        paths = reading.paths_in(text)
        return goal.path if goal.path in paths else reading.nearest_path(goal.path, paths) or goal.path

    def _from_known_lines(self, done: Intention, text: str) -> Intention | None:
        known = self._known.get(done.call.path)
        if not reading.line_numbers(text) or known is None:
            return None
        change = change_call(done.call.name, done.call.path, known, done.wish, numbered=self._numbered)
        return done.by(change) if change and change != done.call else None

    def _reread(self, done: Intention, text: str) -> Intention | None:
        path = done.call.path
        return done.looking(Call("read_file", {"path": path})) if path and reading.says_read_again(text) else None

    def _named_tool(self, done: Intention, text: str) -> Intention | None:
        wanted = done.wish.find or done.wish.key
        named = next((tool for tool in reading.tools_in(text, self._tools) if tool != done.call.name), "")
        if named != "search_files" or not wanted:
            return None
        named_paths = [each for each in reading.paths_in(text.splitlines()[-1]) if each.startswith("/")]
        place = {"path": path} if (path := next(iter(named_paths), done.call.path)) else {}
        return done.looking(Call(named, {"pattern": wanted, **place}))


def _well_formed(done: Intention, text: str) -> Intention | None:
    """Write the arguments as JSON, where the answer misses that."""
    return done.by(Call(done.call.name, done.call.args)) if done.call.text is not None and "JSON" in text else None


def _other_arguments(done: Intention, text: str) -> Intention | None:
    """Rename the arguments that do not exist to those that are missing, or that are most like them; drop the others."""
    args = dict(done.call.args)
    wrong = [name for name in args if re.search(rf"no (?:argument |parameter )?`{name}`", text)]
    missing = re.findall(r"needs `(\w+)`", text)
    offered = [word for word in reading.quoted(text) if word not in args]
    if not wrong and not missing:
        return None
    for name in wrong:
        value = args.pop(name)
        proposed = re.search(rf"`{name}`[^`]*mean `(\w+)`", text)
        near = proposed[1] if proposed else reading.nearest(name, missing) or next(iter(missing), "")
        near = near or reading.nearest(name, offered)
        missing = [each for each in missing if each != near]
        args |= {near: value} if near else {}
    return done.by(Call(done.call.name, args))


def _other_pattern(done: Intention, text: str) -> Intention | None:
    """Take the pattern that the answer shows, or escape it if that is advised."""
    pattern = done.call.args.get("pattern")
    if not isinstance(pattern, str):
        return None
    shown = [words for words in reading.quoted(text) if words not in {pattern, *done.call.args}]
    if shown:
        return done.by(done.call.having(pattern=shown[0]))
    return done.by(done.call.having(pattern=re.escape(pattern))) if re.search(r"\bescape\b", text) else None


def _with_shown_line(done: Intention, text: str) -> Intention | None:
    """Correct the lines of a text that the answer shows otherwise, in what is to replace it, too."""
    old, new = done.call.args.get("old"), done.call.args.get("new")
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    lines = old.splitlines()
    # A single line may be meant at several places.
    if len(lines) == 1:
        return None
    for shown in reading.numbered_lines(text).values():
        near = max(lines, key=lambda line: reading.similar(line, shown), default="")
        if shown.strip() and shown not in lines and reading.similar(near, shown) >= reading.NEAR:
            old, new = old.replace(near, shown), new.replace(near, shown)
    return done.by(done.call.having(old=old, new=new)) if old != done.call.args["old"] else None


def _with_shown_words(done: Intention, text: str) -> Intention | None:
    """Put the one line that the answer shows in place of the words that it quotes as wrong."""
    shown = list(reading.numbered_lines(text).values())
    patched = done.call.args.get("input")
    quoted = [words for words in reading.quoted(text) if isinstance(patched, str) and f" {words}\n" in patched]
    if len(shown) != 1 or len(quoted) != 1 or not isinstance(patched, str):
        return None
    return done.by(done.call.having(input=patched.replace(quoted[0], shown[0].strip())))


def _at_named_line(done: Intention, text: str) -> Intention | None:
    """Move the change to the line where the answer has found what was expected."""
    found = re.search(r"\bis at line (\d+)", text)
    operations = done.call.args.get("operations")
    if not found or not isinstance(operations, list):
        return None
    return done.by(done.call.having(operations=[{**each, "start_line": int(found[1])} for each in operations]))


def _resumed(done: Intention, text: str) -> Intention | None:
    """Go back to what was wanted, at the path that a list shows if there is one."""
    if done.goal is None:
        return None
    if done.call.name == "read_file":
        return done.by(done.goal)
    folder = "" if done.call.name == "glob" or done.call.path in {"", "."} else f"{done.call.path.rstrip('/')}/"
    other = reading.nearest_path(done.goal.path, [each for each in reading.paths_in(text) if f"{each}:" not in text])
    return done.by(done.goal.at(folder + other)) if other else None


def _further(done: Intention, text: str) -> Intention | None:
    """Read on where the answer says so."""
    more = re.search(r"start_line (\d+)", text)
    return done.looking(done.call.having(start_line=int(more[1]))) if more and done.call.path else None


def _unnumbered(value: Any) -> Any:
    if isinstance(value, list):
        return [{name: _unnumbered(each) for name, each in member.items()} for member in value]
    return re.sub(r"^\s*\d+\t", "", value, flags=re.MULTILINE) if isinstance(value, str) else value


def _tool_call(call_id: str, call: Call) -> ToolCall:
    args: Mapping[str, Any] = call.args if call.text is None else parse_arguments(call.text)
    return ToolCall(call_id, call.name, args)
