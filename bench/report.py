"""From samples to results, table and verdict."""

COLUMNS = ["cay", "floor", "bubblewrap", "runc", "docker"]

LIVES = (1, 2, 4, 8, 16, 32)  # clients
CROWDS = (1, 100, 250, 500)  # sandboxes on the machine
BURST = 50
CYCLES = 10000


def plural(n, word):
    return f"{n} {word}" if n == 1 else f"{n} {word}{'es' if word.endswith('x') else 's'}"


# key of the measuring programs, name in bench.json and in the table, unit
ROWS = [
    ("create", "create", "us"),
    ("cold", "create, cold", "us"),
    ("warm", "create, warm", "us"),
    ("warm_exec", "first exec after it", "us"),
    ("exec", "exec echo hello", "us"),
    ("write", "write a 1 KiB file", "us"),
    ("read", "read a 1 KiB file", "us"),
    ("pause", "pause", "us"),
    ("resume", "resume", "us"),
    ("kill", "kill", "us"),
    ("run", "create, exec, kill", "us"),
    ("create_3", "3 parallel creates", "us"),
    ("burst", f"burst of {BURST} creates", "us"),
    ("cpu_create", "CPU per create", "ms"),
    *((f"lives_{n}", "lives, " + plural(n, "client"), "lives/s") for n in LIVES),
    *((f"cpu_life_{n}", "CPU per life, " + plural(n, "client"), "ms") for n in (1, 8)),
    ("create_lives_8", "create during lives, 8 clients", "us"),
    ("cycles_first", "lives, first tenth of 10,000", "lives/s"),
    ("cycles_last", "lives, last tenth of 10,000", "lives/s"),
    ("gets", "GET of a sandbox, 32 connections", "get/s"),
    ("throughput_1", "exec throughput, 1 client", "exec/s"),
    ("throughput_8", "exec throughput, 8 clients", "exec/s"),
    ("throughput_32", "exec throughput, 32 clients", "exec/s"),
    *((f"create_{n}", "create with " + plural(n, "sandbox"), "us") for n in CROWDS),
    *((f"exec_{n}", "exec with " + plural(n, "sandbox"), "us") for n in CROWDS),
    ("create_host", "create, host image", "us"),
    ("exec_host", "exec, host image", "us"),
    ("rss", "daemon idle, RSS", "MiB"),
    ("pss", "with launcher and prepared boxes, PSS", "MiB"),
    ("memory", "memory per idle sandbox", "MiB"),
    ("memory_cgroup", "of it in its cgroup", "MiB"),
    ("memory_warm", "memory per waiting sandbox", "MiB"),
]
NAMES = {key: name for key, name, _ in ROWS}
RATES = ("exec/s", "lives/s", "get/s")

# Those of the README.
CHOSEN = ["create", "cold", "warm", "exec", "write", "read", "pause", "resume", "kill", "run", "burst", "cpu_create",
          "lives_1", "lives_8", "cpu_life_8", "create_lives_8", "gets", "throughput_32", "create_500", "exec_500",
          "rss", "memory"]


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]


def results(samples, missing):
    """samples: {column: {key: [numbers]}}, missing: {column: why}. The form of bench.json."""
    out = []
    for key, name, unit in ROWS:
        row = {"name": name, "unit": unit}
        for column in COLUMNS:
            values = samples.get(column, {}).get(key)
            if values:
                # For a rate the bad end is the low one.
                row[column] = {"p50": round(percentile(values, 50), 3),
                               "p99": round(percentile(values, 1 if unit in RATES else 99), 3),
                               "n": len(values)}
            elif column in missing and key in ("create", "cold", "exec", "run"):
                row[column] = {"unavailable": missing[column]}
        if len(row) > 2:
            out.append(row)
    return out


def number(value, unit):
    if unit == "us":
        return f"{value / 1000:.2f} ms" if value < 99950 else f"{value / 1000:.0f} ms"
    if unit == "ms":
        return f"{value:.1f} ms"
    return f"{value:,.0f}/s" if unit in RATES else f"{value:.1f} MiB"


def cell(row, column, which="p50"):
    return number(row[column][which], row["unit"]) if which in row.get(column, {}) else "–"


def ratio(row, slow, fast):
    """How many times longer slow takes than fast."""
    if "p50" not in row.get(slow, {}) or "p50" not in row.get(fast, {}):
        return None
    a, b = row[slow]["p50"], row[fast]["p50"]
    if row["unit"] in RATES:
        a, b = b, a
    return a / b if b else None


def times(value):
    return "–" if value is None else f"{value:.0f}×" if value >= 10 else f"{value:.2f}×"


def table(rows):
    lines = [["", "cay p50", "p99", "floor p50", "p99", "cay ÷ floor", "bubblewrap", "runc",
              "Docker", "Docker ÷ cay"]]
    for row in rows:
        lines.append([row["name"], cell(row, "cay"), cell(row, "cay", "p99"), cell(row, "floor"),
                      cell(row, "floor", "p99"), times(ratio(row, "cay", "floor")),
                      cell(row, "bubblewrap"), cell(row, "runc"), cell(row, "docker"),
                      times(ratio(row, "docker", "cay"))])
    return lines


def notes(rows):
    found = {}
    for row in rows:
        for column in COLUMNS:
            if "unavailable" in row.get(column, {}):
                found[column] = row[column]["unavailable"]
    return [f"{column}: not measured, {why}" for column, why in found.items()]


def aligned(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(c.ljust(w) if i == 0 else c.rjust(w)
                               for i, (c, w) in enumerate(zip(line, widths))) for line in lines)


def text(rows):
    return "\n".join([aligned(table(rows)), *notes(rows)])


def markdown(rows, whole=False):
    """All rows, or those that are chosen for the README."""
    chosen = {NAMES[key] for key in CHOSEN}
    lines = table([row for row in rows if whole or row["name"] in chosen])
    out = ["| " + " | ".join(line) + " |" for line in lines]
    out.insert(1, "|---" + "|---:" * (len(lines[0]) - 1) + "|")
    return "\n".join(out + [""] + notes(rows)).rstrip()


def put_table(page, mark, rows, whole):
    """The text of a page with the table between its marks <!-- mark --> and <!-- /bench --> replaced."""
    start, end = f"<!-- {mark} -->\n", "<!-- /bench -->"
    before, found, rest = page.partition(start)
    after = rest.partition(end)[2]
    if not found or end not in rest:
        raise ValueError(f"there is no table between {start.strip()} and {end}")
    return before + start + markdown(rows, whole) + "\n" + end + after


def rate(value):
    return f"{value:,.0f}/s"


FLOOR_BARS = {"create": 2, "cold": 1.5, "warm": 1.5, "exec": 1.15, "pause": 2, "resume": 2, "kill": 2, "write": 2, "read": 6}


def bars(rows):
    """[(claim, what was measured, passed; None when it was not measured)]"""
    by_name = {row["name"]: row for row in rows}
    checks = []

    def check(claim, value, limit, least=False, show=times):
        if value is None:
            checks.append((claim, "not measured", None))
        else:
            # Nothing takes no time and no memory: such a figure was measured wrongly.
            checks.append((claim, show(value), value >= limit if least else 0 < value <= limit))

    def p50(key):
        return by_name.get(NAMES[key], {}).get("cay", {}).get("p50")

    def p99(key):
        return by_name.get(NAMES[key], {}).get("cay", {}).get("p99")

    def apart(key, slow, fast):
        return ratio(by_name.get(NAMES[key], {"unit": "us"}), slow, fast)

    def part(one, other):
        return p50(one) / p50(other) if p50(one) is not None and p50(other) else None

    for key, limit in FLOOR_BARS.items():
        check(f"{NAMES[key]}: at most {limit}× the floor", apart(key, "cay", "floor"), limit)
    for key in ("create", "exec"):
        check(f"{key}: at least 40× faster than Docker's API", apart(key, "docker", "cay"), 40, True)
        check(f"{key}: with 500 sandboxes at most 1.3× of with one", part(f"{key}_500", f"{key}_1"), 1.3)
    check("create, warm: at most 0.79 ms", p50("warm"), 790, show=lambda v: number(v, "us"))
    check("create, warm, p99: at most 1.74 ms", p99("warm"), 1740, show=lambda v: number(v, "us"))
    check("waiting sandbox: at most 0.5 MiB", p50("memory_warm"), 0.5, show=lambda v: f"{v:.2f} MiB")
    check("lives with 8 clients: at least 260 a second", p50("lives_8"), 260, True, rate)
    check("CPU per life: at most 6.5 ms", p50("cpu_life_8"), 6.5, show=lambda v: f"{v:.1f} ms")
    check("create during lives with 8 clients: at most 20 ms", p50("create_lives_8"), 20000,
          show=lambda v: number(v, "us"))
    check("10,000 lives: the last tenth at least 0.9 of the first's rate",
          part("cycles_last", "cycles_first"), 0.9, True)
    check("GET of a sandbox: at least 60,000 a second", p50("gets"), 60000, True, rate)
    check("daemon: at most 20 MiB idle", p50("rss"), 20, show=lambda v: f"{v:.1f} MiB")
    check("with launcher and prepared boxes too", p50("pss"), 20, show=lambda v: f"{v:.1f} MiB")
    check("idle sandbox: at most 2 MiB", p50("memory"), 2, show=lambda v: f"{v:.2f} MiB")
    return checks
