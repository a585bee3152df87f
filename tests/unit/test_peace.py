"""What bench/peace.py makes of its samples: rows, table and verdict."""
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import peace  # noqa: E402

ROWS = [*peace.ALONE, *peace.WORK]


def rows(disturbed, missing=(), done=(5.0, 7.0, 900.0)):
    samples = {key: {"quiet": [100.0] * 99 + [1000.0], "disturbed": [100.0] * 99 + [disturbed]} for key, _, _ in ROWS}
    return peace.results(samples, {key: list(done) for key, _, _ in ROWS}, dict(missing), ROWS)


class Peace(unittest.TestCase):
    def test_every_disturber_of_the_list_can_be_started(self):
        for key, _, _ in ROWS:
            self.assertTrue(callable(getattr(peace.Bench, key)), key)

    def test_the_bar_is_twice_the_quiet_p99(self):
        for p99, passed in ((1999.0, True), (2001.0, False)):
            self.assertEqual([check[2] for check in peace.bars(rows(p99))], [passed] * len(peace.WORK))

    def test_what_is_no_work_of_cays_has_no_bar(self):
        claims = " ".join(check[0] for check in peace.bars(rows(9000.0)))
        for _, name, _ in peace.ALONE:
            self.assertNotIn(name, claims)

    def test_a_verdict_says_what_the_kernel_alone_makes_of_it(self):
        found = rows(3000.0)
        found[0]["disturbed"]["p99"] = 6 * found[0]["quiet"]["p99"]
        for _, measured, _ in peace.bars(found):
            self.assertRegex(measured, "^3.0.*6.0.*3.0")
        self.assertEqual({measured for _, measured, _ in peace.bars(found[len(peace.ALONE):])}, {"3.00×"})

    def test_a_disturber_that_could_not_be_started_is_no_pass(self):
        found = rows(1000.0, [("pull", "docker-registry is not installed")])
        self.assertIn(None, [check[2] for check in peace.bars(found)])
        self.assertIn("docker-registry is not installed", peace.markdown(found))

    def test_a_disturber_that_did_nothing_is_no_pass(self):
        self.assertNotIn(True, [check[2] for check in peace.bars(rows(1000.0, done=[0.0, 0.0, 5.0]))])

    def test_a_disturber_that_fails_by_itself_is_an_error(self):
        for how in ([signal.SIGTERM], []):
            bench = peace.Bench(None, None)
            bench.spawn("/bin/sh", "-c", "exit 1").wait()
            with self.assertRaises(RuntimeError):
                bench.finish(*how)
        bench = peace.Bench(None, None)
        bench.spawn("/bin/sleep", "1000")
        self.assertEqual(bench.finish(signal.SIGKILL), [])

    def test_the_table_says_what_was_done_meanwhile(self):
        self.assertIn("| 7.0 lives/s |", peace.markdown(rows(1000.0)))
        self.assertEqual({len(line) for line in peace.lines(rows(1000.0))}, {9})


if __name__ == "__main__":
    unittest.main()
