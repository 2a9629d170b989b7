"""Tests of bench/run.py: what counts as a row, how ratios come out, and that no failure passes silently."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
sys.dont_write_bytecode = True
import run as bench_run  # noqa: E402


def script(name, *rows, status=0):
    """A side that prints `rows` (name, value, unit) and leaves with `status`."""
    lines = [json.dumps({"name": n, "value": v, "unit": u, "version": "1.2"}) for n, v, u in rows]
    code = "import sys\nprint('chatter')\n" + "".join(f"print({line!r})\n" for line in lines)
    code += f"print('reason of the failure', file=sys.stderr)\nsys.exit({status})"
    return bench_run.Side(name, [sys.executable, "-c", code], {}, False, 20)


def run(*sides, better="higher", repeats=1):
    bench = bench_run.Bench("", "", {}, better=better)
    return bench_run.run(bench, sides, repeats, lambda text: None)


class Report(unittest.TestCase):
    def test_ratio_above_one_means_troupe_is_ahead(self):
        sides = script("troupe", ("step", 6, "s")), script("rival", ("step", 3, "s"))
        wanted = {"version": "1.2", "value": 3, "low": 3, "high": 3, "ratio": 2}
        self.assertEqual(run(*sides)[0]["rivals"]["rival"], wanted)
        self.assertEqual(run(*sides, better="lower")[0]["rivals"]["rival"]["ratio"], 0.5)

    def test_row_has_the_keys_of_the_format(self):
        (row,) = run(script("troupe", ("step", 6, "steps/s")), repeats=2)
        wanted = {"name": "step", "value": 6, "low": 6, "high": 6, "unit": "steps/s"}
        wanted |= {"better": "higher", "repeats": 2, "rivals": {}}
        self.assertEqual(row, wanted)

    def test_limit_that_the_program_knows_is_a_rival(self):
        entry = {"benchmarks": [{"name": "a", "value": 6.0, "vs_bound": 8.0, "label": "MiB"}]}
        code = f"import sys; open(sys.argv[1].split('=')[1], 'w').write({json.dumps(entry)!r})"
        (row,) = run(bench_run.Side("troupe", [sys.executable, "-c", code], {}, True, 20), better="lower")
        self.assertEqual(row["rivals"], {"bound": {"version": "", "value": 8, "low": 8, "high": 8, "ratio": 8 / 6}})
        line = '{"name": "a", "value": 1, "unit": "s", "version": "", "limits": {"limit": 2}}'
        self.assertEqual(bench_run.parse_script(line)["a"].limits, {"limit": 2})

    def test_rival_may_cover_some_rows(self):
        rows = run(script("troupe", ("a", 1, "x"), ("b", 1, "x")), script("rival", ("b", 1, "x")))
        self.assertEqual([list(row["rivals"]) for row in rows], [[], ["rival"]])

    def test_table_has_a_line_for_each_rival(self):
        sides = script("troupe", ("a", 6, "x")), script("one", ("a", 3, "x")), script("two", ("a", 2, "x"))
        self.assertEqual(bench_run.table(run(*sides)).count("| a "), 2)


class Failures(unittest.TestCase):
    def fails(self, message, *sides):
        with self.assertRaisesRegex(bench_run.BenchError, message):
            run(*sides)

    def test_failing_rival_is_named_with_its_reason(self):
        rival = script("rival", ("a", 1, "x"), status=3)
        self.fails("rival: exit status 3: reason of the failure", script("troupe", ("a", 1, "x")), rival)

    def test_side_without_rows(self):
        self.fails("rival: expected positive values", script("troupe", ("a", 1, "x")), script("rival"))

    def test_side_with_a_zero(self):
        self.fails("troupe: expected positive values", script("troupe", ("a", 0, "x")))

    def test_row_that_troupe_does_not_measure(self):
        self.fails("measured the row b, Troupe measures only a", script("troupe", ("a", 1, "x")), script("r", ("b", 1, "x")))

    def test_units_that_differ(self):
        self.fails("row a is in y, Troupe's in x", script("troupe", ("a", 1, "x")), script("r", ("a", 1, "y")))

    def test_missing_command(self):
        self.fails("troupe: .*No such file", bench_run.Side("troupe", ["/nonexistent"], {}, True, 20))

    def test_side_that_hangs(self):
        hanging = bench_run.Side("slow", [sys.executable, "-c", "import time; time.sleep(60)"], {}, False, 1)
        self.fails("slow: .*timed out after 1 seconds", hanging)


class Program(unittest.TestCase):
    def parse(self, *entries, **context):
        return bench_run.parse_program(json.dumps({"context": context, "benchmarks": entries}))

    def test_value_is_the_counter_or_items_per_second(self):
        counted = {"name": "a/8/real_time", "items_per_second": 1.0, "value": 2.0, "label": "frames/s"}
        samples = self.parse(counted, {"name": "b", "items_per_second": 3.0})
        self.assertEqual(samples, {"a": bench_run.Sample(2.0, "frames/s"), "b": bench_run.Sample(3.0, "")})

    def test_a_rival_says_its_version_in_the_context(self):
        samples = self.parse({"name": "a", "value": 1.0}, version="3.0.15")
        self.assertEqual(samples, {"a": bench_run.Sample(1.0, "", "3.0.15")})

    def test_broken_rows_are_errors(self):
        for message, entries in {
            "neither a counter": [{"name": "a", "real_time": 1.0}],
            "two benchmarks make": [{"name": "a/1", "value": 1.0}, {"name": "a/2", "value": 1.0}],
            "row a: no model": [{"name": "a", "error_occurred": True, "error_message": "no model"}],
        }.items():
            with self.subTest(message), self.assertRaisesRegex(bench_run.BenchError, message):
                self.parse(*entries)


if __name__ == "__main__":
    unittest.main()
