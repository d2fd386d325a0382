"""Whose project files are obeyed, and what the worker's own configuration says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opendataflow.errors import BadConfig
from opendataflow.project import Trust, load, without_file

STRANGER = 54321


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the configuration of whoever works here would be."""
    monkeypatch.delenv("ODF_CONFIG", raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/odf").mkdir(parents=True)
    return tmp_path / "config/odf/config.toml"


@pytest.fixture
def project(tmp_path: Path, config: Path) -> Path:
    """A project file of ours."""
    (tmp_path / "shop").mkdir()
    file = tmp_path / "shop/dataflow.toml"
    file.write_text("")
    return file


def owned(monkeypatch: pytest.MonkeyPatch, **owners: int) -> None:
    """Let files of these names belong to somebody: only root could give them away."""
    real = {"stat": os.stat, "lstat": os.lstat}

    def asked(function: str):
        def answer(path, *arguments, **how):
            found = real[function](path, *arguments, **how)
            name = os.path.basename(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else ""
            uid = owners.get(name.replace(".", "_"))
            fields = list(found)
            if uid is not None:
                fields[4] = uid
            return os.stat_result(fields) if uid is not None else found

        return answer

    for function in real:
        monkeypatch.setattr(f"opendataflow.project.config.os.{function}", asked(function))


@pytest.mark.parametrize("name", ["dataflow_toml", "shop"])
def test_a_project_of_another_user_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    load(project)
    owned(monkeypatch, **{name: STRANGER})
    with pytest.raises(BadConfig) as refused:
        load(project)
    assert f"user {STRANGER}" in refused.value.message
    assert f'safe = ["{project.parent}"]' in refused.value.hint


def test_so_are_properties(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project.with_name("dataflow.properties")
    file.write_text("url=jdbc:postgresql://localhost/x\n")
    load(file)
    owned(monkeypatch, dataflow_properties=STRANGER)
    with pytest.raises(BadConfig):
        load(file)


def test_so_is_a_link_that_another_user_put_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = project.parent.parent / "dataflow.toml"
    link.symlink_to(project)
    real = os.lstat
    monkeypatch.setattr(
        "opendataflow.project.config.os.lstat",
        lambda path: os.stat_result([*list(real(path))[:4], STRANGER, *list(real(path))[5:10]]),
    )
    with pytest.raises(BadConfig):
        load(link)


def test_root_may_own_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owned(monkeypatch, dataflow_toml=0, shop=0)
    monkeypatch.setattr("opendataflow.project.config.os.geteuid", lambda: 1000)
    load(project)


@pytest.mark.parametrize(("euid", "is_obeyed"), [(0, True), (1000, False)])
def test_the_user_behind_sudo_may_own_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, euid: int, is_obeyed: bool
) -> None:
    owned(monkeypatch, dataflow_toml=STRANGER, shop=STRANGER)
    monkeypatch.setattr("opendataflow.project.config.os.geteuid", lambda: euid)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    if is_obeyed:
        load(project)
    else:
        with pytest.raises(BadConfig):
            load(project)


def test_a_safe_folder_is_obeyed_and_no_other(project: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owned(monkeypatch, dataflow_toml=STRANGER, shop=STRANGER)
    config.write_text(f'safe = ["{project.parent}/"]')
    config.chmod(0o600)
    load(project)
    config.write_text(f'safe = ["{project.parent.parent}"]')
    with pytest.raises(BadConfig):
        load(project)


def test_trust_of_project_and_worker_come_together(project: Path, config: Path) -> None:
    project.write_text('[trust]\nitems = ["TZ", "LANG"]\nhosts = "db"\n')
    config.write_text('[trust]\nitems = ["TZ", "LC_ALL"]\nformats = ["delta"]\nsql_checks = true\n')
    config.chmod(0o644)
    trust = load(project).trust
    assert trust == Trust(items=("TZ", "LANG", "LC_ALL"), hosts=("db",), formats=("delta",), sql_checks=True)
    alone = without_file(project.parent, None).trust
    assert (alone.items, alone.hosts, alone.sql_checks) == (("TZ", "LC_ALL"), (), True)
    config.unlink()
    assert without_file(project.parent, None).trust == Trust()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("save = []", "safe"),
        ("[trust]\nhost = 'x'", "hosts"),
        ("safe = ['shop']", ""),
        ("safe = 3", ""),
        ("[trust]\nsql_checks = 'yes'", ""),
        ("[trust]\nitems = [1]", ""),
        ("safe =", ""),
    ],
)
def test_what_makes_no_sense_there_is_refused(project: Path, config: Path, text: str, hint: str) -> None:
    config.write_text(text)
    config.chmod(0o600)
    with pytest.raises(BadConfig) as refused:
        load(project)
    assert config.name in refused.value.message
    assert hint in refused.value.hint


def test_so_is_trust_in_the_project(project: Path) -> None:
    project.write_text("[trust]\nhost = 'x'")
    with pytest.raises(BadConfig, match=r"\[trust\] host"):
        load(project)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_configuration_that_others_can_write_is_refused(project: Path, config: Path, mode: int) -> None:
    config.write_text("")
    config.chmod(mode)
    with pytest.raises(BadConfig, match="writable by other users"):
        load(project)


def test_so_is_one_of_another_user(project: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("")
    config.chmod(0o600)
    owned(monkeypatch, config_toml=STRANGER)
    with pytest.raises(BadConfig, match="belongs to"):
        load(project)


def test_a_file_that_is_named_must_be_there(project: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_CONFIG", str(config))
    with pytest.raises(BadConfig, match="ODF_CONFIG"):
        load(project)
    config.write_text('[trust]\nitems = "A"')
    config.chmod(0o600)
    assert load(project).trust.items == ("A",)
