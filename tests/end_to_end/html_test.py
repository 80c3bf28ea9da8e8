"""The HTML report in a real browser: no network, no script, the plotted data on the page."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
SOURCE = os.environ["LOCKSTEP_SOURCE_DIR"]


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        print("skipped: no Chromium here (scripts/setup --tests installs Debian's)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        recording, page = os.path.join(folder, "run.jsonl"), os.path.join(folder, "report.html")
        with open(recording, "w") as file:
            subprocess.run([sys.executable, f"{SOURCE}/scripts/lib/situations.py", "turns_long", "full", "3"], stdout=file, check=True,
                           env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        subprocess.run([LOCKSTEP, "diagnose", recording, "--format", "html", "-o", page, "--quiet"], check=False)
        end = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--user-data-dir={folder}/profile", f"file://{page}"],
                             capture_output=True, text=True, timeout=90)
        dom = end.stdout
        assert "<h1>taking-turns</h1>" in dom, dom[:500]
        assert "P101 taking-turns" in dom
        paths = re.findall(r'<path data-gpu="(\d+)" d="([^"]*)"', dom)
        assert len(paths) >= 4, "lanes of two GPUs, busy and power"
        assert any(len(shape) > 200 for _, shape in paths), "the lanes hold bars"
        assert "http" not in open(page).read().replace("http-equiv", ""), "the page needs nothing else"
        assert "<script" not in dom
    print(f"{len(paths)} lanes drawn")


main()
