"""The console beside other users of its machine: cookies that were stolen, connections that never ask, secrets in addresses and reasons."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import quote, urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import psycopg
import pytest

from opendataflow.store import open_store
from tests.acceptance.test_console_safety import KEY, TOKENS, Server, addresses, serving, shop, tokens
from tests.support.console import routes
from tests.support.flows import chain
from tests.support.shell import Shell

SECRET = "canary-9d27c4"

# Another user's server: the cookie of whoever comes is shown to the console, in every way that a request can end.
THIEF = """
import http.client, http.server, json, socket, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        headers = {"Cookie": self.headers["Cookie"]}
        told = []
        for method, path in (("GET", "/"), ("GET", "/api/v1/datasets"), ("POST", "/api/v1/verbs/hold"), ("POST", "/logout")):
            console = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
            body = b'{"dataset": ["raw"], "dataid": ["5"]}' if method == "POST" else None
            console.request(method, path, body, headers | {"Content-Type": "application/json"})
            told.append(console.getresponse().status)
            console.close()
        hasty = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        request = f"GET /login HTTP/1.1\\r\\nHost: 127.0.0.1:{sys.argv[1]}\\r\\nCookie: {headers['Cookie']}\\r\\n\\r\\n"
        hasty.sendall(request.encode() * 3)
        hasty.close()
        said = json.dumps({"cookie": headers["Cookie"], "told": told}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *words):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a process as another user")
def test_a_stolen_cookie_opens_nothing(tmp_path: Path) -> None:
    with serving(shop(tmp_path / "shop", tokens())) as server:
        jar = CookieJar()
        browser = build_opener(HTTPCookieProcessor(jar))
        here = f"http://127.0.0.1:{server.port}"
        form = browser.open(f"{here}/login").read().decode()
        csrf = re.search(r'name="csrf" value="([^"]+)"', form)
        assert csrf
        sent = urlencode({"token": TOKENS["admin"][0], "csrf": csrf[1]}).encode()
        assert browser.open(Request(f"{here}/login", sent)).status == 200
        thief = subprocess.Popen(
            ["/usr/bin/python3", "-c", THIEF, str(server.port)], stdout=subprocess.PIPE, text=True, user=65534, cwd="/"
        )
        with thief:
            assert thief.stdout is not None
            try:
                there = f"http://127.0.0.1:{int(thief.stdout.readline())}/"
                answer = json.loads(browser.open(there).read())
            finally:
                thief.kill()
        [cookie] = [each.value for each in jar if each.name == f"odf_session_{server.port}"]
        assert f"{cookie}" in answer["cookie"], "a browser shows it to every port"
        assert answer["told"] == [303, 401, 401, 401]
        assert server.status() == "READY"
        about = browser.open(f"{here}/about")
        assert about.geturl().endswith("/about"), "its owner is still logged in"


def test_tokens_behind_a_proxy_that_names_no_users_are_warned_about(tmp_path: Path) -> None:
    with serving(shop(tmp_path / "shop", tokens())) as server:
        assert "; Secure" not in server.ask("GET", "/login").cookies[0]
        assert "; Secure" in server.ask("GET", "/login", x_forwarded_proto="https").cookies[0]
    assert "bound to the proxy alone" in "".join(server.said)
    told = Shell(tmp_path / "shop").odf("doctor", code=None)
    assert "bound to the proxy alone" in told.out
    proxy = '[web.proxy]\nheader = "X-Forwarded-User"\naddress = "127.0.0.1"\n'
    with serving(shop(tmp_path / "named", tokens() + proxy)) as server:
        pass
    assert "bound to the proxy alone" not in "".join(server.said)
    assert "bound to the proxy alone" not in Shell(tmp_path / "named").odf("doctor", code=None).out


WHO = """
import socket
from opendataflow.web.peer import peer_of
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    print(peer_of(client.getsockname(), server.getsockname()))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_the_user_of_a_connection_is_known_in_a_sandbox_that_shows_processes_only() -> None:
    mount = ["unshare", "--mount", "sh", "-c", 'mount -t proc -o subset=pid proc /proc && exec "$@"', "sh"]
    said = subprocess.run([*mount, sys.executable, "-c", WHO], capture_output=True, text=True, check=True)
    assert said.stdout == "127.0.0.1 0\n"


@pytest.mark.parametrize("spread", [False, True], ids=["one address", "many addresses"])
def test_requests_that_never_end_starve_no_other_client_and_fill_no_log(tmp_path: Path, spread: bool) -> None:
    crowd: list[socket.socket] = []
    with serving(shop(tmp_path / "shop", ""), files=256) as server:
        head = f"GET /about HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n".encode()
        answered = []
        for number in range(1000):
            own = f"127.0.{number // 250}.{number % 250 + 1}" if spread else "127.0.0.1"
            crowd.append(socket.create_connection(("127.0.0.1", server.port), timeout=60, source_address=(own, 0)))
            with suppress(OSError):  # it hung up on this one
                crowd[-1].sendall(head[: number % (len(head) + 1)])
            if number % 100 == 99:
                answered.append(server.ask("GET", "/about").status)
        assert answered == [200] * 10
        for each in crowd:
            each.close()
        assert server.ask("GET", "/").status == 200
    assert len(server.said) <= 20, server.said[:20]


# Secrets of the store's address -------------------------------------------------------------------------------------


def _crawl(server: Server, *secrets: str) -> int:
    """Look at every address, as a person and as a program; how many answered well."""
    headers, good = server.session(), 0
    for path in addresses():
        told = server.ask("GET", path, **headers)
        whole = told.body + "".join(told.headers.values())
        assert not [text for text in secrets if text in whole], path
        good += told.status == 200
    return good


@pytest.mark.postgres
@pytest.mark.parametrize(
    "form",
    [
        "{}?require_auth=none&password={s}",
        "{}?require_auth=none&%70assword={s}",
        "{}?sslpassword={s}",
        "{}?sslmode=disable&sslpassword={s}",
        "login",
    ],
)
def test_no_page_shows_a_secret_of_the_stores_address(fresh_postgres_url: str, tmp_path: Path, form: str) -> None:
    with open_store(fresh_postgres_url) as store:
        chain(store)
        store.announce("raw", ["1", "2", "3"])
    address = (
        fresh_postgres_url.replace("postgres@", f"postgres:{SECRET}@") + "?require_auth=none" if form == "login" else ""
    )
    address = address or form.format(fresh_postgres_url, s=SECRET)
    secrets = (SECRET, SECRET.replace("-", "%2D"))
    with serving(tmp_path, ODF_STORE=address) as server:
        assert _crawl(server, *secrets) > 20
        database = fresh_postgres_url.rpartition("/")[2]
        with psycopg.connect(fresh_postgres_url.replace(f"/{database}", "/postgres"), autocommit=True) as other:
            other.execute(f'alter database "{database}" allow_connections false'.encode())
            other.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [database])
            for path in ("/", "/about", "/api/v1/status", "/datasets/raw"):
                told = server.ask("GET", path)
                assert SECRET not in told.body, path
            other.execute(f'alter database "{database}" allow_connections true'.encode())
    assert SECRET not in "".join(server.said)


@pytest.mark.parametrize(
    "address",
    [
        f"sqlite:///dataflow.db?password={SECRET}",
        f"jdbc:postgresql://127.0.0.1:1/db?password={SECRET}",
        f"host=127.0.0.1 port=1 password={SECRET}",
        f"postgresql://127.0.0.1:1/db?oauth_client_secret={SECRET}",
        f"postgresql://127.0.0.1:1/db?oauth_issuer=https://x/{SECRET}&oauth_client_secret={SECRET}",
        f"postgresql://etl:{SECRET}/x@127.0.0.1:1/db",
        f"postgresql:/etl:{SECRET}@127.0.0.1:1/db",
    ],
)
def test_a_console_that_cannot_open_its_store_does_not_repeat_the_address(tmp_path: Path, address: str) -> None:
    shell = Shell(tmp_path)
    for given, options in (({"ODF_STORE": address}, ()), ({}, ("--store", address))):
        answer = shell.odf("serve", "--listen", "127.0.0.1:0", *options, code=None, **given)
        assert answer.code not in (0, 70)
        assert SECRET not in answer.out + answer.err


# Reasons ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["command line", "form", "api", "api, key in a file"])
def test_a_reason_holds_no_known_secret_at_any_door(tmp_path: Path, door: str) -> None:
    folder = shop(tmp_path / "shop", "")
    said = f"key {KEY} and postgresql://etl:{SECRET}@db/x and {quote(KEY, safe='')}!"
    file = folder / "key"
    file.touch(mode=0o600)
    file.write_text(KEY)
    with serving(folder, **({"PASSKEY": "", "PASSKEY_FILE": str(file)} if "file" in door else {})) as server:  # type: ignore[arg-type]
        for verb, what in (("hold", {"dataset": ["raw"], "dataid": ["5"]}), ("pause", {"job": "make"})):
            if door == "command line":
                named = [each for value in what.values() for each in ([value] if isinstance(value, str) else value)]
                Shell(folder, extra={"PASSKEY": KEY}).odf(verb, *named, "--why", said)
                continue
            headers = server.session()
            if door == "form":
                form = urlencode({**what, "why": said, "csrf": headers.pop("x_odf_csrf")}, doseq=True).encode()
                told = server.ask(
                    "POST", f"/act/{verb}", form, content_type="application/x-www-form-urlencoded", **headers
                )
            else:
                order = json.dumps({**what, "why": said}).encode()
                told = server.ask("POST", f"/api/v1/verbs/{verb}", order, content_type="application/json", **headers)
            assert told.status in (200, 303), told
            assert KEY not in told.body
            assert SECRET not in told.body
        assert server.status() == "HOLD"
        _crawl(server, KEY, SECRET)
    rows = Shell(folder).odf("sql", "select why from event union all select why from pause", "--json").out
    assert rows.count("[redacted]") >= 4
    assert SECRET not in rows
    stored = b"".join(path.read_bytes() for path in folder.glob("dataflow.db*"))
    assert SECRET.encode() not in stored


# Secrets that SQL wrote into rows -----------------------------------------------------------------------------------

LOCATION = f"https://x.example/b/{{dataid}}?sv=1&sig={SECRET}"
ROWS = [
    f"insert into dataset (datasetid, kind, location) values ('signed', 'file', '{LOCATION}')",
    f"insert into dataset (datasetid, kind, location) values ('bucket', 'file', 's3a://k:{SECRET}@b/{{dataid}}')",
    f"insert into dataset (datasetid, kind, hostname, tablename) values ('orders', 'table', 'etl:{SECRET}@db', 't')",
    "insert into dataset (datasetid, kind, format, tablename, options) values ('ora', 'table', 'jdbc', 't', "
    f'\'{{"url": "jdbc:oracle:thin:etl/{SECRET}@//db/x", "options": {{"sas_token": "{SECRET}"}}}}\')',
    "insert into job (jobid, itemtype, datasetid) values ('make', 'IN', 'signed'), ('make', 'IN', 'orders'), "
    "('make', 'OUT', 'bucket')",
    f"insert into job (jobid, itemtype, itemvalue) values ('make', 'API_TOKEN', '{SECRET}')",
    f"insert into job (jobid, itemtype, itemvalue) values ('make', 'SOURCE', 'postgresql://etl:{SECRET}@db/x')",
]
LOOKS = """datasets; datasets signed; datasets bucket; datasets orders; datasets ora; getds signed; getds ora; jobs; jobs make;
getjob make; status; why make; doctor; run make --dataid 1; discover signed; discover bucket"""


def test_secrets_that_sql_wrote_are_shown_at_no_door(shell: Shell) -> None:
    shell.dml(*ROWS)
    shown = {}
    for line in LOOKS.replace("\n", " ").split(";"):
        for more in ([], ["--json"]):
            answer = shell.odf(*line.split(), *more, code=None)
            assert answer.code != 70, (line, answer)
            if SECRET in answer.out + answer.err:
                shown[" ".join([line.strip(), *more])] = (answer.out + answer.err)[:2000]
    assert not shown, shown
    shell.odf("export", "store.jsonl")
    assert SECRET not in (shell.folder / "store.jsonl").read_text()
    assert "[redacted]" in (shell.folder / "store.jsonl").read_text()
    with serving(shell.folder, **({"ODF_STORE": shell.store_url} if shell.store_url else {})) as server:  # type: ignore[arg-type]
        headers = server.session()
        found = []
        for path in sorted({*addresses(), *_filled()}):
            told = server.ask("GET", path, **headers)
            if SECRET in told.body:
                found.append((path, re.findall(f".{{60}}{SECRET}", told.body)[:2]))
        assert not found, found


def _filled() -> list[str]:
    """Every address with the names of this store in it."""
    paths = []
    for name in ("signed", "bucket", "orders", "ora"):
        known = {
            "dataset": name,
            "datasetid": name,
            "dataid": "1",
            "job": "make",
            "jobid": "make",
            "run": "1",
            "runid": "1",
        }
        known |= {"verb": "hold", "n": "1"}
        for method, path in routes():
            if method == "GET" and path != "/live":
                paths.append(re.sub(r"\{(\w+)(?::\w+)?\}", lambda one, known=known: known[one[1]], path))  # type: ignore[misc]
    return paths
