"""The HTML report in a real browser: no network, no script, the plotted data on the page."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
SOURCE = os.environ["LOCKSTEP_SOURCE_DIR"]


def in_a_browser(browser, folder, page):
    """The page as the browser has it, and as a file."""
    end = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            f"--user-data-dir={folder}/profile",
            f"file://{page}",
        ],
        capture_output=True,
        text=True,
        timeout=90,
    )
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert "http" not in text.replace("http-equiv", ""), "the page needs nothing else"
    assert "<script" not in end.stdout
    return end.stdout


def a_diagnosis(browser, folder):
    recording, page = os.path.join(folder, "run.jsonl"), os.path.join(folder, "report.html")
    with open(recording, "w") as file:
        subprocess.run(
            [sys.executable, f"{SOURCE}/scripts/lib/situations.py", "turns_long", "full", "3"],
            stdout=file,
            check=True,
            env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"),
        )
    subprocess.run(
        [LOCKSTEP, "diagnose", recording, "--format", "html", "-o", page, "--quiet"], check=False
    )
    dom = in_a_browser(browser, folder, page)
    assert "<h1>taking-turns</h1>" in dom, dom[:500]
    assert "P101 taking-turns" in dom
    paths = re.findall(r'<path data-gpu="(\d+)" d="([^"]*)"', dom)
    assert len(paths) >= 4, "lanes of two GPUs, busy and power"
    assert any(len(shape) > 200 for _, shape in paths), "the lanes hold bars"
    print(f"{len(paths)} lanes drawn")


def a_profile(browser, folder):
    torchrun = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin", "torchrun")
    if not os.path.exists(torchrun):
        print(f"the profile's page is left out: no torch in {os.environ['LOCKSTEP_TORCH']}")
        return
    page = os.path.join(folder, "profile.html")
    environment = dict(
        os.environ, PATH=os.path.dirname(torchrun) + ":" + os.environ["PATH"], OMP_NUM_THREADS="1"
    )
    script = os.path.join(SOURCE, "tests", "probes", "epochs_with_a_fault.py")
    subprocess.run(
        [
            LOCKSTEP,
            "profile",
            "--format",
            "html",
            "-o",
            page,
            "--quiet",
            "--",
            "torchrun",
            "--standalone",
            "--nproc_per_node=2",
            script,
            "nothing",
        ],
        env=environment,
        cwd=folder,
        capture_output=True,
        check=False,
    )
    dom = in_a_browser(browser, folder, page)
    for step in ("The median step", "The worst step"):
        drawn = re.search(
            rf'<svg [^>]*aria-label="{step}, number (\d+): [^"]*"[^>]*>(.*?)</svg>', dom, re.S
        )
        assert drawn, f"no timeline of {step}"
        assert "rank 0" in drawn.group(2) and "rank 1" in drawn.group(2), "one step, on both ranks"
        for part in ("forward", "backward", "optimizer"):
            assert re.search(
                rf"<title>{part}: [^<]* ms [^<]*epochs_with_a_fault.py:\d+</title>", drawn.group(2)
            ), f"{part} with its line"
        assert all(
            0 <= float(x) and float(x) + float(width) <= 966
            for x, width in re.findall(r'<rect x="([\d.]+)"[^>]* width="([\d.]+)"', drawn.group(2))
        ), "all within the picture"
    assert "<h3>By rank</h3>" in dom and "<h3>By line</h3>" in dom
    print("two steps drawn")


def main():
    browser = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if not browser:
        print("skipped: no Chromium here (scripts/setup --tests installs Debian's)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        a_diagnosis(browser, folder)
        a_profile(browser, folder)


main()
