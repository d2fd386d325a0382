"""What other users of the machine, and whoever looks at a terminal, get to see and to reach of a session that we start."""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from opendataflow.spark.settings import spark_settings
from opendataflow.tokens import SECRET_NAMES
from tests.support.shell import Shell

CANARY = "c4n4ry-of-the-test"
SECRETS = {
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": f"{CANARY}-azure",
    "spark.hadoop.fs.azure.sas.fixed.token.lake": f"{CANARY}-sas",
    "spark.hadoop.fs.s3a.secret.key": f"{CANARY}-s3",
    "spark.hadoop.fs.s3a.access.key": f"{CANARY}-access",
    "spark.hadoop.google.cloud.auth.service.account.private.key": f"{CANARY}-google",
    "spark.ssl.keyPassword": f"{CANARY}-ssl",
    "spark.my.passphrase": f"{CANARY}-phrase",
    "spark.my.apiKey": f"{CANARY}-api",
}
LOGIN = {"spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:mysql://etl:{CANARY}-url@db/metastore"}

START = """
import json, os, sys
from opendataflow.spark.session import session, ui_of
settings = json.loads(sys.argv[1])
spark = session(settings, app_name="doors", redact=lambda text: text.replace("sesame", "[redacted]"))
context = spark.sparkContext
assert spark.range(10).repartition(2).count() == 10
jvm = context._gateway.proc.pid
inodes = set()
for descriptor in os.listdir(f"/proc/{jvm}/fd"):
    try:
        inodes.add(os.readlink(f"/proc/{jvm}/fd/{descriptor}"))
    except OSError:
        pass
listening = []
for table in ("tcp", "tcp6"):
    for line in open(f"/proc/{jvm}/net/{table}").read().splitlines()[1:]:
        cells = line.split()
        if cells[3] == "0A" and f"socket:[{cells[9]}]" in inodes:
            address, port = cells[1].split(":")
            listening.append([address, int(port, 16)])
system = context._jvm.java.lang.System
for stream in (system.err, system.out):
    stream.println("to \\x1b]0;title\\x07\\x1b[31mred\\x1b[0m sesame \\u202e end")
    stream.flush()
told = {
    "listening": listening,
    "ui": ui_of(spark),
    "port": int(context._conf.get("spark.driver.port")),
    "authenticate": context._conf.get("spark.authenticate"),
    "secret": context._conf.get("spark.authenticate.secret", ""),
    "command": open(f"/proc/{jvm}/cmdline").read(),
    "environment": open(f"/proc/{jvm}/environ", errors="replace").read(),
    "own": os.environ.get("SPARK_LOCAL_IP", ""),
    "mode": os.stat(context._conf.get("spark.local.dir")).st_mode & 0o777,
}
print("TOLD " + json.dumps(told), flush=True)
sys.stdin.readline()
spark.stop()
"""
LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")


class Started:
    """A process with a session in it."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode())
            if line.startswith(b"TOLD "):
                break
        else:
            raise AssertionError(self.process.communicate()[1].decode())
        self.told: dict[str, Any] = json.loads(self.lines.pop()[5:])

    def end(self) -> tuple[str, str]:
        out, err = self.process.communicate(b"\n", timeout=120)
        return "".join(self.lines) + out.decode(), err.decode()


@pytest.mark.fault(25, 32)
@pytest.mark.slow
def test_nothing_of_a_local_session_listens_beyond_this_machine_and_no_secret_shows() -> None:
    started = Started({"master": "local[2]", "ui": True, "spark.ui.port": 0, "conf": SECRETS | LOGIN})
    told = started.told
    assert told["listening"]
    assert [address for address, _ in told["listening"] if address not in LOOPBACK] == []
    assert told["authenticate"] == "true"
    assert told["mode"] == 0o700, "what Spark spills is for its own user"
    assert told["own"] == "", "our own environment is as it was"
    assert CANARY not in told["command"] + told["environment"]
    page = urlopen(f"{told['ui']}/environment/").read().decode()
    application = json.loads(urlopen(f"{told['ui']}/api/v1/applications").read())[0]["id"]
    data = urlopen(f"{told['ui']}/api/v1/applications/{application}/environment").read().decode()
    assert "fs.azure.account.key" in data
    assert CANARY not in page + data
    refuse_strangers(told["port"])
    out, err = started.end()
    for text in (out, err):
        assert "red" in text
        assert not set("\x1b\x07\u202e") & set(text)
        assert "sesame" not in text
        assert "to ]0;title[31mred[0m [redacted]  end\n" in text
        assert CANARY not in text


@pytest.mark.fault(25, 32)
@pytest.mark.slow
def test_executors_that_we_start_as_processes_share_a_secret_that_nobody_sees() -> None:
    settings = {"master": "local-cluster[1,1,512]", "executor.memory": "512m"}
    told = [started.told | {"end": started.end()} for started in (Started(settings), Started(settings))]
    for each in told:
        assert len(each["secret"]) == 64
        assert each["secret"] not in each["command"] + each["environment"] + "".join(each["end"])
        assert [address for address, _ in each["listening"] if address not in LOOPBACK] == []
    assert told[0]["secret"] != told[1]["secret"]


@pytest.mark.fault(32)
def test_the_drivers_port_does_not_listen_to_strangers(spark: SparkSession) -> None:
    assert spark.sparkContext._conf.get("spark.authenticate") == "true"
    refuse_strangers(int(str(spark.sparkContext._conf.get("spark.driver.port"))))


def refuse_strangers(port: int) -> None:
    """Bytes for Java to deserialise, from somebody without the secret: they are not even looked at."""
    body = b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap"
    message = struct.pack(">bqi", 3, 1, len(body)) + body  # an RpcRequest of Spark's transport
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
        stranger.sendall(struct.pack(">q", len(message) + 8) + message)
        answer = b""
        while data := stranger.recv(65536):
            answer += data
            if b"\tat " in answer or len(answer) > 100_000:
                break
    assert b"Expected SaslMessage" in answer, answer
    assert b"NettyRpcEnv" not in answer, "nobody reads what a stranger says"


@pytest.mark.parametrize(
    "name", [*SECRETS, "spark.authenticate.secret", "password", "FS.AZURE.ACCOUNT.KEY.x", "client_credentials"]
)
def test_one_pattern_knows_the_names_of_secrets(name: str) -> None:
    assert re.search(SECRET_NAMES, name)
    assert spark_settings({})["spark.redaction.regex"].startswith(SECRET_NAMES)


@pytest.mark.parametrize(
    "name", ["spark.master", "spark.sql.shuffle.partitions", "spark.redaction.regex", "spark.driver.memory"]
)
def test_what_is_no_secret_still_reaches_the_command_line(name: str) -> None:
    assert not re.search(SECRET_NAMES, name)


@pytest.mark.slow
def test_a_module_in_the_folder_where_odf_is_started_stands_in_for_none_of_sparks_workers(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.write("dataflow.toml", '[dataset.a]\nlocation = "a.csv"\n[dataset.b]\nlocation = "b/{dataid}"')
    shell.write("a.csv", "x\n1\n")
    shell.write(
        "jobs/j.py",
        "from opendataflow import job\nfrom pyspark.sql.functions import udf\n"
        "@job(reads='a', writes='b')\ndef j(a):\n    return a.select(udf(lambda x: f'{x}!')('x').alias('x'))\n",
    )
    shell.odf("apply", "--yes")
    shell.odf("ready", "a", "1")
    shell.write("open/typing.py", "open('ran', 'w').close()\n")
    (tmp_path / "open").chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "opendataflow", "run", "j"],
        cwd=tmp_path / "open",
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert list((tmp_path / "open").iterdir()) == [tmp_path / "open/typing.py"]
    assert done.returncode == 0, done.stderr


def test_only_sessions_of_this_machine_are_authenticated_by_us(tmp_path: Path) -> None:
    assert spark_settings({}, "local[1]")["spark.authenticate"] == "true"
    assert spark_settings({}, "local-cluster[1,1,1024]")["spark.authenticate"] == "true"
    assert "spark.authenticate" not in spark_settings({}, "spark://host:7077")
    assert "spark.authenticate" not in spark_settings({}, "yarn")
    assert (
        spark_settings({"authenticate.x": "y", "conf": {"spark.authenticate": False}})["spark.authenticate"] == "false"
    )
