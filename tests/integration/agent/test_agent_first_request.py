import hashlib
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from fakes import RecordingModel, agent, cassette_model
from scaffold.agent.instruction_files import Instructions
from scaffold.agent.modes import MODES, CurrentMode, mode_instructions
from scaffold.agent.prompts import (
    BUILT_IN_ROLES,
    NON_WORKER_ROLES,
    PROMPT_VERSION,
    orchestrator_prompt,
    session_prompt,
    skills_prompt,
    step_prompt_rules,
    system_prompt,
    worker_prompt,
)
from scaffold.agent.session_context import SessionContext, SessionEnvironment
from scaffold.agent.skills import SkillPlace, skill_tools
from scaffold.core.conversation import Text
from scaffold.core.extension_set import Extensions, Skill
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.llm.wire.anthropic import AnthropicCodec
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import ModelTarget
from scaffold.llm.wire.responses import ResponsesCodec
from scaffold.llm.wire.text_tools import TextToolsCodec
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.session.file_history import FileHistory
from scaffold.session.tool_setup import ToolSetup, load_session_tools
from scaffold.tools.command.background_commands import BackgroundCommands
from scaffold.tools.todos import Todos
from support.fake_clock import FakeClock

SKILLS = SkillPlace(Extensions(skills=(Skill(name="a", description="b", file="c"),)), Path("/x"))
TARGET = ModelTarget(name="a-model", model="anthropic:a-model")
CODECS = [AnthropicCodec(), ChatCodec(), ResponsesCodec()]


@pytest.fixture
def request_of(tmp_path, monkeypatch):
    """Return the first request of an agent with every tool of a session, in a mode."""
    monkeypatch.setenv("SCAFFOLD_HOME", str(tmp_path / "home"))
    clock = FakeClock(datetime(2030, 1, 2, tzinfo=UTC))

    async def request_of(system, said, mode="default", *, small=False):
        model = RecordingModel(cassette_model(CassetteEntry(text="done")), is_small=small)
        modes, todos = CurrentMode(mode), Todos()
        gate = ApprovalGate(
            RuleSet(),
            workspace=WorkspacePaths.on_disk(tmp_path, tmp_path),
            clock=clock,
            tell=lambda approval: None,
            shell=ShellCommandPolicy,
        )
        setup = ToolSetup(
            cwd=tmp_path,
            gate=gate,
            conversation="mine",
            environ={},
            sandbox=None,
            modes=modes,
            todos=todos,
            history=FileHistory(tmp_path / "history"),
            commands=BackgroundCommands(tmp_path / "outputs"),
        )
        toolkit = await load_session_tools(setup)
        environment = SessionEnvironment(cwd=tmp_path, platform="Linux", attended=True, clock=clock)
        context = SessionContext(environment, modes, todos)
        await agent(model, *toolkit.tools, system=system, context=context).turn(said)
        return model.requests[0]

    return request_of


def encoded(codec, request):
    """Return the request as encoded for a wire."""
    return codec.request(request, [codec.message(message, TARGET) for message in request.messages], TARGET)


async def test_the_first_request_of_a_small_task_has_at_most_13_kilobytes(request_of):
    """Speed: system, tools, context and prompt together; AGENTS.md, memories and messages come on top."""
    prompt = "Fix the failing test in tests/test_clock.py."
    requests = {mode: await request_of(session_prompt(), prompt, mode) for mode in MODES}
    sizes = {(mode, codec): len(encoded(codec, request)) for mode, request in requests.items() for codec in CODECS}
    assert {case: size for case, size in sizes.items() if size > 13_000} == {}


async def test_the_first_request_of_a_worker_has_at_most_24_kilobytes(request_of):
    requests = {role: await request_of(system_prompt(role), "Make the clock right.") for role in BUILT_IN_ROLES}
    sizes = {role: len(encoded(AnthropicCodec(), request)) for role, request in requests.items()}
    assert {role: size for role, size in sizes.items() if size > 24_000} == {}


@pytest.mark.parametrize("codec", [ChatCodec(local=True), TextToolsCodec(ChatCodec(local=True))], ids=["tools", "text"])
async def test_the_first_request_of_a_small_model_has_at_most_1500_tokens_and_8_tools(request_of, codec):
    """BX-30: of all tools of a session, in each mode, and of a worker; four bytes are a token."""
    prompts = (session_prompt(short=True), worker_prompt("testing", reviews=False, short=True))
    requests = [await request_of(prompt, "Fix the test.", mode, small=True) for prompt in prompts for mode in MODES]
    assert {len(request.tools) for request in requests} == {8}
    assert max(len(encoded(codec, request)) for request in requests) <= 1_500 * 4


async def test_the_cached_prefix_does_not_depend_on_the_date(request_of):
    """RA-3: the base prompt, instructions included, comes before everything that may differ."""
    instructions = [Instructions(Path("/x/AGENTS.md"), "Use tabs.", name="AGENTS.md")]
    request = await request_of(session_prompt(instructions), [Text("go")])
    bodies = [encoded(codec, request) for codec in CODECS]
    assert [body for body in bodies if body.index(b"Use tabs.") >= body.index(b"2030-01-02")] == []


DIGESTS = {
    2: "1913440dd584424c",
    3: "26c1d144f7226398",
    4: "f90edeeaad2e2e46",
    5: "8a84c0b187e3a1e8",
    6: "a64b0927ee675e9e",
    7: "0e188348e7357b75",
    8: "a1da6d79488f9722",
    9: "faf4589acf93f54e",
}
"""The digest of each version's prompts and descriptions; a published version's never changes."""
MACHINE = (f"Python {sys.version_info.major}.{sys.version_info.minor}", "Python 3")
"""What a description says of the machine, and what stands for it."""


async def test_prompts_and_descriptions_have_a_version(request_of):
    """RA-2..5: results of different prompts must not be taken for results of the same."""
    request = await request_of(session_prompt(), "go")
    described = [(tool.name, tool.description.replace(*MACHINE), tool.schema) for tool in request.tools]
    roles = [system_prompt(role) for role in sorted(BUILT_IN_ROLES | NON_WORKER_ROLES | {"generic"})]
    roles += [session_prompt(short=True), step_prompt_rules(short=True)]
    described += [(tool.name, tool.description, tool.schema) for tool in skill_tools(SKILLS)]
    texts = [session_prompt(), skills_prompt(""), orchestrator_prompt(), *map(mode_instructions, MODES), *roles]
    digest = hashlib.sha256(msgspec.json.encode([texts, described], order="sorted")).hexdigest()[:16]
    assert DIGESTS.get(PROMPT_VERSION) == digest, (
        f"the prompts or descriptions changed: raise PROMPT_VERSION, or if it is not on main yet, record {digest!r}"
    )
