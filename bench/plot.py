"""Draws the last run of tools/bench, build/bench.json, as SVG for README and docs: `tools/bench --plot`.

Three pictures: speed.svg (a call of each kind, beside floor and peers), lives.svg (whole lives a second over the
number of clients) and crowd.svg (latency over the number of sandboxes). The same figures give the same bytes.
What a run did not measure is left out, and said."""
import argparse
import json
import math
import pathlib
import re
import sys
from xml.sax.saxutils import escape

TOP = pathlib.Path(__file__).resolve().parent.parent

NAMES = {"cay": "cay", "floor": "floor", "bubblewrap": "bubblewrap", "runc": "runc", "docker": "Docker"}

# What is shown, and the name of its row in bench.json.
CALLS = [
    ("create", r"create"),
    ("create, cold", r"(create,? \(?cold\b.*|cold create)"),
    ("exec", r"exec( echo hello)?"),
    ("write 1 KiB", r"write\b.*"),
    ("read 1 KiB", r"read\b.*"),
    ("pause", r"pause"),
    ("resume", r"resume"),
    ("kill", r"kill"),
    ("create, exec, kill", r"create, exec, kill"),
]

# A card of its own colour, so that it can be read on a page of any; a program that does not know the
# question for dark mode shows the light one.
STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", Arial, sans-serif; fill: #57544a }
.card { fill: #fbfaf6; stroke: #e2dccb }
.head { fill: #2b2a26; font-weight: 600 }
.name { fill: #2b2a26 }
.cay { fill: #17594a; font-weight: 600 }
.grid { stroke: #e8e3d5; fill: none }
.rail { stroke: #d3ccba; fill: none }
.lead { stroke: #b5ae9c; fill: none }
.dot { fill: #a09987 }
.tick { stroke: #6d6859; stroke-width: 2.5; fill: none }
.line { stroke: #a09987; stroke-width: 1.5; fill: none }
.cay-dot { fill: #17845f }
.cay-line { stroke: #17845f; stroke-width: 2.5; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #a3adb8 }
.card { fill: #151b23; stroke: #2f363f }
.head, .name { fill: #e6edf3 }
.cay { fill: #5fd3ad }
.grid { stroke: #262d36 }
.rail { stroke: #3a424c }
.lead { stroke: #59626d }
.dot { fill: #7a8490 }
.tick { stroke: #aab3bd }
.line { stroke: #7a8490 }
.cay-dot { fill: #35b58b }
.cay-line { stroke: #35b58b }
}
"""


class Unusable(Exception):
    """bench.json is not what a run leaves behind."""


# ---- figures ----


def load(path):
    """{name of the row: row}, in its order."""
    try:
        rows = json.loads(path.read_text())
    except FileNotFoundError:
        raise Unusable(f"{path} does not exist: run tools/bench first") from None
    except (OSError, ValueError) as e:
        raise Unusable(f"{path} cannot be read: {e}") from None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and isinstance(r.get("name"), str) for r in rows):
        raise Unusable(f"{path} is not a list of rows with a name")
    if not rows:
        raise Unusable(f"{path} has no rows: run tools/bench again")
    return {row["name"]: row for row in rows}


def figure(row, column, which="p50"):
    """None if there is none that a log scale can show."""
    cell = row.get(column)
    value = cell.get(which) if isinstance(cell, dict) else None
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if usable else None


def find(rows, pattern):
    return next((row for name, row in rows.items() if re.fullmatch(pattern, name)), None)


def counted(rows, pattern, which="p50"):
    """{column: {count: value}} of rows that differ in a count only."""
    found = {}
    for name, row in rows.items():
        match = re.fullmatch(pattern, name)
        for column in NAMES if match else ():
            if (value := figure(row, column, which)) is not None:
                found.setdefault(column, {})[int(match[1])] = value
    return found


def short(value):
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def time_text(us):
    if us < 99.5:
        return f"{us:.0f} µs" if us >= 9.95 else f"{us:.1f} µs"
    return f"{short(us / 1000)} ms" if us < 9999500 else f"{short(us / 1e6)} s"


def round_time(us):
    """Of a power of ten."""
    for size, unit in ((1e6, "s"), (1e3, "ms"), (1, "µs")):
        if us >= size or size == 1:
            return f"{us / size:,.10g} {unit}"
    return ""


# ---- ink ----


def coord(value):
    return f"{value:.1f}".removesuffix(".0")


def width_of(text, size, bold=False):
    """No font is known here, so rather too much: the widest usual one takes this in the mean."""
    return len(text) * size * (0.7 if bold else 0.62)


def spread(wanted, sizes, low, high):
    """Places for the middles of things of these sizes, in a row without overlap between low and high, each as
    near to where it is wanted as the others let it (in the mean of squares)."""
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    shifts, total = {}, 0  # how far right of the first one must be
    for before, i in zip([None, *order], order):
        total += (sizes[before] + sizes[i]) / 2 if before is not None else 0
        shifts[i] = total
    groups = []  # [sum, members] of those that touch
    for i in order:
        groups.append([wanted[i] - shifts[i], [i]])
        while len(groups) > 1 and groups[-2][0] / len(groups[-2][1]) > groups[-1][0] / len(groups[-1][1]):
            rest, members = groups.pop()
            groups[-1][0] += rest
            groups[-1][1] += members
    least = low + sizes[order[0]] / 2 if order else 0
    most = max(least, high - sizes[order[-1]] / 2 - total) if order else 0
    places = [0.0] * len(wanted)
    for rest, members in groups:
        for i in members:
            places[i] = min(max(rest / len(members), least), most) + shifts[i]
    return places


class Scale:
    """A log scale from one pixel to another that all values are on, with a little air."""

    def __init__(self, values, start, end):
        low, high = math.log10(min(values)), math.log10(max(values))
        air = max(0.08, (1 - (high - low)) / 2)
        self.low, self.high, self.start, self.end = low - air, high + air, start, end

    def at(self, value):
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def powers(self, room):
        """Powers of ten, as many as have that many pixels each."""
        first, last = math.ceil(self.low), math.floor(self.high)
        step = max(1, math.ceil((self.high - self.low) * room / abs(self.end - self.start)))
        return [10.0 ** p for p in range(first, last + 1) if p % step == 0]


class Drawing:
    def __init__(self, width, title):
        self.width, self.title, self.parts, self.facts = width, title, [], []

    def text(self, x, y, text, kind="", size=12, anchor="start"):
        kind = f' class="{kind}"' if kind else ""
        anchor = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{coord(x)}" y="{coord(y)}" font-size="{size}"{kind}{anchor}>{escape(text)}</text>')

    def path(self, points, kind):
        where = "L".join(f"{coord(x)} {coord(y)}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="M{where}"/>')

    def dot(self, x, y, kind, radius):
        self.parts.append(f'<circle class="{kind}" cx="{coord(x)}" cy="{coord(y)}" r="{radius}"/>')

    def svg(self, height):
        size = f'width="{coord(self.width)}" height="{coord(height)}"'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {coord(self.width)} {coord(height)}" '
            'role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="desc">{escape("; ".join(self.facts))}.</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="card" x=".5" y=".5" width="{coord(self.width - 1)}" height="{coord(height - 1)}" rx="12"/>',
            *self.parts, "</svg>", ""])


# ---- a call of each kind ----

ROW = 56


def calls_of(rows, missing):
    """[(what, {column: microseconds})]"""
    out = []
    for what, pattern in CALLS:
        row = find(rows, pattern) or {}
        values = {column: value for column in NAMES if (value := figure(row, column)) is not None}
        if "cay" in values:
            out.append((what, values))
        else:
            missing.append(what)
    measured = {column for _, values in out for column in values}
    missing += [NAMES[column] for column in NAMES if out and column not in measured]
    return out


def times_text(ratio):
    if ratio >= 9999.5 or ratio < 0.1:
        return "> 9,999×" if ratio > 1 else "< 0.1×"
    return f"{ratio:,.0f}×" if ratio >= 9.95 else f"{ratio:.1f}×"


def draw_call(d, scale, y, what, values):
    d.text(24, y + 5, what, "name", 14)
    order = sorted(values, key=lambda c: (values[c], c))
    d.path([(scale.at(values[order[0]]), y), (scale.at(values[order[-1]]), y)], "rail")
    others = [c for c in NAMES if c in values and c != "cay"]
    texts = [f"{NAMES[c]} {time_text(values[c])}" for c in others]
    wanted = [scale.at(values[c]) for c in others]
    places = spread(wanted, [width_of(t, 12) + 10 for t in texts], 150, d.width - 90)
    for column, text, x, place in zip(others, texts, wanted, places):
        if abs(place - x) > 12:
            d.path([(x, y + 5), (place, y + 12)], "lead")
        if column == "floor":
            d.path([(x, y - 8), (x, y + 8)], "tick")
        else:
            d.dot(x, y, "dot", 4.5)
        d.text(place, y + 23, text, anchor="middle")
    mine = f"cay {time_text(values['cay'])}"
    place = spread([scale.at(values["cay"])], [width_of(mine, 13, True)], 150, d.width - 90)[0]
    d.dot(scale.at(values["cay"]), y, "cay-dot", 6)
    d.text(place, y - 11, mine, "cay", 13, "middle")
    if "docker" in values:
        d.text(d.width - 24, y + 5, times_text(values["docker"] / values["cay"]), "cay", 16, "end")


def speed(rows, missing):
    calls = calls_of(rows, missing)
    if not calls:
        return None
    d = Drawing(880, "What a call costs: cay beside its floor and its peers")
    d.facts += [f"{what}: " + ", ".join(f"{NAMES[c]} {time_text(v)}" for c, v in values.items())
                for what, values in calls]
    scale = Scale([v for _, values in calls for v in values.values()], 190, d.width - 130)
    top, bottom = 92, 92 + ROW * len(calls) + 10
    d.text(24, 32, "What a call costs", "head", 17)
    d.text(24, 52, "Median of one run, log scale, left is faster. The floor is the same kernel work by a bare C program.")
    for power in scale.powers(62):
        d.path([(scale.at(power), top - 6), (scale.at(power), bottom)], "grid")
        d.text(scale.at(power), top - 12, round_time(power), size=11, anchor="middle")
    if any("docker" in values for _, values in calls):
        d.text(d.width - 24, top - 12, "Docker ÷ cay", size=11, anchor="end")
    for i, (what, values) in enumerate(calls):
        draw_call(d, scale, top + 26 + ROW * i, what, values)
    return d.svg(bottom + 14)


# ---- lines over a count ----

PANEL, LEFT, RIGHT, HIGH, TOP_Y, LINE_H = 440, 104, 100, 150, 76, 18


class Line:
    def __init__(self, name, mine, points):
        self.name, self.mine, self.points = name, mine, points  # points: {count: value}

    @property
    def kind(self):
        return "cay" if self.mine else ""


def columns_of(counts, column, width):
    """{count: x}: by their logarithm, but with so much room for each that its text fits."""
    logs = [math.log10(max(n, 0.5)) for n in counts]
    left, right = LEFT + column / 2, width - RIGHT - column / 2
    wanted = [left + (v - logs[0]) / ((logs[-1] - logs[0]) or 1) * (right - left) for v in logs]
    return dict(zip(counts, spread(wanted, [column] * len(counts), LEFT, width - RIGHT)))


def draw_curves(d, scale, xs, lines):
    ends = [line.points[max(line.points)] for line in lines]
    places = spread([scale.at(v) for v in ends], [15] * len(lines), TOP_Y - 4, TOP_Y + HIGH + 8)
    edge = d.width - RIGHT
    for line, place in sorted(zip(lines, places), key=lambda pair: pair[0].mine):  # ours on top
        points = [(xs[n], scale.at(line.points[n])) for n in sorted(line.points)]
        d.path(points, "cay-line" if line.mine else "line")
        for x, y in points:
            d.dot(x, y, "cay-dot" if line.mine else "dot", 4 if line.mine else 3)
        d.path([(points[-1][0] + 6, points[-1][1]), (edge + 4, place)], "lead")
        d.text(edge + 8, place + 4, line.name, line.kind)


def draw_values(d, xs, axis, lines, show):
    """Gives where it ends."""
    y = TOP_Y + HIGH + 30
    d.text(LEFT - 10, y, axis, size=11, anchor="end")
    for n, x in xs.items():
        d.text(x, y, f"{n:,}", size=11, anchor="middle")
    d.path([(24, y + 7), (d.width - RIGHT, y + 7)], "rail")
    y += 6
    for line in lines:
        y += LINE_H
        d.text(LEFT - 10, y, line.name, line.kind, anchor="end")
        for n, value in sorted(line.points.items()):
            d.text(xs[n], y, show(value), line.kind, anchor="middle")
        d.facts.append(f"{line.name}: " + ", ".join(f"{show(v)} with {n}" for n, v in sorted(line.points.items())))
    return y


def over_counts(title, subtitle, axis, lines, label, show):
    """The curves, their names at their ends, and below each count the values, where no text meets another."""
    counts = sorted({n for line in lines for n in line.points})
    values = [v for line in lines for v in line.points.values()]
    column = max(width_of(t, 12, True) for t in [*(show(v) for v in values), *(f"{n:,}" for n in counts)]) + 6
    d = Drawing(max(PANEL, math.ceil(LEFT + RIGHT + column * len(counts))), title)
    scale = Scale(values, TOP_Y + HIGH, TOP_Y)
    d.text(24, 32, title, "head", 16)
    d.text(24, 51, subtitle)
    for power in scale.powers(22):
        d.path([(LEFT, scale.at(power)), (d.width - RIGHT, scale.at(power))], "grid")
        d.text(LEFT - 10, scale.at(power) + 4, label(power), size=11, anchor="end")
    xs = columns_of(counts, column, d.width)
    draw_curves(d, scale, xs, lines)
    return d.svg(draw_values(d, xs, axis, lines, show) + 20)


def rate_text(value):
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"


def lives(rows, missing):
    found = counted(rows, r"lives, (\d+) clients?")
    if "cay" not in found:
        missing.append("rows lives, N clients")
        return None
    missing += [NAMES[c] for c in ("floor", "runc", "docker") if c not in found]
    lines = [Line(NAMES[c], c == "cay", found[c]) for c in NAMES if c in found]
    return over_counts("Whole lives a second", "create, exec, kill, one after the other by so many clients", "clients",
                       lines, lambda v: f"{v:,.10g}", rate_text)


def crowd(rows, missing):
    lines = []
    for what in ("create", "exec"):
        pattern = rf"{what} with (\d+) sandbox(?:es)?"
        for which in ("p50", "p99"):
            found = counted(rows, pattern, which).get("cay")
            if found:
                lines.append(Line(f"{what} {which}", which == "p50", found))
            else:
                missing.append(f"rows {what} with N sandboxes, {which}")
    if not lines:
        return None
    return over_counts("Latency in a crowd", "milliseconds, beside so many idle sandboxes", "sandboxes", lines,
                       round_time, lambda us: short(us / 1000))


PICTURES = {"speed.svg": speed, "lives.svg": lives, "crowd.svg": crowd}


def draw(rows, out):
    """Writes what can be drawn; gives a line for each picture, and how many there are."""
    said, drawn = [], 0
    out.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        missing = []
        text = picture(rows, missing)
        without = f"not in this run: {', '.join(missing)}" if missing else ""
        if text is None:
            said.append(f"{out / name}: not drawn, {without}")
            continue
        (out / name).write_text(text, encoding="utf-8")
        drawn += 1
        said.append(f"{out / name}" + (f": drawn, {without}" if without else ""))
    return said, drawn


def main():
    parser = argparse.ArgumentParser(prog="tools/bench --plot", description="draws the last run, without a new one")
    parser.add_argument("--plot", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="build folder with bench.json")
    parser.add_argument("--out", type=pathlib.Path, default=TOP / "docs" / "pictures",
                        help="folder for the pictures (docs/pictures)")
    args = parser.parse_args()
    try:
        said, drawn = draw(load(args.build / "bench.json"), args.out)
    except (Unusable, OSError) as e:
        sys.exit(f"bench: {e}")
    print("\n".join(said))
    if not drawn:
        sys.exit(f"bench: {args.build / 'bench.json'} has nothing that can be drawn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
