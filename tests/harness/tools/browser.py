"""A headless Chromium, spoken to by its own protocol over two pipes: nothing to install beside it."""

import base64
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_S = 60


def program():
    """Returns the path of a browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """Use it with `with`; `open` gives a page."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="micanite-browser-", ignore_cleanup_errors=True)
        theirs_in, self.to = os.pipe()
        self.back, theirs_out = os.pipe()

        def place():
            # The browser expects its ends at 3 and 4.
            high = [os.dup(fd) for fd in (theirs_in, theirs_out)]
            high = [os.dup2(fd, 100 + at) for at, fd in enumerate(high)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        words = [program(), "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"]
        words += ["--disable-dev-shm-usage", "--disable-background-networking",]
        words += [f"--user-data-dir={self.profile.name}"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=place,  # noqa: PLW1509 (it calls the kernel alone)
            pass_fds=(3, 4),
            env=os.environ | {"HOME": self.profile.name},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.ready = selectors.DefaultSelector()
        self.ready.register(self.back, selectors.EVENT_READ)
        self.buffer = bytearray()
        self.number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self.process.wait(timeout=PATIENCE_S)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.ready.close()
        os.close(self.to)
        os.close(self.back)
        self.profile.cleanup()

    def call(self, method, session=None, **parameters):
        """Calls a method and returns the result. Messages that come meanwhile are kept in `events`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data) :]
        answer = self.until(lambda said: said.get("id") == self.number)
        assert "error" not in answer, f"{method}: {answer}"
        return answer["result"]

    def until(self, wanted):
        """The next message that is wanted."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            while b"\0" in self.buffer:
                line, _, self.buffer = self.buffer.partition(b"\0")
                said = json.loads(line)
                if "method" in said:
                    self.events.append(said)
                if wanted(said):
                    return said
            assert self.ready.select(max(0, deadline - time.monotonic())), "the browser says nothing"
            data = os.read(self.back, 1 << 20)
            assert data, "the browser has ended"
            self.buffer += data

    def open(self, url, width, dark=False, height=800, script=""):
        """A page in a window of so many CSS pixels, as a person would have it who likes it dark or not.
        `script` runs before its own."""
        return Page(self, url, width, height, dark, script)


class Page:
    """A page that has loaded."""

    def __init__(self, browser, url, width, height, dark, script):
        self.browser = browser
        self.width = width
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        if script:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        self.call("Page.navigate", url=url)
        browser.until(
            lambda said: said.get("method") == "Page.loadEventFired" and said["sessionId"] == self.session
        )

    def call(self, method, **parameters):
        """Calls a method for this page and returns the result."""
        return self.browser.call(method, self.session, **parameters)

    def value(self, script):
        """Returns the result of a script, which is the body of a function."""
        answer = self.call("Runtime.evaluate", expression=f"(() => {{{script}}})()", returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def settled(self, script):
        """Returns what the promise of a script, an expression, comes to."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key):
        """Presses a key, such as ArrowLeft or Tab."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key]
            )

    def events(self, method):
        """Returns the parameters of this page's events."""
        return [
            said["params"]
            for said in self.browser.events
            if said["method"] == method and said.get("sessionId") == self.session
        ]

    def complaints(self, *own):
        """Returns the browser's errors, and its requests that begin otherwise than `own`."""
        entries = [logged["entry"] for logged in self.events("Log.entryAdded")]
        errors = [entry["text"] for entry in entries if entry["level"] == "error"]
        errors += [str(thrown["exceptionDetails"]) for thrown in self.events("Runtime.exceptionThrown")]
        urls = [sent["request"]["url"] for sent in self.events("Network.requestWillBeSent")]
        return errors, [url for url in urls if not url.startswith(own)]

    def screenshot(self, path, top=None, height=None):
        """The whole page, or a part of it, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": top or 0, "width": self.width, "height": height or size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        """Closes its window."""
        self.browser.call("Target.closeTarget", targetId=self.target)
