"""Toolchains as people have them in their homes: laid out as each one's own documentation says, with small scripts."""

import asyncio
import os
from pathlib import Path

import pytest
from msgspec import Struct, structs

from builders import bubblewrap_or_skip
from scaffold.core.run_settings import SandboxSettings
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.policy.command_sandbox import SandboxInputs, build_sandbox_spec

OK = "#!/bin/sh\necho ok\n"
SECRET = "hunter2hunter2"


class Toolchain(Struct):
    """A layout below the home, `~` in texts and links: executable `files`, read `data`, `links`, and what is secret."""

    path: str
    command: str
    files: dict[str, str] = {}
    data: tuple[str, ...] = ()
    links: dict[str, str] = {}
    environ: dict[str, str] = {}
    secrets: dict[str, str] = {}


def runs(program: str, *data: str) -> str:
    """Return a script that reads its data before it runs a program."""
    reads = "".join(f'cat "{each}" > /dev/null || exit 1\n' for each in data)
    return f"#!/bin/sh\n{reads}exec {program}\n"


def shims(name: str, program: str) -> Toolchain:
    """Return a toolchain of the family of rbenv: its shims run its program, which reads the version to run."""
    top = f".{name}"
    return Toolchain(
        f"{top}/shims:{top}/bin",
        program,
        {
            f"{top}/shims/{program}": f'#!/usr/bin/env bash\nexec "~/{top}/libexec/{name}" {program}\n',
            f"{top}/libexec/{name}": f'#!/usr/bin/env bash\nexec "~/{top}/versions/$(cat ~/{top}/version)/bin/$1"\n',
            f"{top}/versions/x/bin/{program}": runs("echo ok", f"~/{top}/versions/x/lib/x"),
        },
        (f"{top}/version", f"{top}/versions/x/lib/x"),
        {f"{top}/bin/{name}": f"../libexec/{name}"},
    )


ASDF = {".asdf/shims/node": '#!/usr/bin/env bash\nexec asdf exec "node" "$@"\n', ".asdf/installs/nodejs/1/bin/node": OK}
MISE = runs("~/.local/share/mise/installs/node/1/bin/node", "~/.config/mise/config.toml", "~/.local/state/mise/trusted")
MISE_FILES = {".local/bin/mise": MISE, ".local/share/mise/installs/node/1/bin/node": OK}
MISE_DATA = (".config/mise/config.toml", ".local/state/mise/trusted")
NPMRC = {".npmrc": f"//registry.example/:_authToken={SECRET}\n"}


def node(top: str) -> tuple[dict[str, str], tuple[str, ...], dict[str, str]]:
    """Return the files, data and links of an installed Node with npm, whose program is a script that names `node`."""
    modules = f"{top}/lib/node_modules/npm"
    files = {f"{top}/bin/node": OK, f"{modules}/bin/npm-cli.js": "#!/usr/bin/env node\n"}
    return files, (f"{modules}/package.json",), {f"{top}/bin/npm": "../lib/node_modules/npm/bin/npm-cli.js"}


TOOLCHAINS = {
    "pyenv": shims("pyenv", "python"),
    "rbenv": shims("rbenv", "ruby"),
    "nodenv": shims("nodenv", "node"),
    "goenv": shims("goenv", "go"),
    "jenv": shims("jenv", "java"),
    "asdf": Toolchain(
        ".asdf/shims:.asdf/bin",
        "node",
        {**ASDF, ".asdf/bin/asdf": runs("~/.asdf/installs/nodejs/1/bin/node", "~/.asdfrc", "~/.tool-versions")},
        (".asdfrc", ".tool-versions"),
    ),
    "asdf in one program": Toolchain(
        ".asdf/shims:.local/bin",
        "node",
        {**ASDF, ".local/bin/asdf": runs("~/.asdf/installs/nodejs/1/bin/node", "~/.tool-versions")},
        (".tool-versions",),
    ),
    "mise": Toolchain(
        ".local/share/mise/shims", "node", MISE_FILES, MISE_DATA, {".local/share/mise/shims/node": "~/.local/bin/mise"}
    ),
    "mise activated": Toolchain(
        ".local/share/mise/installs/node/1/bin:.local/bin", "node > /dev/null && mise exec", MISE_FILES, MISE_DATA
    ),
    "sdkman": Toolchain(
        ".sdkman/candidates/java/current/bin",
        "java",
        {".sdkman/candidates/java/17-tem/bin/java": runs("echo ok", "~/.sdkman/candidates/java/17-tem/lib/modules")},
        (".sdkman/candidates/java/17-tem/lib/modules",),
        {".sdkman/candidates/java/current": "17-tem"},
        {"JAVA_HOME": "~/.sdkman/candidates/java/current", "SDKMAN_DIR": "~/.sdkman"},
    ),
    "gvm": Toolchain(
        ".gvm/pkgsets/go1/global/bin:.gvm/gos/go1/bin:.gvm/bin",
        "go",
        {
            ".gvm/bin/gvm": OK,
            ".gvm/pkgsets/go1/global/bin/x": OK,
            ".gvm/gos/go1/bin/go": runs("echo ok", "$GOROOT/pkg/x", "$GOPATH/pkg/mod/x"),
        },
        (".gvm/gos/go1/pkg/x", ".gvm/pkgsets/go1/global/pkg/mod/x"),
        environ={"GOROOT": "~/.gvm/gos/go1", "GOPATH": "~/.gvm/pkgsets/go1/global"},
    ),
    "foundry": Toolchain(
        ".foundry/bin",
        "forge",
        {".foundry/bin/forge": runs("~/.svm/0.8/solc-0.8", "~/.foundry/foundry.toml"), ".svm/0.8/solc-0.8": OK},
        (".foundry/foundry.toml",),
        secrets={".foundry/keystores/me": SECRET},
    ),
    "hatch": Toolchain(
        ".local/bin",
        "hatch",
        {
            ".local/share/pipx/venvs/hatch/bin/hatch": "#!~/.local/share/pipx/venvs/hatch/bin/python\n",
            ".local/share/hatch/pythons/3/python/bin/python3": runs("echo ok", "~/.config/hatch/config.toml"),
        },
        (".config/hatch/config.toml",),
        {
            ".local/bin/hatch": "~/.local/share/pipx/venvs/hatch/bin/hatch",
            ".local/share/pipx/venvs/hatch/bin/python": "~/.local/share/hatch/pythons/3/python/bin/python3",
        },
        secrets={".config/hatch/login.toml": f'password = "{SECRET}"\n'},
    ),
    "pipx": Toolchain(
        ".local/bin",
        "app",
        {
            ".local/pipx/venvs/app/bin/app": "#!~/.local/pipx/venvs/app/bin/python\n",
            "opt/python/bin/python3": runs("echo ok", "~/opt/python/lib/python3/os.py"),
        },
        (".local/pipx/venvs/app/pyvenv.cfg", "opt/python/lib/python3/os.py"),
        {
            ".local/bin/app": "~/.local/pipx/venvs/app/bin/app",
            ".local/pipx/venvs/app/bin/python": "~/opt/python/bin/python3",
        },
        secrets={".pypirc": f"password = {SECRET}\n"},
    ),
    "uv": Toolchain(
        ".local/bin",
        "python3.12 && ruff",
        {
            ".local/share/uv/python/cpython-3.12/bin/python3.12": OK,
            ".local/share/uv/tools/ruff/bin/ruff": runs("true", "~/.config/uv/uv.toml"),
        },
        (".config/uv/uv.toml",),
        {
            ".local/bin/python3.12": "~/.local/share/uv/python/cpython-3.12/bin/python3.12",
            ".local/bin/ruff": "~/.local/share/uv/tools/ruff/bin/ruff",
        },
        secrets={".local/share/uv/credentials/x": SECRET},
    ),
    "conda": Toolchain(
        "miniconda3/envs/dev/bin:miniconda3/condabin",
        "python && conda",
        {
            "miniconda3/envs/dev/bin/python": OK,
            "miniconda3/bin/python": "#!/bin/sh\n",
            "miniconda3/condabin/conda": "#!~/miniconda3/bin/python\n",
        },
        environ={"CONDA_EXE": "~/miniconda3/bin/conda", "CONDA_PREFIX": "~/miniconda3/envs/dev"},
        secrets={".condarc": f"channels: [https://ann:{SECRET}@conda.example/x]\n"},
    ),
    "mamba": Toolchain(
        "micromamba/envs/dev/bin:.local/bin",
        "python && micromamba",
        {
            "micromamba/envs/dev/bin/python": OK,
            ".local/bin/micromamba": runs("true", "~/micromamba/envs/base/x", "~/.mambarc"),
        },
        (".mambarc", "micromamba/envs/base/x"),
        environ={"MAMBA_EXE": "~/.local/bin/micromamba", "MAMBA_ROOT_PREFIX": "~/micromamba"},
    ),
    "poetry": Toolchain(
        ".local/bin",
        "poetry",
        {
            ".local/share/pypoetry/venv/bin/poetry": runs(
                "~/.cache/pypoetry/virtualenvs/x/bin/python", "~/.config/pypoetry/config.toml"
            ),
            ".cache/pypoetry/virtualenvs/x/bin/python": OK,
        },
        (".config/pypoetry/config.toml",),
        {".local/bin/poetry": "~/.local/share/pypoetry/venv/bin/poetry"},
        secrets={".config/pypoetry/auth.toml": f'[http-basic.x]\nusername = "a"\npassword = "{SECRET}"\n'},
    ),
    "volta": Toolchain(
        ".volta/bin",
        "node",
        {
            ".volta/bin/volta-shim": runs("~/.volta/tools/image/node/1/bin/node", "~/.volta/tools/user/platform.json"),
            ".volta/tools/image/node/1/bin/node": OK,
        },
        (".volta/tools/user/platform.json",),
        {".volta/bin/node": "volta-shim"},
        {"VOLTA_HOME": "~/.volta"},
        NPMRC,
    ),
    "fnm": Toolchain(
        "../runtime/fnm_multishells/1_2/bin:.local/share/fnm",
        "npm",
        *node(".local/share/fnm/node-versions/v1/installation")[:2],
        {
            **node(".local/share/fnm/node-versions/v1/installation")[2],
            ".local/share/fnm/aliases/default": "~/.local/share/fnm/node-versions/v1/installation",
            "../runtime/fnm_multishells/1_2": "~/.local/share/fnm/aliases/default",
        },
        secrets=NPMRC,
    ),
    "nvm": Toolchain(
        ".nvm/versions/node/v1/bin", "npm", *node(".nvm/versions/node/v1"), {"NVM_DIR": "~/.nvm"}, secrets=NPMRC
    ),
    "n": Toolchain("n/bin", "npm", *node("n"), {"N_PREFIX": "~/n"}, secrets=NPMRC),
    "rustup": Toolchain(
        ".cargo/bin",
        "cargo",
        {
            ".cargo/bin/rustup": runs("~/.rustup/toolchains/stable/bin/cargo", "~/.rustup/settings.toml"),
            ".rustup/toolchains/stable/bin/cargo": runs("echo ok", "~/.cargo/registry/x"),
        },
        (".rustup/settings.toml", ".cargo/registry/x"),
        {".cargo/bin/cargo": "rustup"},
        secrets={".cargo/credentials.toml": f'[registry]\ntoken = "{SECRET}"\n'},
    ),
    "ghcup": Toolchain(
        ".ghcup/bin",
        "ghc",
        {".ghcup/ghc/9/bin/ghc-9": runs("echo ok", "~/.ghcup/ghc/9/lib/settings", "~/.local/state/cabal/store/x")},
        (".ghcup/ghc/9/lib/settings", ".local/state/cabal/store/x"),
        {".ghcup/bin/ghc": "ghc-9", ".ghcup/bin/ghc-9": "../ghc/9/bin/ghc-9"},
    ),
    "stack": Toolchain(
        ".local/bin",
        "stack",
        {
            ".local/bin/stack": runs("~/.stack/programs/x86/ghc-9/bin/ghc", "~/.stack/config.yaml"),
            ".stack/programs/x86/ghc-9/bin/ghc": OK,
        },
        (".stack/config.yaml",),
    ),
    "opam": Toolchain(
        ".opam/default/bin",
        "ocaml",
        {".opam/default/bin/ocaml": runs("echo ok", "~/.opam/config", "$OPAM_SWITCH_PREFIX/lib/x")},
        (".opam/config", ".opam/default/lib/x"),
        environ={"OPAM_SWITCH_PREFIX": "~/.opam/default"},
    ),
    "nix": Toolchain(
        ".nix-profile/bin",
        "tool",
        {"nix/store/abc-env/bin/tool": runs("echo ok", "~/nix/store/abc-env/lib/x")},
        ("nix/store/abc-env/lib/x",),
        {
            ".nix-profile": "~/.local/state/nix/profiles/profile",
            ".local/state/nix/profiles/profile": "profile-1-link",
            ".local/state/nix/profiles/profile-1-link": "~/nix/store/abc-env",
        },
        secrets={".config/nix/nix.conf": f"access-tokens = x={SECRET}\n"},
    ),
    "deno": Toolchain(
        ".deno/bin",
        "app",
        {
            ".deno/bin/deno": runs("echo ok", "~/.cache/deno/npm/x"),
            ".deno/bin/app": "#!/bin/sh\n# generated by deno install\nexec deno run\n",
        },
        (".cache/deno/npm/x",),
    ),
    "bun": Toolchain(
        ".bun/bin",
        "tsc",
        {
            ".bun/bin/bun": OK,
            ".bun/install/global/node_modules/typescript/bin/tsc": runs("bun", "~/.bun/install/cache/x"),
        },
        (".bun/install/cache/x",),
        {".bun/bin/tsc": "../install/global/node_modules/typescript/bin/tsc"},
        {"BUN_INSTALL": "~/.bun"},
        {".bunfig.toml": f'[install.registry]\ntoken = "{SECRET}"\n'},
    ),
    "pnpm": Toolchain(
        ".local/share/pnpm",
        "tsc",
        {
            ".local/share/pnpm/tsc": '#!/bin/sh\nbasedir=$(dirname "$0")\nexec "$basedir/global/5/node_modules/x"\n',
            ".local/share/pnpm/global/5/node_modules/x": OK,
        },
        environ={"PNPM_HOME": "~/.local/share/pnpm"},
        secrets={".config/pnpm/rc": f"//registry.example/:_authToken={SECRET}\n", **NPMRC},
    ),
    "yarn": Toolchain(
        ".yarn/bin:.config/yarn/global/node_modules/.bin",
        "yarn && tsc",
        {
            ".yarn/bin/yarn": runs("echo ok", "~/.yarnrc", "~/.yarn/lib/cli.js"),
            ".config/yarn/global/node_modules/x/tsc": "#!/bin/sh\n",
        },
        (".yarnrc", ".yarn/lib/cli.js"),
        {".config/yarn/global/node_modules/.bin/tsc": "../x/tsc"},
        secrets={".yarnrc.yml": f"npmAuthToken: {SECRET}\n"},
    ),
    "corepack": Toolchain(
        ".nvm/versions/node/v1/bin",
        "pnpm",
        {
            ".nvm/versions/node/v1/lib/node_modules/corepack/dist/pnpm.js": runs(
                "~/.cache/node/corepack/v1/pnpm/9/bin/pnpm.cjs", "~/.cache/node/corepack/lastKnownGood.json"
            ),
            ".cache/node/corepack/v1/pnpm/9/bin/pnpm.cjs": OK,
        },
        (".cache/node/corepack/lastKnownGood.json",),
        {".nvm/versions/node/v1/bin/pnpm": "../lib/node_modules/corepack/dist/pnpm.js"},
    ),
    "dotnet": Toolchain(
        ".dotnet:.dotnet/tools",
        "dotnet && dotnet-ef",
        {
            ".dotnet/dotnet": runs("echo ok", "~/.dotnet/sdk/8/x", "~/.nuget/packages/x"),
            ".dotnet/tools/dotnet-ef": runs("true", "~/.dotnet/tools/.store/dotnet-ef/x"),
        },
        (".dotnet/sdk/8/x", ".nuget/packages/x", ".dotnet/tools/.store/dotnet-ef/x"),
        environ={"DOTNET_ROOT": "~/.dotnet"},
        secrets={".nuget/NuGet/NuGet.Config": f"<x><password>{SECRET}</password></x>"},
    ),
    "flutter": Toolchain(
        "fvm/default/bin:.pub-cache/bin",
        "flutter",
        {
            "fvm/versions/3/bin/flutter": runs("~/fvm/versions/3/bin/cache/dart-sdk/bin/dart", "~/.pub-cache/hosted/x"),
            "fvm/versions/3/bin/cache/dart-sdk/bin/dart": runs("echo ok", "~/fvm/versions/3/packages/x"),
        },
        ("fvm/versions/3/packages/x", ".pub-cache/hosted/x"),
        {"fvm/default": "versions/3"},
    ),
    "krew": Toolchain(
        ".krew/bin",
        "kubectl-ctx",
        {".krew/store/ctx/v1/kubectx": runs("echo ok", "~/.krew/receipts/ctx.yaml")},
        (".krew/receipts/ctx.yaml",),
        {".krew/bin/kubectl-ctx": "~/.krew/store/ctx/v1/kubectx"},
        secrets={".kube/config": f"token: {SECRET}\n"},
    ),
    "juliaup": Toolchain(
        ".juliaup/bin",
        "julia",
        {
            ".juliaup/bin/julialauncher": runs("~/.julia/juliaup/julia-1/bin/julia", "~/.julia/juliaup/juliaup.json"),
            ".julia/juliaup/julia-1/bin/julia": OK,
        },
        (".julia/juliaup/juliaup.json",),
        {".juliaup/bin/julia": "julialauncher"},
        secrets={".julia/servers/x/auth.toml": SECRET},
    ),
    "swiftly": Toolchain(
        ".local/share/swiftly/bin",
        "swift",
        {
            ".local/share/swiftly/bin/swiftly": runs(
                "~/.local/share/swiftly/toolchains/6/usr/bin/swift", "~/.local/share/swiftly/config.json"
            ),
            ".local/share/swiftly/toolchains/6/usr/bin/swift": OK,
        },
        (".local/share/swiftly/config.json",),
        {".local/share/swiftly/bin/swift": "swiftly"},
        {"SWIFTLY_HOME_DIR": "~/.local/share/swiftly"},
    ),
    "aqua": Toolchain(
        ".local/share/aquaproj-aqua/bin",
        "tool",
        {".local/share/aquaproj-aqua/internal/proxy": runs("echo ok", "$AQUA_GLOBAL_CONFIG")},
        (".config/aquaproj-aqua/aqua.yaml",),
        {".local/share/aquaproj-aqua/bin/tool": "../internal/proxy"},
        {"AQUA_GLOBAL_CONFIG": "~/.config/aquaproj-aqua/aqua.yaml"},
    ),
    "leiningen": Toolchain(
        "bin",
        "lein",
        {"bin/lein": runs("echo ok", "~/.lein/self-installs/leiningen.jar", "~/.m2/repository/x")},
        (".lein/self-installs/leiningen.jar", ".m2/repository/x"),
        secrets={
            ".lein/profiles.clj": f'{{:auth {{:repository-auth {{"x" {{:username "a" :password "{SECRET}"}}}}}}}}\n'
        },
    ),
    "a script of one's own": Toolchain(
        "bin", "tool", {"bin/tool": '#!/bin/sh\nexec "$HOME/apps/tool-1/bin/tool"\n', "apps/tool-1/bin/tool": OK}
    ),
}


def laid_out(toolchain: Toolchain, home: Path) -> dict[str, str]:
    """Lay a toolchain out in a home and return the variables of a user who has it."""
    texts = {**dict.fromkeys(toolchain.data, "x"), **toolchain.files, **toolchain.secrets, "Documents/x": SECRET}
    for name, text in texts.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("~", str(home)))
        path.chmod(0o755 if name in toolchain.files else 0o644)
    for name, target in toolchain.links.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to(target.replace("~", str(home)))
    folders = (os.path.normpath(home / each) for each in toolchain.path.split(":"))
    named = {name: value.replace("~", str(home)) for name, value in toolchain.environ.items()}
    return {"HOME": str(home), "PATH": ":".join((*folders, "/usr/bin", "/bin")), **named}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
def test_toolchains_of_a_home_run_in_the_sandbox_as_outside_and_show_no_secret(level, tmp_path, monkeypatch):
    """RA-4, BX-9: by where PATH, links, scripts and variables lead, not by their names."""
    if level == "landlock" and landlock.unsupported_reason():
        pytest.skip("there is no Landlock")
    program = asyncio.run(bubblewrap_or_skip()).program if level == "bubblewrap" else ""
    wrong = {}
    for number, (name, toolchain) in enumerate(TOOLCHAINS.items()):
        place = tmp_path.resolve() / str(number)
        root, home = place / "root", place / "home"
        root.mkdir(parents=True)
        home.mkdir()
        environ = laid_out(toolchain, home)
        monkeypatch.setenv("HOME", str(home))
        inputs = SandboxInputs(root=root, home=home, temporary=place / "temporary", searched=(root,))
        spec = asyncio.run(build_sandbox_spec(SandboxSettings(), inputs, environ, cache=tmp_path / "level"))
        sandbox = structs.replace(spec, level=level, program=program)
        secrets = " ".join(f"'{home}/{each}'" for each in ("Documents/x", *toolchain.secrets))
        command = ["/bin/sh", "-c", f"{toolchain.command}; echo; cat {secrets} 2>/dev/null"]
        outside, inside = (
            asyncio.run(
                run_command(command, cwd=root, env=environ, timeout_s=60, containment=Containment(sandbox=each))
            )
            for each in (None, sandbox)
        )
        assert outside.stdout.startswith(b"ok\n\n"), (name, outside.stderr)
        assert outside.stdout.count(SECRET.encode()) == 1 + len(toolchain.secrets), name
        if inside.stdout != b"ok\n\n":
            wrong[name] = (inside.stdout, inside.stderr)
    assert wrong == {}
