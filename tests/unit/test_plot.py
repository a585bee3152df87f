"""The pictures of bench/plot.py: what is in them, and that nothing in them covers anything else."""
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "plot.py"
sys.path.insert(0, str(PROGRAM.parent))

import plot  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
CALLS = ["create", "create, cold", "exec echo hello", "write a 1 KiB file", "read a 1 KiB file", "pause", "resume",
         "kill", "create, exec, kill"]


def row(name, unit="us", **columns):
    return {"name": name, "unit": unit, **{c: {"p50": v, "p99": v * 3, "n": 9} for c, v in columns.items()}}


def whole_run(value=lambda: 1000.0):
    """Every row that is drawn, in every column."""
    rows = [row(name, **{c: value() for c in plot.NAMES}) for name in CALLS]
    rows += [row(f"lives, {n} client{'s' * (n > 1)}", "lives/s", cay=value(), floor=value(), runc=value(), docker=value())
             for n in (1, 2, 4, 8, 32)]
    return rows + [row(f"{what} with {n} sandbox{'es' * (n > 1)}", cay=value())
                   for what in ("create", "exec") for n in (1, 100, 499, 500)]


def drawn(rows):
    """{file: root element}, and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        said, count = plot.draw({r["name"]: r for r in rows}, out)
        pictures = {f.name: xml.fromstring(f.read_text(encoding="utf-8")) for f in out.iterdir()}
    assert len(pictures) == count
    return pictures, "\n".join(said)


def texts(picture):
    return [t.text for t in picture.iter(f"{SVG}text")]


def boxes(picture):
    """(left, right, top, bottom, text) of each."""
    for t in picture.iter(f"{SVG}text"):
        x, y, size = float(t.get("x")), float(t.get("y")), float(t.get("font-size"))
        wide = plot.width_of(t.text, size, t.get("class") in ("cay", "head")) * 0.9  # it asks for more than that
        left = x - {"start": 0, "middle": wide / 2, "end": wide}[t.get("text-anchor", "start")]
        yield left, left + wide, y - size * 0.8, y + size * 0.2, t.text


def run(text, *options):
    with tempfile.TemporaryDirectory() as folder:
        if text is not None:
            pathlib.Path(folder, "bench.json").write_text(text)
        return subprocess.run([sys.executable, str(PROGRAM), "--plot", "--build", folder, "--out", f"{folder}/out",
                               *options], capture_output=True, text=True)


class Pictures(unittest.TestCase):
    def test_the_same_figures_give_the_same_bytes(self):
        rows = {r["name"]: r for r in whole_run(random.Random(1).random)}
        for picture in plot.PICTURES.values():
            self.assertEqual(picture(rows, []), picture(rows, []))

    def test_a_picture_says_in_words_what_it_shows(self):
        pictures, _ = drawn(whole_run())
        self.assertEqual(sorted(pictures), ["crowd.svg", "lives.svg", "speed.svg"])
        for name, picture in pictures.items():
            self.assertTrue(picture.find(f"{SVG}title").text, name)
            self.assertIn("1.00 ms" if name == "speed.svg" else "1.00" if name == "crowd.svg" else "1,000",
                          picture.find(f"{SVG}desc").text)

    def test_every_figure_is_there_as_text(self):
        pictures, said = drawn([row("create", cay=2200.0, floor=24.4, runc=25660.0, docker=94960.0),
                                row("lives, 1 client", "lives/s", cay=134.2, runc=6.44),
                                row("create with 500 sandboxes", cay=1689.0)])
        for text in ("cay 2.20 ms", "floor 24 µs", "runc 25.7 ms", "Docker 95.0 ms", "43×"):
            self.assertIn(text, texts(pictures["speed.svg"]))
        for text in ("134", "6.4", "cay", "runc"):
            self.assertIn(text, texts(pictures["lives.svg"]))
        for text in ("1.69", "5.07", "500"):
            self.assertIn(text, texts(pictures["crowd.svg"]))

    def test_no_text_covers_another_whatever_the_figures(self):
        chance = random.Random(2)
        runs = [whole_run(lambda v=v: v) for v in (0.001, 1.0, 999.5, 1e8)]
        runs += [whole_run(lambda s=s: 10 ** chance.uniform(*s)) for s in [(-1, 8), (2, 3), (4.9, 5.1)] * 20]
        for rows in runs:
            for name, picture in drawn(rows)[0].items():
                wide, high = float(picture.get("width")), float(picture.get("height"))
                found = list(boxes(picture))
                for left, right, top, bottom, text in found:
                    self.assertTrue(left >= 0 and right <= wide and top >= 0 and bottom <= high, f"{name}: {text}")
                for a, b in itertools.combinations(found, 2):
                    apart = a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2]
                    self.assertTrue(apart, f"{name}: {a} and {b}")

    def test_what_a_run_did_not_measure_is_left_out_and_said(self):
        rows = [row("create", cay=2.0, floor=1.0), row("exec echo hello", floor=1.0), row("pause", cay=5.0, docker=0)]
        rows[0]["docker"] = {"unavailable": "dockerd is not installed"}
        pictures, said = drawn(rows)
        self.assertEqual(list(pictures), ["speed.svg"])
        self.assertIn("create", texts(pictures["speed.svg"]))
        self.assertNotIn("exec", texts(pictures["speed.svg"]))
        for part in ("exec", "Docker", "lives.svg: not drawn", "crowd.svg: not drawn"):
            self.assertIn(part, said)


class Spread(unittest.TestCase):
    def test_things_keep_their_order_and_distance_within_the_bounds(self):
        chance = random.Random(3)
        for _ in range(300):
            n = chance.randint(1, 6)
            wanted = [chance.uniform(-50, 450) for _ in range(n)]
            sizes = [chance.uniform(5, 60) for _ in range(n)]
            places = plot.spread(wanted, sizes, 0, 400)
            order = sorted(range(n), key=lambda i: wanted[i])
            self.assertGreaterEqual(places[order[0]] - sizes[order[0]] / 2, -1e-6)
            self.assertLessEqual(places[order[-1]] + sizes[order[-1]] / 2, 400 + 1e-6)
            for a, b in zip(order, order[1:]):
                self.assertGreaterEqual(places[b] - places[a], (sizes[a] + sizes[b]) / 2 - 1e-6)

    def test_what_has_room_stays(self):
        self.assertEqual(plot.spread([300, 100], [20, 20], 0, 400), [300, 100])


class Program(unittest.TestCase):
    def test_a_bench_json_that_cannot_be_used_is_named_with_the_reason(self):
        for text, why in ((None, "run tools/bench first"), ("", "cannot be read"), ("[{", "cannot be read"),
                          ("{}", "not a list of rows"), ("[1]", "not a list of rows"), ("[]", "has no rows"),
                          ('[{"name": "create", "unit": "us", "cay": {"p50": "fast"}}]', "nothing that can be drawn")):
            done = run(text)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn("bench.json", done.stderr)
            self.assertIn(why, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_it_names_the_files_that_it_wrote(self):
        done = run(json.dumps(whole_run()))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in plot.PICTURES:
            self.assertIn(f"out/{name}", done.stdout)


if __name__ == "__main__":
    unittest.main()
