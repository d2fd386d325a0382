"""What is installed with us: no version with a known weakness, every version chosen, every licence known."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
EXTRAS = {"postgres", "spark", "connect", "remote", "notify", "metrics", "lineage", "web"}
# What the installed packages call their licences, and what it is.
SPELLINGS = {"3-Clause BSD License": "BSD-3-Clause", "BSD License": "BSD-3-Clause", "any-OSI": "any OSI licence"}


def requirements(file: str) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / file).read_text(encoding="utf-8").splitlines())
    return [Requirement(line) for line in lines if line]


def installed_with_us() -> set[str]:
    """The names of everything that `pip install 'opendataflow[all]'` brings to this machine."""
    found: dict[str, set[str]] = {}

    def walk(name: str, extras: set[str]) -> None:
        name = canonicalize_name(name)
        if name in found and extras <= found[name]:
            return
        found[name] = found.get(name, set()) | extras
        try:
            needed = distribution(name).requires or []
        except PackageNotFoundError:
            return  # only for another Python or another system
        for requirement in map(Requirement, needed):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
                walk(requirement.name, set(requirement.extras))

    walk("opendataflow", EXTRAS)
    return found.keys() - {"opendataflow"}


def licences_of(name: str) -> Iterator[str]:
    facts = distribution(name).metadata
    for told in (*(facts.get_all("License-Expression") or ()), *(facts.get_all("License") or ())):
        if told:
            yield SPELLINGS.get(told, told)
    for line in facts.get_all("Classifier") or ():
        if match := re.fullmatch(r"License :: OSI Approved :: (\w+) License", line):
            yield SPELLINGS.get(f"{match[1]} License", match[1])


@pytest.mark.parametrize("bad", requirements("known-bad.txt"), ids=str)
def test_nothing_with_a_known_weakness_is_installed_or_allowed(bad: Requirement) -> None:
    here = {canonicalize_name(one.metadata["Name"]): one.version for one in distributions()}
    name = canonicalize_name(bad.name)
    assert name not in here or not bad.specifier.contains(here[name], prereleases=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    for requirement in map(Requirement, ours):
        if canonicalize_name(requirement.name) == name:
            for limit in requirement.specifier:
                if limit.operator == ">=":
                    assert not bad.specifier.contains(limit.version, prereleases=True), f"{requirement} allows {bad}"


def test_every_installed_version_was_chosen() -> None:
    chosen: dict[str, str] = {
        canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in requirements("constraints.txt")
    }
    for name in installed_with_us():
        try:
            version = distribution(name).version
        except PackageNotFoundError:
            continue
        assert Version(chosen[name]) == Version(version), name


def test_the_licence_list_is_what_is_installed() -> None:
    page = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| ([a-z0-9-]*[a-z0-9][a-z0-9-]*) \| ([^|]+?) \|", page, re.MULTILINE))
    del listed["package"]
    there = installed_with_us() & {canonicalize_name(one.metadata["Name"]) for one in distributions()}
    assert there <= listed.keys()
    assert listed.keys() <= {canonicalize_name(one.name) for one in requirements("constraints.txt")}
    for name in there:
        told = list(licences_of(name))
        assert any(listed[name].startswith(licence) for licence in told), (name, told)


def test_no_licence_asks_for_more_than_naming_it() -> None:
    """A library under the LGPL that is imported, and may be exchanged, is fine; anything stronger is not."""
    page = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    assert not re.search(r"(?<!L)GPL|SSPL|BUSL|Commons", page)
