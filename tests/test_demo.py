"""`becalm demo` in a browser, from keys to answers; and the package becalm-client in Node."""

import contextlib
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import chromium
import pytest
from conftest import FULL

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "packaging" / "site"))
import shots  # noqa: E402

MODULE = ROOT / "target" / "client" / "becalm_client.wasm"
PAGE = ROOT / "crates" / "becalm-cli" / "demo"
BECALM = [sys.executable, "-m", "becalm"]
#: The first bytes of the evaluation keys of CKKS, which are no container.
CKKS_KEYS = "becalm ckks 0003"
#: Kinds that may leave the page. All others are refused here, secret keys among them.
PUBLIC = {
    "becalm.lwe",
    "becalm.program",
    "becalm.evaluation_key",
    "becalm.rlwe",
    "becalm.ckks_program",
    CKKS_KEYS,
}

needs_module = pytest.mark.skipif(
    not MODULE.exists(), reason="no client for wasm32: `make client` builds it"
)


class Wire:
    """A proxy between browser and server, which keeps every byte that the browser sends."""

    def __init__(self, port):
        self._port, self._server = port, socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.connections, self._sockets, self._threads = [], [self._server], []
        self._start(self._accept)

    def _start(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._sockets:
            end.close()

    def _accept(self):
        with contextlib.suppress(OSError):  # The test has ended.
            while True:
                browser, _ = self._server.accept()
                self._sockets.append(browser)
                server = socket.create_connection(("127.0.0.1", self._port))
                self._sockets.append(server)
                kept = bytearray()
                self.connections.append(kept)
                self._start(self._copy, browser, server, kept)
                self._start(self._copy, server, browser, None)

    @staticmethod
    def _copy(source, target, kept):
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                if kept is not None:
                    kept += piece
                target.sendall(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def requests(self):
        """Method, path and body of each request."""
        found = []
        for kept in self.connections:
            rest = bytes(kept)
            while rest:
                head, _, rest = rest.partition(b"\r\n\r\n")
                method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                length = int(length[1]) if length else 0
                found.append((method, path, rest[:length]))
                assert len(rest) >= length
                rest = rest[length:]
        return found


def kind(file):
    """The kind of a file of becalm."""
    if file.startswith(CKKS_KEYS.encode()):
        return CKKS_KEYS
    (length,) = struct.unpack("<Q", file[:8])
    return json.loads(file[8 : 8 + length])["__metadata__"]["format"]


@pytest.fixture(scope="module")
def demo():
    """A demo that runs, and its address."""
    command = [*BECALM, "demo", "--client", str(MODULE), "--json", "--device", "cpu"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        assert line, "the demo did not start"
        text += line
    yield json.loads(text)["address"]
    process.terminate()
    with process:
        assert process.wait(timeout=60) == 0


@needs_module
def test_the_package_works_in_node():
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node: install version 20 or later")
    script = ROOT / "crates" / "becalm-client" / "npm" / "test.mjs"
    command = [node, str(script), str(MODULE), *BECALM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_module
def test_the_example_of_the_page_runs_in_node(demo, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node: install version 20 or later")
    page = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```js\n(.*?)^```$", page, re.M | re.S)
    address, token = demo.split("/#")
    (said,) = re.findall(r"console\.log\(.*\); // (.*)", block)
    block, named = re.subn(r"'https://…', token", f"{address!r}, {token!r}", block)
    assert named == 1
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "becalm-client").symlink_to(MODULE.parent)
    (tmp_path / "example.mjs").write_text(block, encoding="utf-8")
    command = [node, "--preserve-symlinks", "example.mjs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(said)


def test_the_types_fit_the_package():
    local = ROOT / "target" / "npm" / "node_modules" / ".bin" / "tsc"
    tsc = shutil.which("tsc") or (str(local) if local.exists() else None)
    if tsc is None:
        pytest.skip("no TypeScript: npm install --prefix target/npm typescript@5.9.3")
    flags = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"]
    package = ROOT / "crates" / "becalm-client" / "npm"
    done = subprocess.run(
        [tsc, *flags, "types.test.ts"], cwd=package, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@needs_module
def test_module_and_page_are_small():
    scripts = [*PAGE.iterdir(), ROOT / "crates" / "becalm-client" / "npm" / "index.js"]
    assert sum(path.stat().st_size for path in [MODULE, *scripts]) < 3_000_000


def test_the_page_names_no_other_host():
    for path in PAGE.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(?:https?:)?//[\w.]+\.\w", text), path.name


def test_a_command_without_the_module_says_how_to_build_it(tmp_path):
    wrong = tmp_path / "module"
    wrong.write_bytes(b"no module")
    done = subprocess.run([*BECALM, "demo", "--client", str(wrong)], capture_output=True, text=True)
    assert done.returncode == 4 and "make client" in done.stderr


@needs_module
def test_a_browser_encrypts_and_decrypts(demo, tmp_path):
    program = shots.browser()
    if program is None:
        pytest.skip("no Chromium: install the package chromium of your system")
    port, token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{64})", demo).groups()
    with Wire(int(port)) as wire, chromium.Page(program, tmp_path / "profile") as page:
        page.call("Page.navigate", url=f"http://127.0.0.1:{wire.port}/#{token}")
        page.run("globalThis.$ = (name) => document.getElementById(name)")
        page.wait("$('age-run')?.disabled === false")
        check_ages(page)
        check_table(page)
        check_noise(page)
        check_panel(page)
        if FULL:
            check_vector(page)
        picture = ROOT / "target" / "shots" / "demo.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        page.picture(picture)
        data = picture.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 60_000
        check_events(page, wire.port)
    check_wire(wire.requests(), token)


def press(page, name):
    """Presses a button, waits for the answer, and returns what it holds for a test."""
    page.run(f"$('{name}-run').click()")
    page.wait(f"!$('{name}-run').disabled", seconds=900)
    fault = f"$('{name}-answer').classList.contains('error') && $('{name}-answer').innerText"
    assert not page.run(fault), page.run(fault)
    return json.loads(page.run(f"JSON.stringify($('{name}-answer').dataset)"))


def slide(page, name, value):
    page.run(f"$('{name}').value = {value}; $('{name}').dispatchEvent(new Event('input'))")


def check_ages(page):
    for age, least, allowed in ((34, 18, "true"), (17, 18, "false"), (18, 18, "true")):
        slide(page, "age", age)
        slide(page, "least", least)
        assert press(page, "age")["allowed"] == allowed


def check_table(page):
    squares = [x * x % 16 for x in range(16)]
    assert numbers(press(page, "table")["results"]) == squares
    page.run("$('table').scrollIntoView()")
    box = json.loads(page.run("JSON.stringify($('table').getBoundingClientRect())"))
    x, y, width, height = (box[side] for side in ("x", "y", "width", "height"))
    steps = range(16)
    page.drag([(x + width * (0.06 + 0.06 * i), y + height * (0.2 + 0.04 * i)) for i in steps])
    sliders = "[...$('table').querySelectorAll('[role=slider]')]"
    page.run(f"{sliders}[0].focus()")
    page.key("ArrowDown")
    drawn = numbers(page.run(f"{sliders}.map((x) => x.ariaValueNow).join()"))
    assert len(set(drawn)) > 8 and drawn != squares
    assert numbers(press(page, "table")["results"]) == drawn


def numbers(text):
    return [float(x) for x in text.split(",")]


def check_noise(page):
    data = press(page, "noise")
    measured, formula = numbers(data["std"]), numbers(data["formula"])
    assert measured[1] > 3 * measured[2] and data["wrong"] == "0"
    for m, f in zip(measured, formula, strict=True):
        # 64 samples: their deviation is within 40 % but for one case in 10^5.
        assert 0.6 < m / f < 1.4, data


def check_vector(page):
    press(page, "ckks")  # Makes keys.
    data = press(page, "ckks")
    assert data["levels"] == "0,5"
    before, after = numbers(data["errors"])
    assert before < 2**-18 and after < 2**-11


def check_panel(page):
    assert page.run("$('wire').querySelectorAll('tr').length") > 10
    # 255 for uniform bytes, with a deviation of 23: 400 is six of them away.
    assert 140 < float(page.run("$('detail').dataset.chiSquare")) < 400
    assert page.run("$('detail').querySelector('pre').innerText.length") > 1000


def check_events(page, port):
    """Nothing failed in the page, and it asked its own server alone."""
    for event in page.events:
        assert event.get("method") != "Runtime.exceptionThrown", event
        if event.get("method") == "Log.entryAdded":
            assert event["params"]["entry"]["level"] != "error", event
        if event.get("method") == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            assert url.startswith((f"http://127.0.0.1:{port}/", "data:")), url


def check_wire(requests, token):
    """Public files alone left the page, and the token was in no address."""
    files = [body for method, path, body in requests if method == "PUT" and "/files/" in path]
    assert {kind(file) for file in files} <= PUBLIC
    assert {"becalm.lwe", "becalm.program", "becalm.evaluation_key"} <= {kind(f) for f in files}
    for method, path, body in requests:
        assert token not in path and method in ("GET", "PUT", "DELETE")
        if "/files/" not in path and body:
            # The request for a job: digests, and the number of ciphertexts.
            request = json.loads(body)
            assert set(request) == {"program", "keys", "inputs", "chunk"}
