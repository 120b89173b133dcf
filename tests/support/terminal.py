"""The real `ralph` in a pseudo-terminal, whose screen is read as a person would."""

import os
import re
import signal
import sys
import time
from contextlib import contextmanager

import pexpect
import pyte
import yaml

from scaffold.cli.approval_answers import MIN_IDLE_S
from support.scenario import PATIENCE_S, wait_until

ARMED = r"^y yes "
"""The row of answers once a key counts."""

PROMPT = r"^answer:\Z"
"""The prompt of a run's question as the last line of the screen, with nothing typed."""

IDLE = r"/help$"
"""The end of the status line while the user may type."""

ENTER, ESCAPE, CTRL_C, CTRL_D, ALT_ENTER, UP = "\r", "\x1b", "\x03", "\x04", "\x1b\r", "\x1b[A"


def record_replies(scenario, *replies, name="talk.yaml"):
    """Write a cassette for `ralph`: texts, tool calls, or lists of calls in one reply, in order."""
    entries = []
    for turn, reply in enumerate(replies, start=1):
        calls = reply if isinstance(reply, list) else [reply]
        said = {"text": reply} if isinstance(reply, str) else {"tool_calls": calls}
        usage = {"input_tokens": 100, "output_tokens": 10}
        entries.append({"when": {"role": "agent", "turn": turn}, "usage": usage, **said})
    path = scenario.home / name
    path.write_text(yaml.safe_dump({"version": 1, "replies": entries, "prices": {"input_per_mtok": 10_000}}))
    return f"cassette:{path}"


class Screen:
    """A terminal of `columns` by `rows` in which a command runs; `raw` is its complete output."""

    def __init__(self, argv, *, cwd, env, columns=80, rows=24):
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self._screen)
        self.raw = ""
        self.child = pexpect.spawn(
            argv[0],
            argv[1:],
            cwd=str(cwd),
            env=env,
            dimensions=(rows, columns),
            encoding="utf-8",
            echo=True,
            timeout=PATIENCE_S,
        )

    def send(self, keys):
        self.child.send(keys)

    def type_line(self, words):
        """Type a line and press enter."""
        self.send(words + ENTER)

    def read(self, seconds=0.05):
        """Read available output; return whether there may be more."""
        try:
            data = self.child.read_nonblocking(65_536, timeout=seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True

    def read_for(self, seconds):
        """Read all output of at least so many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.read():
            pass

    def pause(self):
        """Press no key for longer than the REPL needs to take the next one for an answer, even if it is slow."""
        self.read_for(4 * MIN_IDLE_S)

    @property
    def text(self):
        """All lines, including those that scrolled away."""
        gone = [
            "".join(line[n].data for n in range(self._screen.columns)).rstrip() for line in self._screen.history.top
        ]
        return "\n".join([*gone, *(line.rstrip() for line in self._screen.display)]).rstrip()

    def wait_for(self, pattern, *, times=1, seconds=PATIENCE_S):
        """Wait until a regular expression is found this many times; return the text."""
        end = time.monotonic() + seconds
        while len(re.findall(pattern, self.text, re.MULTILINE)) < times:
            more = self.read()
            found = len(re.findall(pattern, self.text, re.MULTILINE)) >= times
            assert found or (more and time.monotonic() < end), f"{pattern!r} was not shown:\n{self.text}"
        return self.text

    def answer(self, key):
        """Answer a question as soon as it accepts keys."""
        self.wait_for(ARMED)
        self.read()  # a row that is not whole yet looks the same
        self.wait_for(ARMED)
        self.send(key)
        end = time.monotonic() + PATIENCE_S
        while re.search(r"^y yes ", self.text, re.MULTILINE) and time.monotonic() < end:
            self.read()
            if not re.search(ARMED, self.text, re.MULTILINE):
                return

    def wait_for_exit(self):
        """Wait for the command's end and return its exit code, or minus the signal it died of."""
        end = time.monotonic() + PATIENCE_S
        while self.read() and time.monotonic() < end:
            pass
        assert wait_until(lambda: not self.child.isalive()), f"it did not end:\n{self.text}"
        return self.child.exitstatus if self.child.signalstatus is None else -self.child.signalstatus

    def close(self):
        """Close the terminal without ending the command."""
        self.child.ptyproc.fileobj.close()

    def stop(self):
        """End the command, if it is running, and close the terminal."""
        if self.child.isalive():
            self.child.kill(signal.SIGKILL)
            self.child.wait()
        self.close()


def reply(screen, words):
    """Answer a run's question; again and again, as an answer that follows the question too soon does not count."""
    screen.wait_for(PROMPT)
    asked, echoed = screen.text, {*words.split(ENTER), ""}

    def is_taken():
        screen.read()
        lines = screen.text.removeprefix(asked).split("\n")
        return any(line.replace("answer:", "").strip() not in echoed for line in lines)

    def is_taken_when_sent():
        screen.send(words)
        return wait_until(is_taken, 2 * MIN_IDLE_S)

    assert wait_until(is_taken_when_sent), screen.text


def printed_lines(args, *, cwd, columns, **environ):
    """Return the lines that `scaffold` prints in a terminal, without colors, before the terminal wraps them."""
    own = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    env = {**own, "TERM": "xterm", "NO_COLOR": "1", **environ}
    screen = Screen([sys.executable, "-m", "scaffold", *args], cwd=cwd, env=env, columns=columns)
    try:
        screen.wait_for_exit()
    finally:
        screen.stop()
    return screen.raw.replace("\r\n", "\n").splitlines()


def ralph(scenario, *args, columns=80, rows=24, **environ):
    """Start `ralph` in a new terminal, in the scenario's repository."""
    env = {**scenario.environ, "TERM": "xterm-256color", **environ}
    argv = [sys.executable, "-m", "scaffold", "ralph", *args]
    return Screen(argv, cwd=scenario.repo, env=env, columns=columns, rows=rows)


@contextmanager
def terminals(scenario):
    """Yield a function that starts `ralph` in a terminal; all of them are ended afterwards."""
    started = []

    def start(*args, **options):
        started.append(ralph(scenario, *args, **options))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            each.stop()
