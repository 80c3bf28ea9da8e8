"""A picture (SVG) of the live screen: the real program in a real terminal, played to a moment, after some keys.

usage: screen_picture.py LOCKSTEP INPUT COLUMNS ROWS PICTURE [--wait SECONDS] [KEYS...]      needs pyte (scripts/setup --tests)
"""

import os
import sys
import tempfile
from xml.sax.saxutils import escape

import pyte
from terminals import InTerminal

WIDTH, HEIGHT, SIZE = 8.4, 17, 14
COLOURS = {
    "default": "#d8dee4",
    "red": "#ff6b60",
    "green": "#57c26b",
    "brown": "#e3b341",
    "yellow": "#e3b341",
    "cyan": "#56c8d8",
    "brightblack": "#7d8794",
    "black": "#7d8794",
}
BACKGROUND = "#11151a"
BARS = {chr(0x2581 + i): (i + 1) / 8 for i in range(8)}


def cell_colours(cell):
    front = COLOURS.get(cell.fg, COLOURS["default"])
    return (BACKGROUND, front) if cell.reverse else (front, None)


def picture_of(screen):
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {screen.columns * WIDTH + 16:.0f} {screen.lines * HEIGHT + 16}" '
        f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}">',
        f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>',
    ]
    for row in range(screen.lines):
        column = 0
        while column < screen.columns:
            cell = screen.buffer[row][column]
            x, y = 8 + column * WIDTH, 8 + row * HEIGHT
            front, back = cell_colours(cell)
            end = column + 1
            alike = lambda other: (
                (other.fg, other.bold, other.reverse) == (cell.fg, cell.bold, cell.reverse)
            )
            if cell.data in BARS:  # bars of equal height side by side are one rectangle
                while (
                    end < screen.columns
                    and screen.buffer[row][end].data == cell.data
                    and alike(screen.buffer[row][end])
                ):
                    end += 1
                tall = BARS[cell.data] * HEIGHT
                parts.append(
                    f'<rect x="{x:.1f}" y="{y + HEIGHT - tall:.1f}" width="{(end - column) * WIDTH:.1f}" height="{tall:.1f}" fill="{front}"/>'
                )
            else:
                while (
                    end < screen.columns
                    and screen.buffer[row][end].data not in BARS
                    and alike(screen.buffer[row][end])
                ):
                    end += 1
                text = "".join(screen.buffer[row][i].data for i in range(column, end))
                if back:
                    parts.append(
                        f'<rect x="{x:.1f}" y="{y}" width="{(end - column) * WIDTH:.1f}" height="{HEIGHT}" fill="{back}"/>'
                    )
                if text.strip():
                    lead = len(text) - len(text.lstrip())
                    word = text.strip()
                    weight = ' font-weight="bold"' if cell.bold else ""
                    parts.append(
                        f'<text xml:space="preserve" x="{x + lead * WIDTH:.1f}" y="{y + HEIGHT - 4}" textLength="{len(word) * WIDTH:.1f}" '
                        f'lengthAdjust="spacingAndGlyphs" fill="{front}"{weight}>{escape(word)}</text>'
                    )
            column = end
    return "\n".join(parts + ["</svg>"]) + "\n"


def main(lockstep, source, columns, rows, target, *rest):
    keys = list(rest)
    wait = 8.0
    if keys[:1] == ["--wait"]:
        wait, keys = float(keys[1]), keys[2:]
    environment = dict(
        os.environ,
        TERM="xterm-256color",
        LC_ALL="C.UTF-8",
        XDG_CONFIG_HOME=tempfile.mkdtemp(prefix="lockstep-picture-"),
    )
    program = InTerminal([lockstep, "monitor", source], environment, int(columns), int(rows))
    program.run_for(wait)
    for typed in keys:
        program.send(typed.encode().decode("unicode_escape"))
        program.run_for(0.7)
    screen = pyte.Screen(int(columns), int(rows))
    pyte.ByteStream(screen).feed(program.output)
    program.stop()
    with open(target, "w") as file:
        file.write(picture_of(screen))


main(*sys.argv[1:])
