"""A coding agent of others without a model: it speaks one of four wires, asks, and does what its script says.

`install_programs` puts one for each wire on a PATH. The script is `script.json` in the program's own folder: for a word
of the first prompt the steps to take. A session remembers which it has taken.
"""

import itertools
import json
import os
import signal
import subprocess  # noqa: TID251 - it runs alone, in a sandbox
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WIRES = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("CODEX_HOME", ".codex"),
    "gemini": ("", ".gemini"),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent"),
}
"""Program -> the variable that names its own folder, and that folder in a home."""
USAGE = {"input": 100, "output": 10}


def install_programs(folder: Path) -> Path:
    """Put the programs into a new folder, and return it."""
    folder.mkdir(parents=True)
    client = Path(__file__).with_name("mcp_client.py")
    (folder / client.name).write_text(client.read_text())
    for name in WIRES:
        (folder / name).write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
        (folder / name).chmod(0o755)
    return folder


def write_script(home: Path, program: str, **steps: Sequence[Mapping[str, Any]]) -> Path:
    """Write what a program does, by a word of its first prompt; return its own folder."""
    own = home / WIRES[program][1]
    own.mkdir(parents=True, exist_ok=True)
    (own / "script.json").write_text(json.dumps(steps))
    return own


def edit(path: str, content: str = "made\n", **more: Any) -> dict[str, Any]:
    """Return the step that asks to write a file, and writes it."""
    return {"do": "edit", "path": path, "content": content, **more}


def run(command: str, **more: Any) -> dict[str, Any]:
    """Return the step that asks to run a command, and runs it."""
    return {"do": "run", "command": command, **more}


def call(tool: str, **args: Any) -> dict[str, Any]:
    """Return the step that calls a tool of the MCP server that the program was given."""
    return {"do": "call", "tool": tool, "args": args}


def say(text: str) -> dict[str, Any]:
    """Return the step with which the turn ends: its last words."""
    return {"do": "say", "text": text}


class Wire:
    """One wire: how a turn begins, and what is told and asked in it."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.server: list[str] = []
        """The command of the MCP server that the turn has; empty for none."""

    def send(self, message: object) -> None:
        print(json.dumps(message), flush=True)

    def receive(self) -> Any:
        for line in sys.stdin:
            message = json.loads(line)
            if self.is_interrupt(message):
                self.end("interrupted", {"interrupted": True})
                sys.exit(0)
            return message
        sys.exit(0)

    def is_interrupt(self, message: Any) -> bool:
        return False

    def begin(self, open_session: Any) -> str:
        raise NotImplementedError

    def ask(self, name: str, args: Mapping[str, Any]) -> str:
        """Return why a call is denied; empty if it is allowed."""
        raise NotImplementedError

    def tell(self, call: int, name: str, args: Mapping[str, Any], output: str | None, *, failed: bool = False) -> None:
        """Tell that a tool begins, or what it returned."""

    def use(self, usage: Mapping[str, Any]) -> None:
        """Tell what was used so far."""

    def end(self, text: str, failure: Mapping[str, Any] | None) -> None:
        raise NotImplementedError


class ClaudeWire(Wire):
    def is_interrupt(self, message: Any) -> bool:
        return bool(message.get("request", {}).get("subtype") == "interrupt")

    def begin(self, open_session: Any) -> str:
        argv = [each.partition("=") for each in sys.argv if each.startswith("--resume=")]
        given = argv[0][2] if argv else ""
        if "--mcp-config" in sys.argv:
            config = json.loads(sys.argv[sys.argv.index("--mcp-config") + 1])
            ((_, server),) = config["mcpServers"].items()
            self.server = [server["command"], *server["args"]]
        while True:
            message = self.receive()
            if message.get("type") == "user":
                break
            answer = {"subtype": "success", "request_id": message["request_id"], "response": {"session": {}}}
            self.send({"type": "control_response", "response": answer})
        self.session = open_session(given)
        init = {"type": "system", "subtype": "init", "session_id": self.session, "permissionMode": "default"}
        self.send({**init, "model": "claude-sonnet-4-5"})
        return str(message["message"]["content"][0]["text"])

    def ask(self, name: str, args: Mapping[str, Any]) -> str:
        tool = {"edit": "Edit", "run": "Bash"}.get(name, name)
        request = {"subtype": "can_use_tool", "tool_name": tool, "tool_use_id": "t1", "input": args}
        self.send({"type": "control_request", "request_id": f"q{next(self.numbers)}", "request": request})
        answer = self.receive()["response"]["response"]
        return "" if answer["behavior"] == "allow" else str(answer["message"])

    def tell(self, call: int, name: str, args: Mapping[str, Any], output: str | None, *, failed: bool = False) -> None:
        if output is None:
            tool = {"edit": "Edit", "run": "Bash"}.get(name, f"mcp__scaffold__{name}")
            block = {"type": "tool_use", "id": f"t{call}", "name": tool, "input": args}
            self.send({"type": "assistant", "message": {"id": f"m{call}", "role": "assistant", "content": [block]}})
        else:
            block = {"type": "tool_result", "tool_use_id": f"t{call}", "content": output, "is_error": failed}
            self.send({"type": "user", "message": {"role": "user", "content": [block]}})

    def use(self, usage: Mapping[str, Any]) -> None:
        tokens = {"input_tokens": usage["input"], "output_tokens": usage["output"]}
        message = {"id": f"u{next(self.numbers)}", "role": "assistant", "content": [], "usage": tokens}
        self.send({"type": "assistant", "message": message})

    def end(self, text: str, failure: Mapping[str, Any] | None) -> None:
        if failure and "limit" in failure:
            limit = {"status": "rejected", "resetsAt": failure["limit"], "rateLimitType": "five_hour"}
            self.send({"type": "rate_limit_event", "rate_limit_info": limit})
        if not failure:
            block = {"type": "text", "text": text}
            self.send({"type": "assistant", "message": {"id": "last", "role": "assistant", "content": [block]}})
        result = {"type": "result", "subtype": "success", "session_id": self.session, "result": text}
        self.send({**result, "is_error": failure is not None, **(failure or {})})


class RpcWire(Wire):
    def answer(self, message: Any, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def note(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, **params: Any) -> Any:
        number = next(self.numbers)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            message = self.receive()
            if "method" not in message and message.get("id") == number:
                return message["result"]

    def opens(self, open_session: Any, message: Any, given: str) -> bool:
        try:
            self.session = open_session(given)
        except LookupError:
            error = {"code": -32603, "message": "there is no such conversation"}
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return False
        return True


class CodexWire(RpcWire):
    def is_interrupt(self, message: Any) -> bool:
        return bool(message.get("method") == "turn/interrupt")

    def begin(self, open_session: Any) -> str:
        while True:
            message = self.receive()
            match message["method"]:
                case "initialize":
                    self.answer(message, {"userAgent": "codex/1.0"})
                case "thread/start" | "thread/resume":
                    for server in message["params"].get("config", {}).get("mcp_servers", {}).values():
                        self.server = [server["command"], *server["args"]]
                    if not self.opens(open_session, message, message["params"].get("threadId", "")):
                        continue
                    self.answer(message, {"thread": {"id": self.session}, "model": "gpt-5"})
                case "turn/start":
                    self.answer(message, {"turn": {"id": "turn"}})
                    return str(message["params"]["input"][0]["text"])

    def _item(self, call: int, name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        if name == "run":
            return {"type": "commandExecution", "id": f"t{call}", "command": args["command"]}
        if name != "edit":
            return {"type": "mcpToolCall", "id": f"t{call}", "server": "scaffold", "tool": name, "arguments": args}
        changes = [{"path": args["file_path"], "kind": {"type": "add"}, "diff": ""}]
        return {"type": "fileChange", "id": f"t{call}", "changes": changes}

    def ask(self, name: str, args: Mapping[str, Any]) -> str:
        kind = "commandExecution" if name == "run" else "fileChange"
        self.note("item/started", item=self._item(self.call, name, args))
        named = {"itemId": f"t{self.call}", "threadId": self.session, "turnId": "turn", **args}
        decided = self.request(f"item/{kind}/requestApproval", **named)["decision"]
        return "" if decided == "accept" else str(decided)

    def tell(self, call: int, name: str, args: Mapping[str, Any], output: str | None, *, failed: bool = False) -> None:
        self.call = call
        if output is not None:
            code = int(failed)
            item = {**self._item(call, name, args), "status": "failed" if failed else "completed"}
            self.note("item/completed", item={**item, "aggregatedOutput": output, "exitCode": code})

    def use(self, usage: Mapping[str, Any]) -> None:
        tokens = {"inputTokens": usage["input"], "outputTokens": usage["output"], "cachedInputTokens": 0}
        tokens |= {"totalTokens": usage["input"] + usage["output"], "reasoningOutputTokens": 0}
        self.note(
            "thread/tokenUsage/updated",
            threadId=self.session,
            turnId="turn",
            tokenUsage={"total": tokens, "last": tokens},
        )

    def end(self, text: str, failure: Mapping[str, Any] | None) -> None:
        self.note("item/agentMessage/delta", itemId="text", delta=text)
        self.note("item/completed", item={"type": "agentMessage", "id": "text", "text": text})
        turn = {"id": "turn", "status": "failed" if failure else "completed", "error": failure}
        self.note("turn/completed", threadId=self.session, turn=turn)


class AcpWire(RpcWire):
    def is_interrupt(self, message: Any) -> bool:
        return bool(message.get("method") == "session/cancel")

    def begin(self, open_session: Any) -> str:
        modes = {"currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}]}
        while True:
            message = self.receive()
            match message["method"]:
                case "initialize":
                    can = {"loadSession": True}
                    self.answer(message, {"protocolVersion": 1, "agentCapabilities": can})
                case "session/new" | "session/load":
                    for server in message["params"]["mcpServers"]:
                        self.server = [server["command"], *server["args"]]
                    if not self.opens(open_session, message, message["params"].get("sessionId", "")):
                        continue
                    self.answer(message, {"sessionId": self.session, "modes": modes})
                case "session/prompt":
                    self.prompt = message
                    return "\n".join(each["text"] for each in message["params"]["prompt"])

    def _call(self, call: int, name: str, args: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        kind = {"edit": "edit", "run": "execute"}.get(name, "other")
        found = {"toolCallId": f"t{call}", "title": name, "kind": kind, "rawInput": args, "status": "pending"}
        if name == "edit":
            found["locations"] = [{"path": args["file_path"]}]
        return {**found, **more}

    def ask(self, name: str, args: Mapping[str, Any]) -> str:
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        options.append({"optionId": "no", "name": "No", "kind": "reject_once"})
        call = self._call(self.call, name, args)
        answer = self.request("session/request_permission", sessionId=self.session, toolCall=call, options=options)
        return "" if answer["outcome"].get("optionId") == "yes" else "denied"

    def tell(self, call: int, name: str, args: Mapping[str, Any], output: str | None, *, failed: bool = False) -> None:
        self.call = call
        update = {"sessionUpdate": "tool_call", **self._call(call, name, args)}
        if output is not None:
            content = [{"type": "content", "content": {"type": "text", "text": output}}]
            update |= {"sessionUpdate": "tool_call_update", "content": content}
            update["status"] = "failed" if failed else "completed"
        self.note("session/update", sessionId=self.session, update=update)

    def end(self, text: str, failure: Mapping[str, Any] | None) -> None:
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.note("session/update", sessionId=self.session, update=chunk)
        self.answer(self.prompt, {"stopReason": "cancelled" if failure else "end_turn"})


class PiWire(Wire):
    def is_interrupt(self, message: Any) -> bool:
        return bool(message.get("type") == "abort")

    def begin(self, open_session: Any) -> str:
        given = sys.argv[sys.argv.index("--session-id") + 1] if "--session-id" in sys.argv else ""
        while True:
            message = self.receive()
            data = {}
            if message["type"] == "get_state":
                self.session = open_session(given)
                data = {"sessionId": self.session, "messageCount": 1 if given else 0}
            self.send({"type": "response", "id": message["id"], "success": True, "data": data})
            if message["type"] == "prompt":
                return str(message["message"])

    def ask(self, name: str, args: Mapping[str, Any]) -> str:
        return ""

    def tell(self, call: int, name: str, args: Mapping[str, Any], output: str | None, *, failed: bool = False) -> None:
        if output is None:
            self.send({"type": "tool_execution_start", "toolCallId": f"t{call}", "toolName": name, "args": args})
        else:
            result = {"content": [{"type": "text", "text": output}]}
            ended = {"type": "tool_execution_end", "toolCallId": f"t{call}", "toolName": name, "isError": failed}
            self.send({**ended, "result": result})

    def end(self, text: str, failure: Mapping[str, Any] | None) -> None:
        self.send({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": text}})
        tokens = {"input": 100, "output": 10, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 110}
        message = {"role": "assistant", "model": "pi-model", "content": [{"type": "text", "text": text}]}
        message |= {"usage": {**tokens, "cost": {"total": 0.01}}, "stopReason": "error" if failure else "stop"}
        self.send({"type": "message_end", "message": {**message, "errorMessage": json.dumps(failure)}})
        self.send({"type": "agent_settled"})


class Turn:
    """One turn: what is left of the steps of a session."""

    def __init__(self, wire: Wire, own: Path) -> None:
        self.wire = wire
        self.own = own
        self.client: Any = None
        self.kept: dict[str, Any] = {"word": "", "done": [], "folder": str(Path.cwd())}

    def open_session(self, given: str) -> str:
        """Return the id of the session, a new one if none was given; LookupError if this folder has none of that id."""
        self.file = self.own / f"session-{given or uuid.uuid4().hex}.json"
        if given and not self.file.exists():
            raise LookupError(given)
        if given:
            self.kept = json.loads(self.file.read_text())
            if self.kept["folder"] != str(Path.cwd()):
                raise LookupError(given)
        return self.file.stem.removeprefix("session-")

    def take(self) -> None:
        prompt = self.wire.begin(self.open_session)
        script = json.loads((self.own / "script.json").read_text())
        if not self.kept["word"]:
            self.kept["word"] = next((word for word in script if word in prompt), "")
        self.keep()
        with (self.own / "prompts.txt").open("a") as file:
            file.write(f"{json.dumps([self.file.stem, prompt])}\n")
        told = []
        for number, step in enumerate(script.get(self.kept["word"], ())):
            if number in self.kept["done"]:
                continue
            if step["do"] == "fail":
                self.keep(number)
                self.wire.end(step.get("text", "failed"), step["failure"])
                return
            if step["do"] == "say":
                self.keep(number)
                told = [step["text"]]
                break
            told.append(self.act(number, step))
        self.wire.use(USAGE)
        self.wire.end("\n".join(told) or "done", None)

    def act(self, number: int, step: Mapping[str, Any]) -> str:
        if step["do"] == "hang":
            # It goes on behind this the next time.
            self.keep(number)
            Path(step["path"]).write_text(str(os.getpid()))
            signal.pause()
        if step["do"] == "use":
            self.wire.use(step)
            self.keep(number)
            return ""
        if step["do"] == "call":
            return self.call(number, step["tool"], step["args"])
        path = str(Path(step["path"]).absolute()) if "path" in step else ""
        args = {"command": step["command"]} if step["do"] == "run" else {"file_path": path}
        self.wire.tell(number, step["do"], args, None)
        denied = "" if step.get("ask") is False else self.wire.ask(step["do"], args)
        if denied:
            self.wire.tell(number, step["do"], args, denied, failed=True)
        elif step["do"] == "run":
            done = subprocess.run(step["command"], shell=True, capture_output=True, text=True, check=False)
            self.wire.tell(number, "run", args, done.stdout + done.stderr, failed=done.returncode != 0)
        else:
            Path(path).write_text(step["content"])
            self.wire.tell(number, "edit", args, "written")
        # What was denied it would ask for again.
        if not denied:
            self.keep(number)
        return f"{step['do']}: {denied or 'done'}"

    def call(self, number: int, tool: str, args: Mapping[str, Any]) -> str:
        if self.client is None:
            from mcp_client import McpClient

            self.client = McpClient(self.wire.server)
        self.wire.tell(number, tool, args, None)
        text, failed = self.client.call(tool, args)
        self.wire.tell(number, tool, args, text, failed=failed)
        self.keep(number)
        return f"{tool}: {text}"

    def keep(self, *done: int) -> None:
        """Remember the steps that were taken."""
        self.kept["done"] += done
        self.file.write_text(json.dumps(self.kept))


def main() -> None:
    """Take one turn, as the program of this name."""
    name = Path(sys.argv[0]).resolve().name
    if "--version" in sys.argv:
        print(f"{name} 99.1")
        return
    variable, folder = WIRES[name]
    own = Path(os.environ.get(variable, "") or Path.home() / folder)
    wires = {"claude": ClaudeWire, "codex": CodexWire, "gemini": AcpWire, "pi": PiWire}
    Turn(wires[name](), own).take()
    sys.stdin.read()


if __name__ == "__main__":
    main()
