"""Nobody else reads the captures: token, host name, paths, methods, headers, all over raw sockets."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path

import pytest

from fitdoctor.serve.answers import policy_for
from tests.captures.build import Run
from tests.serve.conftest import Client


def test_it_listens_on_this_machine_alone(client: Client) -> None:
    assert client.server.socket.getsockname()[0] == "127.0.0.1"
    own = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in own - {"127.0.0.1"}:
        if address.startswith("127."):
            continue
        with (
            pytest.raises((ConnectionError, TimeoutError)),
            socket.create_connection((address, client.server.port), timeout=2),
        ):
            pass


def test_the_token_opens_and_nothing_else_does(client: Client) -> None:
    token = client.server.token
    assert client.get().status == 200
    for path in ("/", "/x/", f"/{token[:-1]}/", f"/{token}x/", f"/{token.swapcase()}/", "/favicon.ico"):
        said = client.ask(path)
        assert said.status == 403, path
        assert token not in said.text
    assert client.ask(f"/{token}").status == 308
    assert len(token) >= 43, "256 bits"


def test_a_token_of_strange_characters_is_only_wrong(client: Client) -> None:
    assert client.raw(b"GET /\xff\xfe\xe4/ HTTP/1.1\r\nHost: " + client.host.encode() + b"\r\n\r\n").status == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1:{port}.evil", ""],
)
def test_a_foreign_name_that_leads_here_is_not_answered(client: Client, host: str) -> None:
    said = client.get(Host=host.format(port=client.server.port))
    assert said.status == 421
    assert "train.py" not in said.text


def test_no_host_and_two_hosts_are_refused(client: Client) -> None:
    path = f"/{client.server.token}/".encode()
    host = client.host.encode()
    assert client.raw(b"GET " + path + b" HTTP/1.1\r\n\r\n").status == 421
    assert client.raw(b"GET " + path + b" HTTP/1.0\r\n\r\n").status == 421
    two = b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nHost: evil.example\r\n\r\n"
    assert client.raw(two).status == 421
    assert client.get(Host=f"localhost:{client.server.port}").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_only_reading_is_possible(client: Client, method: str) -> None:
    said = client.ask(f"/{client.server.token}/", method, Content_Length="0")
    assert (said.status, said.headers["allow"]) == (405, "GET, HEAD")
    assert said.headers["connection"] == "close"


def test_an_unknown_method_and_garbage_are_refused_without_an_echo(client: Client) -> None:
    for request in (b"BREW /<script> HTTP/1.1\r\n\r\n", b"\x00\x01\x02 / x\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        said = client.raw(request)
        assert 400 <= said.status <= 505
        assert b"<script>" not in said.body
    assert client.raw(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n").status == 414
    assert client.get().status == 200, "and it is still there"


def test_a_body_nobody_asked_for_is_not_taken_for_the_next_request(client: Client) -> None:
    inner = f"GET /{client.server.token}/ HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode()
    outer = (
        f"GET /{client.server.token}/serve.js HTTP/1.1\r\nHost: {client.host}\r\nContent-Length: {len(inner)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.server.port), timeout=20) as connection:
        connection.sendall(outer.encode() + inner)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "run/../../secret.txt", "run/..%2f..%2fsecret.txt", "run/%2e%2e/%2e%2e/secret.txt",
        "run/%252e%252e%252fsecret.txt", "run//etc/passwd", "run/%2fetc%2fpasswd", "run/..\\..\\secret.txt",
        "/etc/passwd", "project/../../secret.txt", "serve.css/../../secret.txt", "assets/serve.css", "run/%00",
        "run/0123456789abcdef", "run/0123456789abcdef/../../secret.txt", "run/run-0.fitdoctor", "run-0.fitdoctor",
    ],
)  # fmt: skip
def test_no_path_leads_outside_or_to_a_file(client: Client, path: str) -> None:
    said = client.get(path)
    assert said.status == 404
    assert b"secret" not in said.body.replace(b"secret.txt", b"")
    assert b"root:" not in said.body


def test_an_address_with_another_server_in_it_is_refused(client: Client) -> None:
    for target in (f"http://evil.example/{client.server.token}/", f"http://{client.host}/{client.server.token}/", "*"):
        assert client.ask(target).status == 403


def test_links_that_lead_outside_are_not_followed(client: Client, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    hidden = Run("jax", script="/home/me/hidden.py", started=1.0).fit(steps=50, compute_ms=5).capture(outside)
    (folder / "link.fitdoctor").symlink_to(hidden.path)
    (folder / "dangling.fitdoctor").symlink_to(tmp_path / "nowhere")
    (folder / "linked").symlink_to(outside, target_is_directory=True)
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    os.mkfifo(folder / "pipe.fitdoctor")
    inner = folder / "below"
    inner.mkdir()
    Run("jax", script="/home/me/below.py", started=1.0).fit(steps=50, compute_ms=5).capture(inner)
    said = client.get()
    assert said.status == 200
    assert "hidden.py" not in said.text
    assert "below.py" in said.text
    assert len(client.server.answers.shelf.entries()) == 3


def test_a_capture_that_becomes_a_link_to_the_outside_is_gone(client: Client, folder: Path, tmp_path: Path) -> None:
    entry = client.server.answers.shelf.entries()[0]
    entry.path.rename(tmp_path / "moved.fitdoctor")
    entry.path.symlink_to(tmp_path / "moved.fitdoctor")
    assert client.get(f"run/{entry.id}").status == 404
    assert client.get(f"run/{entry.id}/trace.json").status == 404


def test_every_answer_says_what_a_browser_may_do_with_it(client: Client) -> None:
    entry = client.server.answers.shelf.entries()[0]
    for path in ("", "serve.css", "serve.js", "live.json", f"run/{entry.id}", f"run/{entry.id}/report.json", "nothing"):
        said = client.get(path)
        policy = said.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
        assert "unsafe-eval" not in policy
        assert re.search(r"script-src ('self'|'none'|'sha256-)", policy)
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["referrer-policy"] == "no-referrer"
        assert said.headers["cache-control"] == "no-store"
        assert said.headers["server"] == "fitdoctor"
        assert not [name for name in said.headers if name.startswith("access-control")]
        assert "set-cookie" not in said.headers


def test_no_page_asks_anybody_else(client: Client) -> None:
    entry = client.server.answers.shelf.entries()[0]
    for path in ("", "serve.css", "serve.js", f"run/{entry.id}"):
        # The names of namespaces, and the line that says whose library this is.
        text = re.sub(r"http://www\.w3\.org/\S+|/\*! https://\S+ \(v[\d.]+\) \*/", "", client.get(path).text)
        assert not re.search(r"(https?:)?//[a-z0-9]", text.replace(client.host, "")), path


def test_head_is_get_without_a_body(client: Client) -> None:
    got, head = client.get("serve.css"), client.ask(f"/{client.server.token}/serve.css", "HEAD")
    assert head.body == b""
    assert {**head.headers, "date": ""} == {**got.headers, "date": ""}


def test_a_slow_client_holds_nobody_up(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.server.port), timeout=20) as slow:
        slow.sendall(b"GET / HT")
        assert client.get().status == 200


def test_what_a_capture_says_never_becomes_markup(client: Client, folder: Path) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    run = Run("jax", script=f"/x/{evil}.py", command=["t.py", evil], versions={"keras": evil}, started=9e8)
    run.fit(steps=200, compute_ms=1, callbacks_ms=9).callback(evil, ms=9).capture(folder)
    entry = next(each for each in client.server.answers.shelf.entries() if "script" in each.script)
    for path in ("", f"run/{entry.id}", f"run/{entry.id}/report.json", "live.json"):
        said = client.get(path)
        assert said.status == 200
        if said.headers["content-type"].startswith("text/html"):
            assert "<script>alert" not in said.text
            assert "<img" not in said.text
    assert client.get(f"run/{entry.id}/report.json").headers["content-disposition"].startswith("attachment")


def test_reading_changes_no_file(client: Client, folder: Path) -> None:
    def state() -> dict[str, tuple[int, str]]:
        return {
            each.name: (each.stat().st_mtime_ns, hashlib.sha256(each.read_bytes()).hexdigest())
            for each in folder.iterdir()
        }

    before = state()
    for entry in client.server.answers.shelf.entries():
        for part in ("", "/report.json", "/trace.json"):
            assert client.get(f"run/{entry.id}{part}").status == 200
    while client.server.answers.diagnoses.work():
        pass
    client.get("live.json")
    assert state() == before


def test_a_page_of_its_own_gets_a_policy_of_its_own() -> None:
    page = "<body><style>b{}</style><script>one()</script><script type='application/json'>{}</script>"
    policy = policy_for(page)
    assert policy.count("'sha256-") == 2
    assert "script-src 'unsafe-inline'" not in policy
