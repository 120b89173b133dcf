"""Find the script files that a command runs: an approval holds for their contents, not only for their names."""

from collections.abc import Iterator

from scaffold.policy.shell.command_decision import visible_commands
from scaffold.policy.shell.denial import PRINT_BUILTINS, WRITERS
from scaffold.policy.shell.parsed_command import SimpleCommand, Word
from scaffold.policy.shell.reading.readonly_commands import READ_ONLY_COMMANDS
from scaffold.policy.shell.workspace_paths import WorkspacePaths, path_candidates
from scaffold.policy.shell.wrappers import inner_commands, module_files, program_name

MAX_DEPTH = 4
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_BUILD_FILES = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "bun"), ("package.json",)),
    **dict.fromkeys(("docker", "podman"), ("Dockerfile", "Containerfile", *_COMPOSE)),
    **dict.fromkeys(("docker-compose", "podman-compose"), _COMPOSE),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "rye", "pip"), ("pyproject.toml", "setup.py")),
    **dict.fromkeys(("gradle", "gradlew"), ("build.gradle", "build.gradle.kts", "settings.gradle")),
    **dict.fromkeys(("mvn", "mvnw"), ("pom.xml",)),
    "pipenv": ("Pipfile",),
    "cargo": ("Cargo.toml", "build.rs"),
    "cmake": ("CMakeLists.txt",),
    "composer": ("composer.json",),
    "deno": ("deno.json",),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile", "rakefile"),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
}
"""What these programs run although no argument names it."""
_ONLY_DATA = frozenset(READ_ONLY_COMMANDS) | WRITERS | PRINT_BUILTINS | {"cd"}
"""Programs that run nothing of what their arguments name. Any other one may."""


def script_digests(command: str, workspace: WorkspacePaths) -> tuple[tuple[str, str], ...]:
    """Return (name, digest) of each existing file that a command runs as a script, sorted by name."""
    folders = {workspace.root}
    found: dict[str, str] = {}
    commands = visible_commands(command)
    # `cat x.sh | sh` runs what another command of the line names.
    fed = any(_runs_code(simple) for simple in commands)
    for simple in commands:
        words = simple.words
        if len(words) == 2 and words[0].text == "cd":
            folders |= set(workspace.reached(words[1].text, frozenset(folders), tilde=words[1].tilde))
        for word in (*_script_words(simple, 0), *(_candidate_files(simple) if fed else ())):
            for path in workspace.reached(word.text, frozenset(folders), tilde=word.tilde):
                if digest := workspace.files.digest(path):
                    found[workspace.within(path)] = digest
    return tuple(sorted(found.items()))


def _script_words(simple: SimpleCommand, depth: int) -> Iterator[Word]:
    """Yield the words that may name a script, and the files that build tools read; most name no file."""
    if not simple.words or depth > MAX_DEPTH:
        return
    program = simple.words[0]
    name = program_name(program)
    if "/" in program.text:
        yield program
    if _runs_code(simple):
        for word in _candidate_files(simple):
            yield word
            yield from map(Word, module_files(word.text))
            yield from (Word(f"{word.text}/{file}", tilde=word.tilde) for file in _BUILD_FILES.get(name, ()))
    yield from map(Word, _BUILD_FILES.get(name, ()))
    for inner in inner_commands(simple):
        for each in (inner,) if isinstance(inner, SimpleCommand) else visible_commands(inner):
            yield from _script_words(each, depth + 1)


def _runs_code(simple: SimpleCommand) -> bool:
    return bool(simple.words) and program_name(simple.words[0]) not in _ONLY_DATA


def _candidate_files(simple: SimpleCommand) -> Iterator[Word]:
    """Yield all words that may be files to read: arguments, values of flags and variables, and redirected input."""
    read = (each.target for each in simple.redirects if not each.is_text and (not each.writes or each.operator == "<>"))
    given = (*simple.words[1:], *read)
    for word in (*given, *(Word(value, tilde=value.startswith("~/")) for _, value in simple.assignments)):
        yield from path_candidates(word)
