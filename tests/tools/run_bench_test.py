"""Tests of bench/run.py and bench/gpu_results.py: what counts as a row, how ratios come out, and that no failure passes
silently."""

import argparse
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
sys.dont_write_bytecode = True
import gpu_results  # noqa: E402
import run as bench_run  # noqa: E402
from benches import BENCHES, Bench  # noqa: E402
from progress import Progress  # noqa: E402
from sides import BenchError, Sample, Side, find_gpu, parse_program, parse_script  # noqa: E402


def script(name, *rows, status=0):
    """A side that prints `rows` (name, value, unit) and leaves with `status`."""
    lines = [json.dumps({"name": n, "value": v, "unit": u, "version": "1.2"}) for n, v, u in rows]
    code = "import sys\nprint('chatter')\n" + "".join(f"print({line!r})\n" for line in lines)
    code += f"print('reason of the failure', file=sys.stderr)\nsys.exit({status})"
    return Side(name, [sys.executable, "-c", code], {}, False, 20)


def run(*sides, better="higher", repeats=1):
    bench = Bench("", "", {}, better=better)
    return bench_run.run(bench, sides, repeats, lambda step, left_s: None)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressLine(unittest.TestCase):
    def shown(self, out, term="xterm", **columns):
        with mock.patch.dict("os.environ", {"TERM": term, **columns}), Progress("bench x", out, 0.02) as progress:
            progress.say("repeat 2 of 5, rival", 65)
            time.sleep(0.2)
        return out.getvalue()

    def test_is_rewritten_on_a_terminal_within_its_width_and_gone_at_the_end(self):
        shown = self.shown(Terminal())
        self.assertRegex(shown, r"^(\rbench x: repeat 2 of 5, rival \(0:00, about 1:05 left\)\x1b\[K)+\r\x1b\[K$")
        self.assertIn("\rbench x: r\x1b[K", self.shown(Terminal(), COLUMNS="11"))

    def test_is_plain_lines_elsewhere(self):
        for shown in self.shown(io.StringIO()), self.shown(Terminal(), term="dumb"):
            self.assertRegex(shown, r"^(bench x: repeat 2 of 5, rival \(0:00, about 1:05 left\)\n)+$")

    def test_time_left_is_known_after_the_first_repeat_and_comes_from_what_each_side_took(self):
        said = []
        sides = [mock.Mock(measure=lambda repeat, s=s: time.sleep(s) or {"a": Sample(1, "x")}) for s in (0.05, 0.1)]
        for side, name in zip(sides, ("troupe", "rival")):
            side.name = name
        bench_run.run(Bench("", "", {}), sides, 3, lambda step, left_s: said.append((step, left_s)))
        self.assertEqual([left for _, left in said[:2]], [None, None])
        self.assertEqual(said[2][0], "repeat 2 of 3, troupe")
        self.assertAlmostEqual(said[2][1], 0.3, delta=0.1)
        self.assertAlmostEqual(said[5][1], 0.1, delta=0.05)


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
        (row,) = run(Side("troupe", [sys.executable, "-c", code], {}, True, 20), better="lower")
        self.assertEqual(row["rivals"], {"bound": {"version": "", "value": 8, "low": 8, "high": 8, "ratio": 8 / 6}})
        line = '{"name": "a", "value": 1, "unit": "s", "version": "", "limits": {"limit": 2}}'
        self.assertEqual(parse_script(line)["a"].limits, {"limit": 2})

    def test_rival_may_cover_some_rows(self):
        rows = run(script("troupe", ("a", 1, "x"), ("b", 1, "x")), script("rival", ("b", 1, "x")))
        self.assertEqual([list(row["rivals"]) for row in rows], [[], ["rival"]])

    def test_table_has_a_line_for_each_rival(self):
        sides = script("troupe", ("a", 6, "x")), script("one", ("a", 3, "x")), script("two", ("a", 2, "x"))
        self.assertEqual(bench_run.table(run(*sides)).count("| a "), 2)


class Failures(unittest.TestCase):
    def fails(self, message, *sides):
        with self.assertRaisesRegex(BenchError, message):
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
        self.fails("troupe: .*No such file", Side("troupe", ["/nonexistent/program"], {}, True, 20))

    def test_side_that_hangs(self):
        hanging = Side("slow", [sys.executable, "-c", "import time; time.sleep(60)"], {}, False, 1)
        self.fails("slow: .*timed out after 1 seconds", hanging)


class Program(unittest.TestCase):
    def parse(self, *entries, **context):
        return parse_program(json.dumps({"context": context, "benchmarks": entries}))

    def test_value_is_the_counter_or_items_per_second(self):
        counted = {"name": "a/8/real_time", "items_per_second": 1.0, "value": 2.0, "label": "frames/s"}
        samples = self.parse(counted, {"name": "b", "items_per_second": 3.0})
        self.assertEqual(samples, {"a": Sample(2.0, "frames/s"), "b": Sample(3.0, "")})

    def test_a_rival_says_its_version_in_the_context(self):
        samples = self.parse({"name": "a", "value": 1.0}, version="3.0.15")
        self.assertEqual(samples, {"a": Sample(1.0, "", "3.0.15")})

    def test_broken_rows_are_errors(self):
        for message, entries in {
            "neither a counter": [{"name": "a", "real_time": 1.0}],
            "two benchmarks make": [{"name": "a/1", "value": 1.0}, {"name": "a/2", "value": 1.0}],
            "row a: no model": [{"name": "a", "error_occurred": True, "error_message": "no model"}],
        }.items():
            with self.subTest(message), self.assertRaisesRegex(BenchError, message):
                self.parse(*entries)


DOCTOR = """processor  16 threads, avx512 kernels, products by onednn
plug-in    /p/libtroupe_cuda.so, CUDA 13.0, code for sm_80, sm_90, sm_100
driver     for CUDA 13.0
cuda:0     NVIDIA H200, sm_90, 140 GiB
cuDNN      9.19.0, /p/libtroupe_cudnn.so
auto       cuda:0
"""
WITHOUT_GPU = """processor  2 threads, avx512 kernels, products by onednn
plug-in    /p/libtroupe_cuda.so, CUDA 13.0, code for sm_80, sm_90, sm_100
driver     none: install NVIDIA's driver, 580 or newer (nvidia-smi shows it); programs run on the cpu
devices    cuda: no NVIDIA driver on this machine
auto       cpu
"""


class Device(unittest.TestCase):
    def test_names_are_those_of_configurations(self):
        self.assertEqual([bench_run.parse_device(name) for name in ("cuda", "cuda:0", "cuda:3")], ["cuda:0", "cuda:0", "cuda:3"])
        for name in ("gpu", "cpu", "auto", "cuda:", "cuda:x", "cuda:-1", ""):
            with self.subTest(name), self.assertRaisesRegex(argparse.ArgumentTypeError, "expected cuda, cuda:0"):
                bench_run.parse_device(name)

    def test_what_is_known_of_the_gpu(self):
        known = find_gpu(DOCTOR, "cuda:0")
        self.assertEqual(
            known, "NVIDIA H200, sm_90, 140 GiB; driver for CUDA 13.0; cuDNN 9.19.0, /p/libtroupe_cudnn.so")

    def test_without_a_gpu_the_error_has_the_words_of_doctor(self):
        with self.assertRaisesRegex(BenchError, "cuda:0: no such GPU.*driver: none: install NVIDIA's driver"):
            find_gpu(WITHOUT_GPU, "cuda:0")

    def test_a_gpu_that_is_not_there_is_told_those_that_are(self):
        with self.assertRaisesRegex(BenchError, "cuda:1: no such GPU.*cuda:0: NVIDIA H200"):
            find_gpu(DOCTOR, "cuda:1")

    def test_a_bench_of_the_processor_names_those_of_gpus(self):
        with self.assertRaisesRegex(BenchError, "envs runs on the processor alone.*learner, pixels"):
            bench_run.on_gpu("envs", BENCHES["envs"], "cuda:0")

    def test_its_program_and_rivals_take_the_place_of_the_others(self):
        bench = bench_run.on_gpu("learner", BENCHES["learner"], "cuda:0")
        self.assertEqual(bench.troupe, "learner_gpu_bench")
        self.assertEqual(set(bench.rivals), {"jax", "torch", "jax_cpprb", "torch_cpprb"})

    def test_every_script_is_there(self):
        folder = pathlib.Path(bench_run.__file__).parent
        for name, bench in BENCHES.items():
            for side in (bench, bench.gpu):
                scripts = [] if side is None else [rival[1] for rival in side.rivals.values() if isinstance(rival, tuple)]
                for script in scripts:
                    self.assertTrue((folder / script).exists(), f"{name}: {script}")

    def chosen(self, bench, **options):
        options = argparse.Namespace(**({"name": "replay", "rivals": True, "without": []} | options))
        return list(bench_run.chosen_rivals(bench, options))

    def test_rivals_can_be_left_out_by_name(self):
        bench = bench_run.on_gpu("replay", BENCHES["replay"], "cuda:0")
        self.assertEqual(self.chosen(bench), ["torchrl", "torch"])
        self.assertEqual(self.chosen(bench, without=["torchrl"]), ["torch"])
        self.assertEqual(self.chosen(bench, rivals=False), [])
        for options in ({"without": ["reverb"]}, {"without": ["torchrl"], "rivals": False}):
            with self.assertRaisesRegex(BenchError, "needs --rivals, which are torchrl, torch"):
                self.chosen(bench, **options)
        self.assertEqual(self.chosen(bench, name=None, without=["jax", "torch"]), ["torchrl"])

    def run_main(self, *arguments):
        """Which benches a call measures, where the second one fails, and the exit code."""
        measured = []

        def measure(name, options):
            measured.append(name)
            if len(measured) == 2:
                raise BenchError("no memory")

        with mock.patch.object(bench_run, "measure", measure), mock.patch("sys.argv", ["bench", *arguments]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as ended:
                bench_run.main()
        return measured, ended.exception.code

    def test_a_device_alone_means_all_that_a_gpu_has(self):
        on_gpus = [name for name, bench in BENCHES.items() if bench.gpu]
        self.assertEqual(self.run_main("--device", "cuda"), (on_gpus, 1))
        self.assertEqual(self.run_main("learner", "--device", "cuda"), (["learner"], 0))
        self.assertEqual(self.run_main(), ([], 2))
        self.assertEqual(self.run_main("--device", "cuda", "--json", "x"), ([], 2))

    def test_a_bench_for_gpus_alone_says_so(self):
        with self.assertRaisesRegex(BenchError, "for GPUs alone: --device cuda"):
            self.chosen(BENCHES["pixels"])


class GpuResults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, bench, *rows, **more):
        """rows: (name, value, unit, {rival: value})."""
        made = []
        for name, value, unit, rivals in rows:
            spread = lambda x: {"value": x, "low": x, "high": x}
            compared = {n: {"version": "1.2", **spread(v), "ratio": value / v} for n, v in rivals.items()}
            made.append({"name": name, **spread(value), "unit": unit, "better": "higher", "repeats": 5, "rivals": compared})
        report = {"bench": bench, "date": "2026-11-22 10:00", "machine": "16 cores", "device": "cuda:0", "gpu": "NVIDIA H200, sm_90"}
        (self.folder / f"{bench}.json").write_text(json.dumps(report | more | {"rows": made}))

    def page(self):
        return gpu_results.page(self.folder, self.folder)

    def test_page_has_machine_rows_goals_and_what_is_missing(self):
        self.write("learner", ("d4pg_step", 900, "steps/s", {"torch": 200, "jax": 500, "bound": 1500}))
        page = self.page()
        self.assertTrue(page.startswith("# On NVIDIA H200\n"))
        self.assertIn("- 16 cores; NVIDIA H200, sm_90\n", page)
        self.assertRegex(page, r"\| d4pg_step \| 900 \(900-900\) \| steps/s \| torch 1.2 +\| 200 ")
        self.assertIn("- d4pg_step against torch: 4.50, asked for 3: reached\n", page)
        self.assertIn("- d4pg_step against jax: 1.80, asked for 2: **not reached**\n", page)
        self.assertIn("- d4pg_step against bound: 0.60, asked for 0.5: reached\n", page)
        self.assertIn("`./troupe bench sngan --device cuda --rivals`: no report", page)

    def test_goals_of_a_row_are_those_of_its_bench(self):
        self.assertEqual(gpu_results.goal_of("learner", "d4pg_host_replay_tf32", "torch_cpprb"), 3)
        self.assertEqual(gpu_results.goal_of("resnet50", "resnet50_256_bf16", "torch"), 1)
        self.assertIsNone(gpu_results.goal_of("pixels", "d4pg_step", "torch"))
        self.assertIsNone(gpu_results.goal_of("learner", "d4pg_step", "torch_cpprb"))

    def test_rivals_left_out_are_named(self):
        self.write("replay", ("gpu_sample_prioritized_256", 9, "items/s", {"torch": 1}), without=["torchrl"])
        self.assertIn("left out, because this machine lacks them: torchrl", self.page())

    def test_curves_come_along(self):
        self.write("train", ("cartpole_swingup_to_800", 50, "s", {}))
        (self.folder / "cartpole_swingup_to_800.svg").write_text("<svg/>")
        summary = {"env": "cartpole-swingup", "wall_s": 50.0, "env_steps": 100_000, "learner_steps": 5000}
        (self.folder / "cartpole_swingup_to_800.json").write_text(json.dumps(summary))
        page = self.page()
        self.assertIn("cartpole-swingup: 2,000 environment steps/s and 100 learner steps/s over 50 s.", page)
        self.assertIn("![cartpole_swingup_to_800](gpu_cartpole_swingup_to_800.svg)", page)
        self.assertTrue((self.folder / "gpu_cartpole_swingup_to_800.svg").exists())

    def test_trials_are_no_measurements(self):
        self.write("learner", ("trial_d4pg_step", 9, "steps/s", {}))
        with self.assertRaisesRegex(SystemExit, "no measurements"):
            self.page()

    def test_an_emulated_device_is_no_measurement(self):
        self.write("learner", ("d4pg_step", 9, "steps/s", {}), gpu="Emulated device, sm_90")
        with self.assertRaisesRegex(SystemExit, "no measurements"):
            self.page()

    def test_reports_of_the_processor_are_refused(self):
        self.write("learner", ("d4pg_step", 9, "steps/s", {}))
        file = self.folder / "learner.json"
        report = json.loads(file.read_text())
        del report["device"]
        file.write_text(json.dumps(report))
        with self.assertRaisesRegex(SystemExit, "expected a report of --device"):
            self.page()

    def test_a_folder_without_reports_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "no report of learner"):
            self.page()


if __name__ == "__main__":
    unittest.main()
