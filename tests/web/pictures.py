"""The pictures of the page in the docs: lowkey demo; python tests/web/pictures.py lowkey-demo/site docs/figures"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from chromium import ENTER, LEFT, Chromium
from PIL import Image

PICKS = ("Space Opera 1:", "Space Opera 2:", "Space Opera 3:", "Space Opera 4:", "Western 1:", "Western 2:")


def main(site: Path, figures: Path) -> None:
    with tempfile.TemporaryDirectory() as profile:
        browser = Chromium(Path(profile))
        try:
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
