"""The packages of the hour: fetched from their registries by version, checked by hash, unpacked as repositories."""

import hashlib
import shutil
import subprocess  # noqa: TID251 - the clients of the registries are called as users call them
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

LIST = Path(__file__).with_name("packages.toml")


class Package(Struct, frozen=True, kw_only=True):
    """One version of a project."""

    name: str
    version: str
    registry: str
    """`pypi` or `npm`."""
    file: str
    sha256: str
    kind: str
    """How the project is built and tested, in words."""
    settings: Mapping[str, str] = {}
    """Settings that the user needs, by name."""


def packages() -> list[Package]:
    """Return the packages of the list."""
    return msgspec.convert(tomllib.loads(LIST.read_text())["package"], list[Package])


def unpack(package: Package, cache: Path, folder: Path) -> None:
    """Put the sources of a package into `folder`, fetched into `cache` unless they are there."""
    archive = cache / package.file
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(_download(package, cache), cwd=cache, check=True, stdout=subprocess.DEVNULL)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != package.sha256:
        raise ValueError(f"{archive} has the hash {found}, not {package.sha256}")
    parts = folder.with_name(f"{folder.name}.parts")
    with tarfile.open(archive) as tar:
        tar.extractall(parts, filter="data")
    (top,) = parts.iterdir()
    shutil.move(top, folder)
    parts.rmdir()


def _download(package: Package, cache: Path) -> list[str]:
    named = f"{package.name}=={package.version}"
    if package.registry == "npm":
        return ["npm", "pack", "--silent", named.replace("==", "@")]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package.name]
    return [*pip, "--dest", str(cache), named]
