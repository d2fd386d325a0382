"""Two hosts on one network, made of namespaces, and the cables that a test may pull."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.shell import ODF, Shell

HOSTS = ("left", "right")
NETWORK = "10.0.0.0/8"  # all hosts of all tests are somewhere in there
TOOLS = ("ip", "nsenter", "unshare", "hostname")
# A host has a name, processes and a network of its own, and the files of this one, as hosts share a disk.
BOOT = ["unshare", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child"]
RUN = ["sh", "-c", 'hostname "$0" && echo up && exec sleep infinity']


class Network:
    """A bridge here, and hosts with a port of it each; what a host that is cut off sends is lost without a word."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.subnet = f"10.{int(name[3:5], 16)}.{int(name[5:7], 16)}"
        self._hosts: dict[str, subprocess.Popen[str]] = {}

    @property
    def address(self) -> str:
        """Where the hosts reach what runs here."""
        return f"{self.subnet}.1"

    def cut(self, host: str) -> None:
        """Pull the cable; no connection is told."""
        _ip("link", "set", self._port(host), "down")

    def mend(self, host: str) -> None:
        """Put it back."""
        _ip("link", "set", self._port(host), "up")

    def start(self, shell: Shell, host: str, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """A command on a host."""
        into = ["nsenter", f"--target={self._init(host)}", "--net", "--uts", "--pid", "--mount", f"--wd={shell.folder}"]
        return subprocess.Popen(
            [*into, *ODF, *arguments],
            env={**shell.environment, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def pid(self, host: str, inside: int) -> int:
        """The number that a process of a host has here."""
        space = os.readlink(f"/proc/{self._init(host)}/ns/pid")
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError):
                line = next(line for line in status.read_text().splitlines() if line.startswith("NSpid:"))
                if os.readlink(status.parent / "ns/pid") == space and int(line.split()[-1]) == inside:
                    return int(status.parent.name)
        raise ProcessLookupError(inside)

    def make(self) -> None:
        """Make the bridge and the hosts."""
        _ip("link", "add", self.name, "type", "bridge")
        _ip("address", "add", f"{self.address}/24", "dev", self.name)
        _ip("link", "set", self.name, "up")
        for number, host in enumerate(HOSTS, 2):
            space, port = f"{self.name}{host[0]}", self._port(host)
            _ip("netns", "add", space)
            _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", port, "master", self.name, "up")
            _ip("-n", space, "address", "add", f"{self.subnet}.{number}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
            booted = ["nsenter", f"--net=/run/netns/{space}", *BOOT, *RUN, host]
            self._hosts[host] = subprocess.Popen(booted, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            stdout = self._hosts[host].stdout
            if stdout is None or (said := stdout.readline()) != "up\n":
                raise OSError(f"a host did not come up: {said}")

    def crash(self) -> None:
        """Both hosts are off at once, and all their processes gone."""
        while self._hosts:
            _, process = self._hosts.popitem()
            process.kill()
            process.communicate()

    def remove(self) -> None:
        """Take everything away that is there of it."""
        self.crash()
        for host in HOSTS:
            _ip("link", "delete", self._port(host), check=False)
            _ip("netns", "delete", f"{self.name}{host[0]}", check=False)
        _ip("link", "delete", self.name, check=False)

    def _port(self, host: str) -> str:
        return f"{self.name}{host[0]}"

    def _init(self, host: str) -> int:
        """The first process of a host, which is the child of the one that made its namespaces."""
        parent = self._hosts[host].pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


@contextmanager
def network() -> Iterator[Network]:
    """A network of its own; OSError, with the reason, where this machine does not allow one."""
    if os.geteuid() != 0:
        raise OSError("only root may make namespaces")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise OSError(f"{missing[0]} is not installed")
    made = Network(f"odf{uuid.uuid4().hex[:6]}")  # a name of a device has at most 15 characters
    try:
        made.make()
        yield made
    finally:
        made.remove()


def _ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
