"""The agent's regular expressions against Python's: random patterns of what both understand alike, on random texts."""
import os, random, re, subprocess, sys, unittest

SEED, PATTERNS, TEXTS = 20260117, 6000, 4
LETTERS = "aabbcéK_1 -"
CLASSES = ["[ab]", "[^a]", "[a-c]", "[b-]", "[^\\s]", "[\\wé]", "[é-ü]", "[]a]", "[a\\]]", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S"]
LOOKS = ["^", "$", "\\b", "\\B", "\\A"]
COUNTS = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}", "{0}"]


class Maker:
    """Patterns as (ours, Python's, can it match nothing)."""

    def __init__(self, rnd, lines):
        self.rnd, self.lines = rnd, lines
        self.loops_of_nothing = False

    def look(self):
        look = self.rnd.choice(LOOKS)
        # Python's $ is also before a newline at the end.
        return look, "\\Z" if look == "$" and not self.lines else look, True

    def atom(self, depth):
        kind = self.rnd.random()
        if depth > 0 and kind < 0.3:
            ours, theirs, none = self.alternatives(depth - 1)
            head = self.rnd.choice(["(", "(", "(?:"])
            return head + ours + ")", head + theirs + ")", none
        if kind < 0.4:
            return self.look()
        if kind < 0.55:
            chosen = self.rnd.choice(CLASSES)
            return chosen, chosen, False
        if kind < 0.62:
            return ".", ".", False
        letter = self.rnd.choice(LETTERS)
        return letter, letter, False

    def repeated(self, depth):
        ours, theirs, none = self.atom(depth)
        if self.rnd.random() < 0.35 and ours not in LOOKS:
            count = self.rnd.choice(COUNTS)
            self.loops_of_nothing |= none
            lazy = self.rnd.choice(["", "", "?"])
            return ours + count + lazy, theirs + count + lazy, none or count[0] in "*?" or count.startswith("{0")
        return ours, theirs, none

    def sequence(self, depth):
        parts = [self.repeated(depth) for _ in range(self.rnd.choice([0, 1, 1, 2, 2, 3, 4]))]
        return "".join(p[0] for p in parts), "".join(p[1] for p in parts), all(p[2] for p in parts)

    def alternatives(self, depth):
        parts = [self.sequence(depth) for _ in range(self.rnd.choice([1, 1, 1, 2, 2, 3]))]
        return "|".join(p[0] for p in parts), "|".join(p[1] for p in parts), any(p[2] for p in parts)


def in_bytes(text, span):
    return tuple(-1 if at < 0 else len(text[:at].encode()) for at in span)


def hexed(text):
    return "x" + (text.encode().hex() or "-")


class Differences(unittest.TestCase):
    def cases(self):
        rnd = random.Random(SEED)
        for _ in range(PATTERNS):
            flags = "".join(f for f in "ims" if rnd.random() < 0.2)
            maker = Maker(rnd, "m" in flags)
            ours, theirs, _ = maker.alternatives(3)
            # Who repeats what can match nothing is told apart by which of the rounds is kept.
            if maker.loops_of_nothing:
                continue
            head = f"(?{flags})" if flags else ""
            for _ in range(TEXTS):  # not empty: there Python has no \\B
                text = "".join(rnd.choice("aaabbbccéÉKk_1 -\n") for _ in range(rnd.randrange(1, 12)))
                yield head + ours, head + theirs, text

    def test_the_first_match_and_its_groups_are_those_of_python(self):
        cases = list(self.cases())
        asked = "".join(f"- {hexed(ours)} {hexed(text)}\n" for ours, _, text in cases)
        rig = subprocess.run([os.environ["CAY_REGEX_RIG"]], input=asked.encode(), stdout=subprocess.PIPE, check=True)
        answers = rig.stdout.decode().splitlines()
        self.assertEqual(len(answers), len(cases))
        self.assertGreater(len(cases), 10000)
        for (ours, theirs, text), answer in zip(cases, answers):
            found = re.search(theirs, text)
            want = "none"
            if found:
                want = " ".join("%d,%d" % in_bytes(text, found.span(g)) for g in range(found.re.groups + 1))
            self.assertEqual(answer.strip(), want, f"{ours!r} in {text!r}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
