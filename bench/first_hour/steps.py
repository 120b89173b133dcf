"""What the user types, in order: the tour of a first hour and a tenth day, then the commands of the pages."""

import re
from collections.abc import Mapping

from msgspec import Struct

from support.documents import blocks, commands

PAGES = ("docs/install.md", "docs/first-run.md", "docs/init.md", "docs/guide.md", "docs/recipes.md")
READERS = frozenset({
    *("status", "goals", "tasks", "agents", "logs", "diff", "contract", "cost", "runs", "queue", "inbox", "baseline"),
    *("doctor", "service", "completion", "--help", "--version"),
})  # fmt: skip
"""Commands that change nothing."""
READING = re.compile(
    r"plan (check|explain|simulate)|trust --show|(cleanup|purge)\b.*--dry-run|config( --list)?$|salvage$"
)
FIRST_ID = 'python3 -c \'import json, sys; print(json.load(sys.stdin)["inbox"][0]["id"])\''
START, REPLACE, WRITE, TRY = "Start? [y/N]", "as shown? [y/N]", ".scaffold.yaml? [Y/n]", "network. [y/N]"
CASSETTE = "cassette:replies.yaml"


class Step(Struct, frozen=True, kw_only=True):
    """One command, and how it has to end."""

    command: str
    codes: frozenset[int] = frozenset({0})
    answers: tuple[tuple[str, str], ...] = ()
    """What is typed at a terminal: a question, and the answer to it."""
    in_pipe: str = ""
    """What is typed in a pipe instead, where no question can be answered; empty for the same."""
    pipe_codes: frozenset[int] | None = None
    still: bool = True
    """Whether nothing changes meanwhile, so that what it prints twice can be compared."""
    page: str = ""
    """The page and line of the block that has the command; empty in the tour."""

    @property
    def reads(self) -> bool:
        """Return whether the command changes nothing and ends by itself, so that it can be typed again."""
        words = self.command.split()
        if not self.still or words[0] != "scaffold" or not {"|", ">", "-f", "--watch", "$(scaffold"}.isdisjoint(words):
            return False
        return words[1] in READERS or bool(READING.match(" ".join(words[1:])))


def step(command: str, *codes: int, **fields: object) -> Step:
    """Return a step that ends with one of the codes, or with 0."""
    return Step(command=command, codes=frozenset(codes or (0,)), **fields)  # type: ignore[arg-type]


NO_RUN = ("status", "runs", "inbox", "queue", "config --list", "salvage", "cost", "tasks", "agents", "goals")


def before_identity() -> list[Step]:
    """Return what a new user types before git knows a name, and before there is a model."""
    return [
        step("scaffold --version"),
        step("scaffold --help"),
        *(step(f"scaffold {each} --help") for each in ("run", "status", "init", "logs", "resume", "config", "plan")),
        step("scaffold doctor", 1),
        *(step(f"scaffold {each}") for each in NO_RUN),
        step("scaffold status --json"),
        *(step(f"scaffold {each}", 64) for each in ("logs", "open", "resume", "stop", "contract store", "logs store")),
        step("scaffold stats", 64),
        step("scaffold rnu 'add a command line'", 64),
        step("scaffold run 'add a command line' --budgte-usd 2", 64),
        step("scaffold run spec.md", 64),
        step("scaffold run plan.yaml", 64),
        step("scaffold run status", 64),
        step("scaffold run 'add a command line that reads a file'", 64),
        step("scaffold run --plan plan.yaml --model nothing", 64),
        step("scaffold run --plan none.yaml --model cassette:replies.yaml", 64),
        step("scaffold run --plan plan.yaml --model cassette:replies.yaml", 64),
        step("scaffold status no-such-run", 64),
        step("scaffold config budget_us 3", 64),
        step("scaffold config budget_usd much", 64),
        step("scaffold -C /no/such/folder status", 64),
        step("scaffold -C / init", 64),
        step("scaffold completion fsh", 64),
    ]


def set_up(settings: Mapping[str, str]) -> list[Step]:
    """Return what is typed until a run can start; `settings` are the user's own, if any are needed."""
    tried = ((TRY, "y"), (WRITE, "y"))
    own = [step(f'scaffold config {name} "{value}"') for name, value in settings.items()]
    return [
        step("git config --global user.name Ada && git config --global user.email ada@example.org"),
        step("scaffold config model cassette:replies.yaml"),
        step("scaffold init --dry-run"),
        step("scaffold init", answers=tried, in_pipe="scaffold init --yes"),
        *own,
        step("scaffold trust --show"),
        step("scaffold trust", answers=(("[y/N]", "y"),), in_pipe="scaffold trust --yes"),
        step("git add .scaffold.yaml && git commit -qm 'Configure Scaffold'"),
        step("scaffold doctor"),
        step("scaffold doctor --gates", still=False),
        step("scaffold init", answers=((REPLACE, "n"),)),
        step("scaffold config"),
        step("scaffold config budget_usd 20 && scaffold config budget_usd && scaffold config --unset budget_usd"),
        step("scaffold plan check plan.yaml"),
        step("scaffold plan check unreachable.yaml", 4),
        step("scaffold run --plan unreachable.yaml", 4),
        step("scaffold plan explain plan.yaml"),
        step("scaffold plan simulate plan.yaml --agents 4"),
        step("scaffold run --plan plan.yaml --dry-run"),
    ]


VIEWS = (
    *("status", "goals", "tasks", "agents", "logs", "cost", "runs", "queue", "inbox", "salvage", "baseline", "diff"),
    *("cleanup --dry-run", "purge --dry-run", "doctor"),
)


FEWER = ("status", "tasks", "cost", "runs", "inbox", "salvage")


def views(*more: str, names: tuple[str, ...] = FEWER) -> list[Step]:
    """Return the commands that look at a run, and `more` of them."""
    return [step(f"scaffold {each}") for each in (*names, *more)]


def work() -> list[Step]:
    """Return runs that land, fail, run out of money, wait for a human, and are steered."""
    plan = "scaffold run --plan"
    budget = "--budget-usd 0.05"
    return [
        step("ralph --help"),
        step("ralph 'what does this project do?'"),
        step(f"{plan} plan.yaml", 3, answers=((START, "n"),)),
        *views(),
        step(f"{plan} plan.yaml", answers=((START, "y"),), in_pipe=f"{plan} plan.yaml --yes"),
        *views("logs store", "logs store --full", "contract store", "diff store", "contract api", names=VIEWS),
        step("scaffold open --json"),
        step(f"{plan} wrong.yaml --yes", 1),
        *views("logs wrong", "contract wrong", "tasks wrong"),
        step("scaffold retry wrong"),
        step("scaffold cancel"),
        step(f"{plan} plan.yaml --yes {budget}", 2),
        *views(),
        step("scaffold resume --budget-usd 20"),
        step("scaffold config approvals.shell ask && scaffold config inbox.wait_s 1"),
        step(f"{plan} asks.yaml --yes --detach"),
        step("scaffold attach", 3, answers=(("answer:", "later"),)),
        *views("logs asks"),
        step(f"scaffold approve $(scaffold inbox --json | {FIRST_ID})"),
        step("scaffold resume"),
        step("scaffold config --unset approvals.shell && scaffold config --unset inbox.wait_s"),
        step(f"{plan} slow.yaml --yes --detach"),
        *(step(f"scaffold {each}", still=False) for each in ("status", "tasks", "agents", "queue", "runs", "cost")),
        step("scaffold pause"),
        step("scaffold resume"),
        step("scaffold attach", 0, 3),
        step("scaffold run --plan slow.yaml --yes --detach --agents 1"),
        step("scaffold stop"),
        step("scaffold status", still=False),
        step("scaffold cancel"),
        step("scaffold cancel", 64),
        step("scaffold pause", 64),
        step("scaffold retry", 64),
        step("scaffold send store 'use files'", 64),
        step("scaffold path store", 64),
        step("scaffold runs --json"),
        step("scaffold runs --status failed"),
        step('eval "$(scaffold completion bash)" && complete -p scaffold'),
        step("git checkout -q --detach && scaffold run --plan plan.yaml --dry-run && git checkout -q main"),
        step(
            "was=$PWD; cd .. && mv $was moved && cd moved && scaffold status && scaffold runs; cd .. && mv moved $was"
        ),
    ]


def of_pages(names: dict[str, str]) -> list[Step]:
    """Return the commands of the pages' blocks, with `names` in place of the words in capitals."""
    found = list[Step]()
    for page in PAGES:
        for block in blocks(page):
            if block.language != "sh" or block.reason is not None:
                continue
            for line in block.text.splitlines():
                text = line
                for name, value in names.items():
                    text = re.sub(rf"\b{name}\b", value, text)
                if commands(text):
                    found.append(_of_page(block.place, text))
    return found


def _of_page(page: str, text: str) -> Step:
    asks = re.match(r"scaffold (-C \S+ )?run ", text) and "--yes" not in text and "--dry-run" not in text
    if asks:
        return step(text, 3, page=page, answers=((START, "n"),))
    if text.startswith("scaffold init") and "--" not in text:
        return step(text, page=page, answers=((TRY, "n"), ("[y/N]", "n")))
    return step(text, page=page)
