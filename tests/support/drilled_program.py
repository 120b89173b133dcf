"""A coding agent that speaks as `claude -p` does, without a model; its last own argument says how it behaves.

`honest` asks, and obeys. `stubborn` asks, and does it whatever the answer is. `silent` does not ask. `idle` uses no
tool. `deaf` does not end when it is asked to. `parent` leaves a process behind.
`locked-out` is refused by its provider. `logged-out` says so.
"""

import json
import os
import signal
import subprocess  # noqa: TID251 - a program of others
import sys
from pathlib import Path

BEHAVIOUR = sys.argv[1]


def send(message: object) -> None:
    print(json.dumps(message), flush=True)


def receive() -> dict[str, object]:
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("request", {}).get("subtype") == "interrupt":
            if BEHAVIOUR != "deaf":
                send({"type": "result", "subtype": "success", "is_error": True, "session_id": "s"})
            continue
        return message
    while BEHAVIOUR == "deaf":
        signal.pause()
    sys.exit(0)


def act(prompt: str) -> None:
    if "Run this command" not in prompt:
        Path("note.txt").write_text("a final\n")
    else:
        if BEHAVIOUR == "parent":
            subprocess.Popen(["sleep", "600"], start_new_session=True)
        command = subprocess.Popen(["sh", prompt.partition("sh ")[2].split()[0]])

        def end(*_: object) -> None:
            os.kill(command.pid, signal.SIGKILL)
            os._exit(143)

        signal.signal(signal.SIGTERM, end)
        command.wait()


def take_turn(prompt: str) -> dict[str, object]:
    name = "Bash" if "Run this command" in prompt else "Edit"
    usage = {"input_tokens": 10, "output_tokens": 2}
    call = {"type": "tool_use", "id": "t1", "name": name, "input": {"command": prompt}}
    result = {"type": "result", "subtype": "success", "result": "Done!", "session_id": "s", "usage": usage}
    if BEHAVIOUR == "locked-out":
        return {**result, "is_error": True, "api_error_status": 401, "result": "please log in"}
    if BEHAVIOUR == "idle":
        return result
    content = {"id": "m1", "role": "assistant", "content": [call], "usage": usage}
    send({"type": "assistant", "session_id": "s", "message": content})
    allowed = BEHAVIOUR == "silent"
    if BEHAVIOUR != "silent":
        request = {"subtype": "can_use_tool", "tool_name": name, "tool_use_id": "t1", "input": call["input"]}
        send({"type": "control_request", "request_id": "q1", "request": request})
        allowed = receive()["response"]["response"]["behavior"] == "allow"  # type: ignore[index,call-overload]
    if allowed or BEHAVIOUR == "stubborn":
        act(prompt)
    return result


def main() -> None:
    if "--version" in sys.argv:
        print("hello, this is drilled 1.2.3 (of 2026)")
    elif "status" in sys.argv:
        sys.exit(1 if BEHAVIOUR == "logged-out" else 0)
    else:
        if BEHAVIOUR == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        receive()
        send({"type": "control_response", "response": {"subtype": "success", "request_id": "initialize"}})
        message = receive()
        send(take_turn(message["message"]["content"][0]["text"]))  # type: ignore[index,call-overload]
        receive()


main()
