"""The programs of the table: their packages, and what makes each ask a provider on loopback."""

import json
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.executor_settings import ProgramSpec
from scaffold.executors.catalog import known_programs

KEY = "loopback"


class Setup(Struct, frozen=True):
    """A program with a home of its own."""

    spec: ProgramSpec
    environ: Mapping[str, str]
    """The user's variables for it."""
    files: Mapping[str, object] = {}
    """The settings in its folder: text, or what becomes JSON."""


PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "copilot": "@github/copilot",
    "opencode": "opencode-ai",
    "qwen": "@qwen-code/qwen-code",
    "pi": "@earendil-works/pi-coding-agent",
}
"""The packages by program, lighter ones first where nothing else matters."""


def setup_of(name: str, port: int, home: Path) -> Setup:
    """Return a program that asks the provider at a port of loopback."""
    url = f"http://127.0.0.1:{port}"
    environ: dict[str, str] = {}
    files: dict[str, object] = {}
    match name:
        case "claude":
            environ = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "claude-sonnet-4-5"}
        case "codex":
            environ = {"OPENAI_API_KEY": KEY}
            provider = f'name="loop"\nbase_url="{url}/v1"\nwire_api="responses"\nenv_key="OPENAI_API_KEY"\n'
            files = {"config.toml": f'model="gpt-5"\nmodel_provider="loop"\n[model_providers.loop]\n{provider}'}
        case "gemini":
            environ = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
            # Its choice `auto` asks a model first which model to take.
            model = {"name": "gemini-2.5-flash"}
            files = {"settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": model}}
        case "copilot":
            environ = {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_MODEL": "loop", "COPILOT_OFFLINE": "true"}
        case "opencode":
            options = {"baseURL": f"{url}/v1", "apiKey": KEY}
            model = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"loop": {}}}
            names = {"model": "loop/loop", "small_model": "loop/loop", "autoupdate": False}
            environ = {"OPENCODE_CONFIG_CONTENT": json.dumps({**names, "provider": {"loop": model}})}
        case "qwen":
            environ = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "loop"}
            files = {"settings.json": {"security": {"auth": {"selectedType": "openai"}}}}
        case "pi":
            models = [{"id": "loop"}]
            provider = {"baseUrl": f"{url}", "api": "anthropic-messages", "apiKey": KEY, "models": models}
            files = {
                "models.json": {"providers": {"loop": provider}},
                "settings.json": {"defaultProvider": "loop", "defaultModel": "loop"},
            }
    known = known_programs[name]
    spec = structs.replace(
        known,
        env=tuple(dict.fromkeys((*known.env, *environ))),
        hosts=(f"127.0.0.1:{port}",),
        credentials=str(home / known.credentials.removeprefix("~/")),
    )
    return Setup(spec, environ, files)
