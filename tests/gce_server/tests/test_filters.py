"""Both filter grammars, over plain objects."""

import unittest

from ..filters import Malformed, parse

THINGS = {
    "a": {
        "name": "a",
        "labels": {"team": "x", "env": "prod", "dotted.key": "1"},
        "status": "RUNNING",
        "size": 3,
        "scheduling": {"automaticRestart": True},
    },
    "b": {
        "name": "b",
        "labels": {"team": "y"},
        "status": "TERMINATED",
        "size": 10,
        "scheduling": {"automaticRestart": False},
    },
    "c": {"name": "c-1", "status": "RUNNING", "size": 2, "cpuPlatform": "Intel Skylake"},
}


class Filters(unittest.TestCase):
    def test_each_selects_what_the_documents_say(self):
        for text, expected in (
            ("labels.team=x", "a"),
            ("labels.team:*", "ab"),
            ("labels.dotted.key=1", "a"),
            ("NOT labels.team:*", "c"),
            ("-labels.team:*", "c"),
            ("labels.team!=x", "bc"),
            ("labels.team=x AND labels.env=prod", "a"),
            ("labels.team=x labels.env=prod", "a"),
            ("(labels.team=x) (labels.env=test)", ""),
            ("labels.team=x OR labels.team=y", "ab"),
            # OR binds tighter than AND.
            ("labels.team=x OR labels.team=y AND status=RUNNING", "a"),
            ("(labels.team=x OR status=RUNNING) AND size<3", "c"),
            ('(cpuPlatform = "Intel Skylake") OR (labels.env = "prod")', "ac"),
            ("scheduling.automaticRestart = false", "b"),
            ("scheduling.automaticRestart = true", "a"),
            ("size >= 3", "ab"),
            ("size > 9", "b"),
            ("name=c*", "c"),
            ("name = 'c-1'", "c"),
            ('name = "c-1"', "c"),
            ("status:RUN", "ac"),
            ("name eq a", "a"),
            ("name ne .*-1", "ab"),
            ('name eq "c-[0-9]"', "c"),
            ("name eq c", ""),
            ("(status eq RUNNING) (labels.team ne x)", "c"),
            ("labels.team eq 'x|y'", "ab"),
        ):
            with self.subTest(text):
                selects = parse(text)
                self.assertEqual("".join(name for name, thing in THINGS.items() if selects(thing)), expected)

    def test_what_is_of_neither_grammar_is_malformed(self):
        for text in (
            "",
            "  ",
            "labels.team",
            "=x",
            "labels.team=",
            "(labels.team=x",
            "labels.team=x)",
            "a = b OR",
            "name eq [",
            "name eq a AND status = RUNNING",
            "(name eq a) OR (name eq b)",
            "a==b",
            "labels..x=1",
        ):
            with self.subTest(text), self.assertRaises(Malformed):
                parse(text)


if __name__ == "__main__":
    unittest.main()
