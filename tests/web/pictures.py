"""The pictures of the page and of a report: lowkey demo; python tests/web/pictures.py lowkey-demo/site docs/figures"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from chromium import ENTER, LEFT, Chromium
from PIL import Image

import lowkey as lk
from lowkey.data.synthetic import taste

PICKS = ("Space Opera 1:", "Space Opera 2:", "Space Opera 3:", "Space Opera 4:", "Western 1:", "Western 2:")


ABOUT = {
    "product": "Film tips of the town library", "organisation": "Town Library of Exampleton",
    "data_set": "Loans of films by members, 2021 to 2025", "purpose": "Suggestions on the library's site",
    "contact": "privacy@library.example", "collection": "Members agreed when they joined; only loans are kept",
    "legal_basis": "Consent (Art. 6(1)(a) GDPR)", "retention": "Loans are kept two years; the next release is in a year",
    "access": "Two people of the IT department; disks are encrypted",
    "why_epsilon": "As strong as useful lists allow, by the curve on public data", "columns": "user: member, item: film",
}  # fmt: skip


def report(browser: Chromium, folder: Path, picture: Path) -> None:
    lk.DPLists(epsilon=1.0, delta=1e-6).fit(taste(3000, 200, 20, seed=2).ratings()).release(folder, about=ABOUT)
    browser.open((folder / "privacy_report.html").resolve().as_uri())
    browser.screenshot(picture, 840, 900, False)
    Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)


def main(site: Path, figures: Path) -> None:
    with tempfile.TemporaryDirectory() as profile:
        browser = Chromium(Path(profile))
        try:
            report(browser, Path(profile) / "release", figures / "report.png")
            browser.open((site / "index.html").resolve().as_uri())
            browser.wait_for("return document.getElementById('app') && !document.getElementById('app').hidden")
            for place, name in enumerate(PICKS, 1):
                browser.type("#search", name + ENTER)
                if name.startswith("Western"):
                    browser.type(f"#picks li:nth-child({place}) input", LEFT * 8)
            browser.run("document.querySelector('#recommendations details').open = true; document.activeElement.blur()")
            for width in (390, 1280):
                for dark in (False, True):
                    picture = figures / f"page-{width}-{'dark' if dark else 'light'}.png"
                    browser.screenshot(picture, width, 900, dark)
                    Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)
        finally:
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
