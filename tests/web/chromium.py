"""A headless Chromium, driven by chromedriver over its own HTTP protocol: no package is needed for that."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # chromedriver is on this machine
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, DOWN, RIGHT, LEFT, TAB = "\ue007", "\ue015", "\ue014", "\ue012", "\ue004"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


def missing() -> str:
    """What this machine lacks, or nothing."""
    names = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"no {' and no '.join(names)} here (Debian: apt-get install chromium chromium-driver)" if names else ""


class Chromium:
    """One browser with a profile of its own. ``requests()`` are all that its network layer was asked for."""

    def __init__(self, profile: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        options = {"args": [*FLAGS, f"--user-data-dir={profile}"], "binary": shutil.which("chromium")}
        logs = {"performance": "ALL", "browser": "ALL"}
        asked = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": logs}}}
        self.session = ""
        self.session = "/session/" + self._until_it_answers(asked)["sessionId"]
        self.open("about:blank")
        self.requests()  # those of the browser's own first page

    def _until_it_answers(self, asked: Any) -> Any:
        for _ in range(100):
            try:
                return self.call("POST", "/session", asked)
            except urllib.error.URLError as error:
                if isinstance(error, urllib.error.HTTPError):
                    raise
                time.sleep(0.1)
        raise TimeoutError("chromedriver does not answer")

    def call(self, verb: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.address + self.session + path, data, {"Content-Type": "application/json"}, method=verb
        )
        with DIRECT.open(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, address: str) -> None:
        self.call("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script: str, seconds: float = 20.0) -> Any:
        end = time.monotonic() + seconds
        while not (found := self.run(script)):
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{script!r}; the page says {self.run('return document.body.innerText.slice(0, 400)')!r}"
                )
            time.sleep(0.05)
        return found

    def type(self, selector: str, text: str) -> None:
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        self.call("POST", f"/element/{found[ELEMENT]}/value", {"text": text})

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last call, by anybody in the browser's page."""
        entries = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        kinds = ("Network.requestWillBeSent", "Network.webSocketCreated", "Network.webTransportCreated")
        found = [entry["params"] for entry in entries if entry["method"] in kinds]
        return [params.get("url") or params["request"]["url"] for params in found]

    def console(self) -> list[str]:
        return [entry["message"] for entry in self._log("browser")]

    def _log(self, kind: str) -> Any:
        return self.call("POST", "/se/log", {"type": kind})

    def screenshot(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        time.sleep(0.3)
        picture = self.devtools("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self) -> None:
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)
