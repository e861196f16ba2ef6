"""Draws the figures of bench/results as SVG: `python packaging/site/plots.py FOLDER`.

The site draws them whenever it is built, so that no picture is older than its figures. The same
JSON gives the same bytes.
"""

import json
import math
import sys
from html import escape
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"
WIDTH, LEFT, RIGHT, ROW, BAR = 860, 250, 84, 8, 15
COLOURS = [
    "#0b7fab",
    "#d98e04",
    "#8a4fbf",
    "#3b8f5a",
    "#c23b5a",
    "#5b6b7a",
    "#9c6b30",
    "#1f4e9c",
    "#333333",
]
INK, FAINT = "#1c2733", "#d5dde5"


def kept(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def short(value, unit=""):
    """Three digits, and no exponent; bits with two places."""
    if unit == "bits":
        return f"{value:.2f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


class Picture:
    """A card with a title, a line below it, and whatever is drawn on it."""

    def __init__(self, title, below, height):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
            ' font-family="system-ui, sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#ffffff"/>',
        ]
        self.text(20, 28, title, size=17, weight=600)
        self.text(20, 48, below, size=12)

    def text(self, x, y, words, anchor="start", size=13, weight=400):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{INK}" text-anchor="{anchor}"'
            f' font-size="{size}" font-weight="{weight}">{escape(words)}</text>'
        )

    def bar(self, x, y, width, colour):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BAR - 2}" rx="2"'
            f' fill="{colour}"/>'
        )

    def line(self, points, colour, width=1.0):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )

    def legend(self, names, y):
        x = 20
        for name, colour in names:
            self.parts.append(
                f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
            )
            self.text(x + 18, y, name)
            x += 40 + 7 * len(name)

    def end(self):
        return "\n".join([*self.parts, "</svg>", ""])


def decades(low, high):
    """Powers of ten that hold both."""
    return list(range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1))


def bars(title, below, groups, unit, logarithmic=False):
    """`groups`: a label, and name and value of each of its bars. Names have a colour each."""
    names = list(dict.fromkeys(name for _, values in groups for name, _ in values))
    colour = dict(zip(names, COLOURS, strict=False))
    top, values = 100, [value for _, row in groups for _, value in row]
    height = top + sum(BAR * len(row) + ROW for _, row in groups) + 34
    picture = Picture(title, below, height)
    picture.legend([(name, colour[name]) for name in names], 74)
    room = WIDTH - LEFT - RIGHT
    ticks = decades(min(values), max(values)) if logarithmic else None

    def across(value):
        if ticks:
            return (math.log10(value) - ticks[0]) / (ticks[-1] - ticks[0]) * room
        return value / max(values) * room

    for tick in ticks or ():
        x = LEFT + across(10.0**tick)
        picture.line([(x, top - 8), (x, height - 30)], FAINT)
        picture.text(x, height - 14, f"{10.0**tick:g} {unit}", "middle", 11)
    y = top
    for label, row in groups:
        picture.text(LEFT - 10, y + BAR * len(row) / 2 + 3, label, "end")
        for name, value in row:
            picture.bar(LEFT, y, max(across(value), 1), colour[name])
            picture.text(LEFT + across(value) + 6, y + 11, f"{short(value, unit)} {unit}", size=11)
            y += BAR
        y += ROW
    return picture.end()


def lines(title, below, curves, axes):
    """`curves`: a name and its points; both axes are logarithmic."""
    left, top, right, bottom = 90, 100, WIDTH - 250, 440
    picture = Picture(title, below, 490)
    xs = decades(*span(x for _, points in curves for x, _ in points))
    ys = decades(*span(y for _, points in curves for _, y in points))

    def place(x, y):
        return (
            left + (math.log10(x) - xs[0]) / (xs[-1] - xs[0]) * (right - left),
            bottom - (math.log10(y) - ys[0]) / (ys[-1] - ys[0]) * (bottom - top),
        )

    for tick in xs:
        x, _ = place(10.0**tick, 10.0 ** ys[0])
        picture.line([(x, top), (x, bottom)], FAINT)
        picture.text(x, bottom + 18, power(tick), "middle", 11)
    for tick in ys:
        _, y = place(10.0 ** xs[0], 10.0**tick)
        picture.line([(left, y), (right, y)], FAINT)
        picture.text(left - 8, y + 4, power(tick), "end", 11)
    picture.text((left + right) / 2, bottom + 38, axes[0], "middle", 12)
    picture.text(20, top - 16, axes[1], size=12)
    # Names stand at the ends of their curves, highest first, and apart from each other.
    ends = sorted((place(*points[-1])[1], i) for i, (_, points) in enumerate(curves))
    y = 0.0
    for end, i in ends:
        name, points = curves[i]
        colour = COLOURS[i % len(COLOURS)]
        picture.line([place(*point) for point in points], colour, 2)
        for point in points:
            x, dot = place(*point)
            picture.parts.append(f'<circle cx="{x:.1f}" cy="{dot:.1f}" r="3" fill="{colour}"/>')
        y = max(end, y + 17)
        picture.line([place(*points[-1]), (right + 14, y)], colour)
        picture.text(right + 18, y + 4, name, size=12)
    return picture.end()


def power(tick):
    """A power of ten for people."""
    return f"{10**tick:,}".replace(",", " ") if tick >= 0 else f"{10.0**tick:g}"


def span(values):
    values = list(values)
    return min(values), max(values)


def tfhe():
    rows = kept("tfhe")
    peer = f"tfhe {rows[0]['peer_version']}"
    groups = [
        (row["case"], [("becalm", row["ours_ms"]), (peer, row["peer_ms"])])
        for row in rows
        if not row["case"].startswith("keygen")
    ]
    first = rows[0]
    below = f"Milliseconds for each ciphertext, {first['threads']} thread, {first['clock']} time,"
    below += f" {first['simd']}; shorter is faster, logarithmic axis"
    return bars(f"TFHE beside {peer}", below, groups, "ms", True)


def integers():
    rows = kept("integers")
    peer = f"tfhe {rows[0]['peer_version']}"
    groups = [
        (
            f"{row['case'].split('/')[1]}, {row['bootstraps']} bootstraps",
            [("becalm", row["ours_ms"] / 1000), (peer, row["peer_ms"] / 1000)],
        )
        for row in rows
    ]
    first = rows[0]
    below = f"Seconds, {first['threads']} threads, {first['clock']} time, {first['simd']},"
    below += f" set {first['params']}; logarithmic axis"
    return bars(f"Integers of 64 bits and AES-128 beside {peer}", below, groups, "s", True)


def seconds(side, threads):
    """As bench/table.py shows them: one thread by the time of the processor where it is known."""
    alone = side.get("processor") if threads == 1 else None
    return alone or side["seconds"]["median"]


def ckks():
    named = {"regular": "regular", "14": "to 14 levels", "17": "to 17 levels", "sign": "sign"}
    named |= {"lossy": "SlotsToCoeffs first", "sparse1024": "sparse, 1024 slots"}
    groups = []
    for row in kept("ckks"):
        if not row["peer"]:
            continue
        _, peer, case, threads = row["case"].split("/")
        if threads == "1" and case in named:
            other = f"{row['peer']['name']} {row['peer']['version'].removeprefix('v')}"
            ours, theirs = (seconds(row[side], 1) for side in ("ours", "peer"))
            groups.append((f"{named[case]}, {peer}", [("becalm", ours), (other, theirs)]))
    below = "Seconds for 2^15 slots (1024 where said), 1 thread, keys and sets as in the table"
    return bars("CKKS bootstraps beside peers", below, groups, "s")


def ckks_error():
    groups = []
    for row in kept("ckks-tables"):
        if row["table"].startswith("error:"):
            kind = f"{row['table'].removeprefix('error: ')}, {row['params']}"
            bits = [-math.log2(row[key]) for key in ("mean_error", "claimed_error")]
            groups.append((kind, list(zip(["measured", "claimed"], bits, strict=True))))
    below = "−log2 of the mean error after a bootstrap, medium keys, 3 stages; longer is better"
    return bars("CKKS bootstraps: measured and claimed bits", below, groups, "bits")


def h100():
    found = kept("h100")
    curves = []
    for entry in found["sets"]:
        points = [
            (row["batch"], row["per_second"])
            for row in entry.get("rows") or ()
            if row["case"] == "pbs"
        ]
        if len(points) > 1:
            curves.append((entry["params"], points))
    below = f"becalm {found['version']} on one {found['device']}, one run, before keys were kept"
    below += " in twice the precision"
    axes = ("ciphertexts bootstrapped at once", "bootstraps a second")
    return lines("Bootstraps on a GPU", below, curves, axes)


def roofline():
    found = kept("roofline")
    roofs, sets = found["roofs"], found["sets"]
    bytes_of = roofs["cache_bytes_per_second"]
    # In units of 10^9 operations a second.
    curves = []
    for key, name in (
        ("operations_per_second", "roof: rates measured"),
        ("data_sheet_operations_per_second", "roof: FP64 of the data sheet"),
    ):
        top = roofs[key]
        corners = [(0.1, bytes_of * 0.1), (top / bytes_of, top), (100.0, top)]
        curves.append((name, [(x, y / 1e9) for x, y in corners]))
    for row in sets:
        intensity = row["operations"] / row["cache_bytes"]
        reached = row["operations"] * row["per_second"] / 1e9
        curves.append((row["params"], [(intensity, reached)]))
    below = f"{sets[0]['batch']} bootstraps at once on one {found['device']}, becalm"
    below += f" {found['version']}: FP64 operations counted in the kernels, time measured"
    axes = ("FP64 operations for each byte through the cache", "10^9 operations a second")
    return lines("Roofline of a GPU", below, curves, axes)


def noise_h100():
    found = kept("h100")
    groups = [
        (
            entry["params"],
            [("measured", -entry["noise_log2"]), ("formula", -entry["formula_log2"])],
        )
        for entry in found["sets"]
        if entry.get("noise_log2") is not None
    ]
    count = min(entry["bootstraps"] for entry in found["sets"])
    below = f"−log2 of the standard deviation of {count} bootstraps or more, {found['device']}"
    return bars("Noise of bootstraps: measured and by the formula", below, groups, "bits")


def processor():
    clocks = {}
    for key, row in kept("rtl")["rows"].items():
        if key.startswith("clocks, standard"):
            width, batch = (int(part.split("=")[1]) for part in key.split(",")[2:])
            clocks[width] = row["found"]["bootstraps"] / batch
    groups = [
        (f"T = {width} values a cycle", [("cycles of a bootstrap", clocks[width])])
        for width in sorted(clocks)
    ]
    below = "Cycles for each bootstrap of a batch, n = 500, N = 1024, by Verilator and the model"
    return bars("The processor at each width of its transform", below, groups, "", True)


def timeline():
    jobs = kept("timeline")["jobs"]
    units = ["bootstrap unit", "key switch unit", "linear unit"]
    colour = dict(zip(units, COLOURS, strict=False))
    end = max(start + clocks for _, _, start, clocks in jobs)
    left, right, top, row = 150, WIDTH - 30, 70, 54
    below = "Adder of 8 bits for tfhe_2_2_p, T = 8, by the model; pale: the linear unit waits"
    picture = Picture("A program on the processor", below, top + row * len(units) + 44)

    def across(clock):
        return left + clock / end * (right - left)

    bottom = top + row * len(units)
    for millions in range(int(end / 1e6) + 1):
        x = across(millions * 1e6)
        picture.line([(x, top), (x, bottom)], FAINT)
        picture.text(x, bottom + 16, f"{millions}", "middle", 11)
    picture.text((left + right) / 2, bottom + 34, "million clocks", "middle", 12)
    for unit, name, start, clocks in sorted(jobs, key=lambda job: job[1] != "wait"):
        # A sum that waits for a bootstrap lasts as long; its wait is what is drawn.
        if name != "wait" and unit == "linear unit" and clocks > end / 20:
            continue
        y, pale = top + row * units.index(unit) + 8, 0.2 if name == "wait" else 1
        width = max(across(clocks) - left, 0.8)
        picture.parts.append(
            f'<rect x="{across(start):.1f}" y="{y}" width="{width:.1f}" height="{row - 18}"'
            f' rx="2" fill="{colour[unit]}" fill-opacity="{pale}"/>'
        )
    for i, unit in enumerate(units):
        picture.text(left - 10, top + row * i + row / 2 + 3, unit, "end")
    return picture.end()


PLOTS = {
    "tfhe": (tfhe, "Bars: times of TFHE in becalm and in the crate tfhe"),
    "integers": (integers, "Bars: times of 64-bit integers and AES-128 in both libraries"),
    "ckks": (ckks, "Bars: times of CKKS bootstraps in becalm and its peers"),
    "ckks_error": (ckks_error, "Bars: bits measured and claimed after CKKS bootstraps"),
    "h100": (h100, "Curves: bootstraps a second on an H100 for growing batches"),
    "roofline": (roofline, "Roofline of an H100: operations a second over operations a byte"),
    "noise_h100": (noise_h100, "Bars: measured noise beside the formula for sets on an H100"),
    "timeline": (timeline, "Timeline: jobs of the three units of the processor"),
    "processor": (processor, "Bars: cycles of a bootstrap at each width of the processor"),
}


def main(folder):
    for name, (draw, _) in PLOTS.items():
        (Path(folder) / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
