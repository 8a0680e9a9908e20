"""Build wheel and sdist into a folder, and check them: ``python .ci/release.py FOLDER``.

Needs the packages build, hatchling and twine. Fails where version, changelog and CITATION.cff
disagree, where `twine check` finds fault, where a file of src is not in the wheel, and where the
sdist would give another wheel. `.ci/installed.py` then tries each in an environment.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def version() -> str:
    """The version, which changelog and CITATION.cff must name too."""
    text = (ROOT / "src/kpp/__init__.py").read_text(encoding="utf-8")
    (found,) = re.findall(r'^__version__ = "(.+)"$', text, re.M)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (cited,) = re.findall(r"^version: (\S+)$", citation, re.M)
    (day,) = re.findall(r"^date-released: (\S+)$", citation, re.M)
    assert cited == found, f"CITATION.cff has version {cited}, the package {found}"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = f"## {found} ({day})"
    assert heading in changes.splitlines(), f"CHANGELOG.md has no line {heading!r}"
    return found


def build(folder: Path, *, source: Path, kinds: tuple[str, ...]) -> None:
    """Build; what pyproject.toml asks for must be installed."""
    wanted = [f"--{kind}" for kind in kinds]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--outdir",
            str(folder),
            *wanted,
            str(source),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def in_wheel(path: Path) -> dict[str, bytes]:
    """Names and bytes of the files of a wheel."""
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def main(folder: Path) -> None:
    """Build and check."""
    number = version()
    folder.mkdir(parents=True, exist_ok=True)
    build(folder, source=ROOT, kinds=("wheel", "sdist"))
    wheel, sdist = folder / f"kpp-{number}-py3-none-any.whl", folder / f"kpp-{number}.tar.gz"
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    held = in_wheel(wheel)
    listed = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    missing = [name for name in listed.stdout.split() if name.removeprefix("src/") not in held]
    assert not missing, f"not in the wheel: {missing}"
    with tarfile.open(sdist) as packed:
        packed.extractall(folder / "sdist", filter="data")
    build(folder / "again", source=folder / "sdist" / f"kpp-{number}", kinds=("wheel",))
    again = in_wheel(folder / "again" / wheel.name)
    differing = {name for name in held.keys() | again.keys() if held.get(name) != again.get(name)}
    assert not differing, f"the sdist gives another wheel: {sorted(differing)}"
    print(f"{wheel.name} and {sdist.name}: {len(held)} files, the same from both")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
