"""Which new entries of manifests need a human's agreement before set-up obeys them."""

import pytest

from scaffold.git import refs
from scaffold.verify.environment.foreign_entries import work_sources

PYPROJECT = '[build-system]\nrequires = ["hatchling"]\n[project]\nname = "calc"\ndependencies = ["left", {}]\n{}'
LOCK = '{{"packages": {{"": {{"license": "https://x.test"}}, "node_modules/left": {}}}}}'
HOSTS = {
    "PYPI_HOST": ("pypi", "org"),
    "FILES_HOST": ("files", "pythonhosted", "org"),
    "NPM_HOST": ("registry", "npmjs", "org"),
    "YARN_HOST": ("registry", "yarnpkg", "com"),
}
FOREIGN = {
    "requirements.txt": (
        *("right @ http://h.test/right.tar.gz?leak=1", "right@git+ssh://git@h.test/r", "-e git+https://h.test/r#egg=r"),
        *(
            "--index-url http://127.0.0.1:8/simple",
            "-f /tmp/wheels",
            "/tmp/right.whl",
            "-e ../../right",
            "--no-binary right",
        ),
        *(
            "-i https://h.test/simple",
            "--trusted-host h.test",
            "right @ file:///tmp/right",
            "--extra-index-url=http://h",
        ),
        *(
            "right @ \\\n  https://h.test/r.whl",
            "http://user:pass@PYPI_HOST.h.test/r.whl",
            "right @ hg+http://PYPI_HOST/r",
        ),
    ),
    "package.json": (
        *('{"dependencies": {"right": "user/right"}}', '{"devDependencies": {"right": "git@h.test:u/r"}}'),
        *('{"dependencies": {"right": "https://h.test/r.tgz"}}', '{"overrides": {"left": {"right": "github:u/r"}}}'),
        *('{"dependencies": {"right": "file:../../right"}}', '{"resolutions": {"right": "git+ssh://git@h.test/u/r"}}'),
        '{"packageManager": "yarn@https://h.test/yarn.js"}',
    ),
    "package-lock.json": (
        LOCK.format('{"version": "1.0.0", "resolved": "https://h.test/left.tgz"}'),
        LOCK.format('{"version": "1.0.0", "resolved": "https://NPM_HOST/l.tgz", "hasInstallScript": true}'),
        LOCK.format('{"resolved": "../../left", "link": true}'),
    ),
    "pyproject.toml": (
        PYPROJECT.format('"right @ https://h.test/r.whl"', ""),
        PYPROJECT.format('"right"', '[tool.uv.sources]\nright = { git = "https://h.test/r" }\n'),
        PYPROJECT.format('"right"', '[[tool.uv.index]]\nname = "h"\nurl = "https://h.test/simple"\n'),
        PYPROJECT.format('"right"', '[[tool.poetry.source]]\nname = "h"\nurl = "https://h.test/simple"\n'),
        PYPROJECT.format('"right"', '[tool.poetry.requires-plugins]\nright = "1"\n'),
        PYPROJECT.format('"right"', "").replace("hatchling", "right"),
        PYPROJECT.format('"right"', "").replace("hatchling", "hatchling @ https://h.test/h.whl"),
    ),
    "Cargo.toml": ('right = { git = "https://h.test/r" }', 'right = { path = "/tmp/right" }'),
    "Cargo.lock": ('source = "git+https://github.com/u/r#1"', 'source = "registry+https://h.test/index"'),
    "go.mod": ("replace right => /tmp/right", "replace right => ../../right"),
    "yarn.lock": ('  resolved "https://codeload.github.com/u/r/tar.gz/1"',),
    "pnpm-lock.yaml": ("    resolution: {tarball: https://h.test/r.tgz}", "    requiresBuild: true"),
    "pnpm-workspace.yaml": ("configDependencies:\n  right: 1.0.0+sha512-x",),
    "uv.lock": ('source = { registry = "https://h.test/simple" }', 'source = { directory = "../../right" }'),
    ".python-version": ("/tmp/python",),
    ".tool-versions": ("python path:/tmp/python",),
}
ORDINARY = {
    "requirements.txt": (
        *("right", "right>=1,<2 ; python_version < '3.12'  # https://h.test", "-r more.txt", "-e ./inner", "-c c.txt"),
        *("right==1 --hash=sha256:abc", "right[extra]~=1.0", "right @ https://FILES_HOST/packages/r.whl"),
        "# see http://h.test",
    ),
    "package.json": (
        '{"dependencies": {"@scope/right": "^1.0.0", "left": "npm:@scope/left@1"}, "homepage": "https://h.test"}',
        '{"workspaces": ["packages/*"], "devDependencies": {"right": "workspace:*", "inner": "file:packages/inner"}}',
        '{"packageManager": "pnpm@9.0.0+sha512.abc", "scripts": {"test": "curl https://h.test"}}',
    ),
    "package-lock.json": (
        LOCK.format('{"version": "1.0.0", "resolved": "https://NPM_HOST/l.tgz", "funding": "http://h.test"}'),
        LOCK.format('{"resolved": "packages/left", "link": true}'),
    ),
    "pyproject.toml": (
        PYPROJECT.format('"right>=1"', '[project.urls]\nHome = "https://h.test"\n'),
        PYPROJECT.format('"right"', '[dependency-groups]\ndev = ["pytest"]\n[tool.ruff]\nextend = "../ruff.toml"\n'),
        PYPROJECT.format('"inner"', "[tool.uv.sources]\ninner = { workspace = true }\n"),
    ),
    "Cargo.toml": ('right = "1"', 'inner = { path = "inner" }', 'repository = "https://h.test/r"'),
    "Cargo.lock": ('source = "sparse+https://index.crates.io/"',),
    "go.mod": ("require github.com/u/right v1.2.3 // indirect", "replace right => ./right"),
    "yarn.lock": ('  resolved "https://YARN_HOST/r/-/r.tgz#1"\n  integrity sha512-a/b+c==',),
    "pnpm-lock.yaml": (
        "  /right@1.0.0:\n    resolution: {integrity: sha512-a/b==}\n    deprecated: see https://h.test",
    ),
    "uv.lock": ('source = { registry = "https://PYPI_HOST/simple" }', 'source = { editable = "." }'),
    ".python-version": ("3.12",),
}


@pytest.fixture
async def sources(harness):
    async def found(files, before=None, indexes=()):
        made = []
        for contents in (before or {}, files):
            for path, text in contents.items():
                (harness.repo / path).parent.mkdir(exist_ok=True)
                (harness.repo / path).write_text(text)
            await harness.sh("git add --all --force; git commit --quiet --allow-empty --message more")
            made.append(await refs.resolve(harness.context.git, "HEAD"))
        return await work_sources(harness.context.git, *made, [*files, "README.md"], indexes)

    return found


def in_folders(entries):
    """Return the contents by path, each in a folder of its own."""
    texts = [(name, text) for name, several in entries.items() for text in several]
    for short, parts in HOSTS.items():
        texts = [(name, text.replace(short, ".".join(parts))) for name, text in texts]
    return {f"case-{number}/{name}": text for number, (name, text) in enumerate(texts)}


async def test_an_entry_that_leads_elsewhere_needs_agreement(sources):
    """BX-9"""
    files = in_folders(FOREIGN)
    found = {entry.partition(":")[0] for entry in (await sources(files)).new}
    assert [f"{path}: {text}" for path, text in files.items() if path not in found] == []
    same = {path: f"{text}\n" for path, text in files.items()}
    assert (await sources(same, files)).new == ()


async def test_an_ordinary_entry_needs_none(sources):
    assert (await sources(in_folders(ORDINARY))).new == ()


async def test_the_users_indexes_and_what_the_base_names_stay_usable(sources):
    line = "right @ https://h.test/r.whl"
    assert (await sources({"requirements.txt": line}, indexes=["h.test"])).new == ()
    found = await sources(
        {"requirements.txt": f"{line}\nleft @ https://h.test/l.whl"}, before={"requirements.txt": line}
    )
    assert found.new == ("requirements.txt: left @ https://h.test/l.whl",)
    assert found.hosts == ("h.test",)


async def test_a_lock_that_cannot_be_read_is_searched_by_line(sources):
    assert (await sources({"package-lock.json": '{"resolved": "https://h.test/x",'})).new
    assert (await sources({"package-lock.json": "[" * 100_000})).new == ()
