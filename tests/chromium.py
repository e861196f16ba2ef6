"""A headless Chromium that a test drives by its protocol for developers, over two pipes."""

import base64
import json
import os
import select
import subprocess
import time

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]


class Page:
    """A page of a new browser, which ends with the `with` block."""

    def __init__(self, program, folder, size=(1300, 1500)):
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}"]
        # The browser reads commands from its descriptor 3 and answers at 4.
        line = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        command = ["bash", "-c", line, program, *flags, "about:blank"]
        pipes = (to_browser, from_browser)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=pipes, **quiet)
        for pipe in pipes:
            os.close(pipe)
        self._rest, self._number, self.events = b"", 0, []
        self._session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _message(self, until):
        while b"\0" not in self._rest:
            left = until - time.monotonic()
            ready = select.select([self._from], [], [], max(0, left))[0]
            assert ready, "the browser does not answer"
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, seconds=120, **arguments):
        """The result of a command of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + seconds
        while (answer := self._message(until)).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def run(self, script):
        """The value of an expression in the page."""
        done = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, script, seconds=300):
        """Waits until an expression is true."""
        until = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < until, f"{script}: {self.run('document.body.innerText')}"
            time.sleep(0.1)

    def drag(self, points):
        """Moves the mouse over points of the window with its button down."""
        (x, y), button = points[0], {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **button)
        for x, y in points[1:]:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **button)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, **button)

    def key(self, name):
        """Presses a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def picture(self, path):
        """Writes a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))
