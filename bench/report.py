"""From samples to results, table and verdict."""

COLUMNS = ["cay", "floor", "bubblewrap", "runc", "docker"]

# key of the measuring programs, name in bench.json and in the table, unit
ROWS = [
    ("create", "create", "us"),
    ("exec", "exec echo hello", "us"),
    ("write", "write a 1 KiB file", "us"),
    ("read", "read a 1 KiB file", "us"),
    ("pause", "pause", "us"),
    ("resume", "resume", "us"),
    ("kill", "kill", "us"),
    ("run", "create, exec, kill", "us"),
    ("create_3", "3 parallel creates", "us"),
    ("throughput_1", "exec throughput, 1 client", "exec/s"),
    ("throughput_8", "exec throughput, 8 clients", "exec/s"),
    ("throughput_32", "exec throughput, 32 clients", "exec/s"),
    ("create_1", "create with 1 sandbox", "us"),
    ("create_500", "create with 500 sandboxes", "us"),
    ("exec_1", "exec with 1 sandbox", "us"),
    ("exec_500", "exec with 500 sandboxes", "us"),
    ("create_host", "create, host image", "us"),
    ("exec_host", "exec, host image", "us"),
    ("rss", "daemon idle, RSS", "MiB"),
    ("pss", "with launcher and prepared boxes, PSS", "MiB"),
    ("memory", "memory per idle sandbox", "MiB"),
    ("memory_cgroup", "of it in its cgroup", "MiB"),
]
NAMES = {key: name for key, name, _ in ROWS}


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
                               "p99": round(percentile(values, 1 if unit == "exec/s" else 99), 3),
                               "n": len(values)}
            elif column in missing and key in ("create", "exec", "run"):
                row[column] = {"unavailable": missing[column]}
        if len(row) > 2:
            out.append(row)
    return out


def number(value, unit):
    if unit == "us":
        return f"{value / 1000:.2f} ms" if value < 99950 else f"{value / 1000:.0f} ms"
    return f"{value:.0f}/s" if unit == "exec/s" else f"{value:.1f} MiB"


def cell(row, column, which="p50"):
    return number(row[column][which], row["unit"]) if which in row.get(column, {}) else "–"


def ratio(row, slow, fast):
    """How many times longer slow takes than fast."""
    if "p50" not in row.get(slow, {}) or "p50" not in row.get(fast, {}):
        return None
    a, b = row[slow]["p50"], row[fast]["p50"]
    return b / a if row["unit"] == "exec/s" else a / b


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


def markdown(rows):
    lines = table(rows)
    out = ["| " + " | ".join(line) + " |" for line in lines]
    out.insert(1, "|---" + "|---:" * (len(lines[0]) - 1) + "|")
    return "\n".join(out + [""] + notes(rows)).rstrip()


def bars(rows):
    """[(claim, what was measured, passed; None when it was not measured)]"""
    by_name = {row["name"]: row for row in rows}
    checks = []

    def check(claim, value, limit, least=False, show=times):
        if value is None:
            checks.append((claim, "not measured", None))
        else:
            checks.append((claim, show(value), value >= limit if least else value <= limit))

    def p50(key):
        return by_name.get(NAMES[key], {}).get("cay", {}).get("p50")

    def grown(many, one):
        return p50(many) / p50(one) if p50(many) and p50(one) else None

    for key in ("create", "exec"):
        row = by_name.get(NAMES[key], {"unit": "us"})
        check(f"{key}: at most 1.5× the floor", ratio(row, "cay", "floor"), 1.5)
        check(f"{key}: at least 40× faster than Docker's API", ratio(row, "docker", "cay"), 40, True)
        check(f"{key}: with 500 sandboxes at most 1.3× of with one",
              grown(f"{key}_500", f"{key}_1"), 1.3)
    check("daemon: at most 20 MiB idle", p50("rss"), 20, show=lambda v: f"{v:.1f} MiB")
    check("with launcher and prepared boxes too", p50("pss"), 20, show=lambda v: f"{v:.1f} MiB")
    check("idle sandbox: at most 2 MiB", p50("memory"), 2, show=lambda v: f"{v:.2f} MiB")
    return checks
