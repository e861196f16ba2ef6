"""Takes pictures of five pages of the site in Chromium: `python shots.py SITE FOLDER`."""

import shutil
import subprocess
import sys
from pathlib import Path

#: Name of a picture, and the address in the site.
SHOTS = {
    "start": "index.html",
    "search": "index.html?q=bootstrap",
    "recipes": "recipes/first_steps.html",
    "performance": "performance/index.html",
    "reference": "reference/python_ckks.html",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Pages are files, and a page of search reads another.
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--window-size=1300,1700",
    "--virtual-time-budget=4000",
]


def browser():
    """The first Chromium of the machine, or None."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def shoot(program, site, folder):
    """Writes a picture for each page, and returns their paths."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, address in SHOTS.items():
        path = Path(folder).resolve() / f"{name}.png"
        url = f"{Path(site).resolve().as_uri()}/{address}"
        command = [program, *FLAGS, f"--screenshot={path}", url]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        written.append(path)
    return written


def main(site, folder):
    program = browser()
    if program is None:
        return "no Chromium: install the package chromium of your system"
    for path in shoot(program, site, folder):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
