"""Draws calm.svg: `python3 docs/img/calm.py`. A simulation, not a measurement.

Each line is the phase error of one ciphertext of one message. A linear operation adds an
independent error; a bootstrap replaces all of it by its own small one. Past the outer lines a
ciphertext decrypts to another message.
"""

import random
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP = 960, 300, 24, 44
LINES, CYCLES, STEPS = 56, 3, 22
CALM, STEP, MARGIN = 3.0, 7.5, 102.0  # standard deviations and cell border, in pixels
DARK, BLUE, RED, GREY = "#0d1b2a", "#5fc9f8", "#ff6b6b", "#9fb3c8"


def errors(rng):
    """Error of one ciphertext at every step; each cycle begins with a bootstrap."""
    for _ in range(CYCLES):
        error = rng.gauss(0, CALM)
        for _ in range(STEPS):
            yield error
            error += rng.gauss(0, STEP)
    yield rng.gauss(0, CALM)


def draw():
    rng = random.Random(7)
    middle, dx = TOP + (HEIGHT - TOP) / 2 - 18, (WIDTH - 2 * LEFT) / (CYCLES * STEPS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        ' font-family="system-ui, sans-serif" font-size="13">',
        "<title>Noise grows with every operation; a bootstrap makes it calm again</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="14" fill="{DARK}"/>',
        f'<g fill="none" stroke="{BLUE}" stroke-width="1" stroke-opacity="0.42">',
    ]
    for _ in range(LINES):
        points = (f"{LEFT + i * dx:.0f},{middle - e:.0f}" for i, e in enumerate(errors(rng)))
        parts.append(f'<polyline points="{" ".join(points)}"/>')
    parts.append("</g>")
    for y in (middle - MARGIN, middle + MARGIN):
        parts.append(
            f'<path d="M{LEFT} {y:.0f}H{WIDTH - LEFT}" stroke="{RED}" stroke-width="1.5"'
            ' stroke-dasharray="3 5"/>'
        )
    for cycle in range(1, CYCLES + 1):
        x = LEFT + cycle * STEPS * dx
        parts.append(
            f'<path d="M{x:.0f} {TOP}V{HEIGHT - 34}" stroke="{GREY}" stroke-dasharray="4 4"/>'
            f'<text x="{x - 8:.0f}" y="{TOP - 16}" fill="{GREY}" text-anchor="end">'
            "bootstrap ↓</text>"
        )
    parts.append(
        f'<text x="{LEFT}" y="{HEIGHT - 12}" fill="{GREY}">one message, encrypted {LINES} times:'
        " its noise over a chain of additions</text></svg>\n"
    )
    return "\n".join(parts)


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(), encoding="utf-8")
