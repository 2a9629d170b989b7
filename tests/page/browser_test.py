#!/usr/bin/env python3
"""The page of `troupe watch` in headless Chromium: it loads, follows, complains of nothing, asks nobody else for anything,
and shows what the runs have. Skipped where Chromium or chromedriver is not installed.

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/page/browser_test.py
"""

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import PROGRAM, Browser, Watch, missing, wait_until  # noqa: E402
from recorded import instance, make_run, png, write_status  # noqa: E402

CONFIG = """env = "cartpole-swingup"
max_env_steps = 1000000000
[metrics]
every_s = 0.1
[replay]
min_items = 300
samples_per_insert = 1
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 16
[evaluator]
episodes = 1
every_learner_steps = 50
"""
# How many pixels of each chart are of the colours that lines have, in the order of the page.
COLOURED = """return [...document.querySelectorAll('.chart:not([hidden])')].map(card => {
  const canvas = card.querySelector('canvas');
  if (!canvas) return [card.dataset.chart, 0];
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    const [r, g, b, a] = pixels.slice(i, i + 4);
    if (a > 100 && Math.max(r, g, b) - Math.min(r, g, b) > 80) ++count;
  }
  return [card.dataset.chart, count];
});"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.end)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.browser.log()

    def watch(self, *arguments):
        watch = Watch(*arguments)
        self.addCleanup(lambda: watch.process.poll() is None and watch.end())
        return watch

    def open(self, *arguments):
        watch = self.watch(*arguments)
        self.browser.open(watch.link)
        wait_until(lambda: self.browser.ticks() >= 1, "first picture", 20)
        return watch

    def assert_clean(self):
        """Nothing was complained of, and nothing came from elsewhere."""
        # That its pixels are read is of this test.
        self.assertEqual([line for line in self.browser.log() if "Canvas2D: Multiple readback" not in line], [])
        elsewhere = self.browser.run("return performance.getEntriesByType('resource').map(one => one.name)"
                                     ".filter(name => !name.startsWith(location.origin + '/'))")
        self.assertEqual(elsewhere, [])

    def state(self):
        return self.browser.text("#state")

    def number(self, label):
        """The value of a card of numbers."""
        return self.browser.run("""const card = [...document.querySelectorAll('#numbers div')]
            .find(one => one.querySelector('span').innerText.startsWith(arguments[0]));
            return card ? card.querySelector('b').innerText : null""", label)

    def coloured(self):
        return dict(self.browser.run(COLOURED))

    def test_a_run_that_goes_on_and_ends_and_is_copied(self):
        (self.folder / "c.toml").write_text(CONFIG)
        run = self.folder / "mine"
        train = subprocess.Popen([PROGRAM, "train", self.folder / "c.toml", "--run-dir", run, "--quiet"], cwd=self.folder)
        self.addCleanup(train.wait)
        self.addCleanup(train.kill)
        wait_until(lambda: (run / "status.json").exists(), "status.json")
        self.open(run)
        wait_until(lambda: self.state() == "training", "run that trains")
        wait_until(lambda: self.number("env steps"), "env steps")
        before = self.number("env steps")
        wait_until(lambda: self.number("env steps") != before, "progress")
        wait_until(lambda: self.coloured().get("Env steps per second", 0) > 30, "chart with a line")
        drawn = self.browser.text("#topology")
        for role in ("actor", "replay", "learner", "parameters", "evaluator", "metrics"):
            self.assertIn(role, drawn)
        self.assertIn("/s", drawn)
        train.send_signal(signal.SIGINT)
        self.assertEqual(train.wait(120), 0)
        wait_until(lambda: self.state() == "ended", "end", 20)
        charts = self.coloured()
        for name in ("Return", "Training steps per second", "Critic loss", "Replay inserts", "Samples per insert", "Staleness"):
            self.assertGreater(charts.get(name, 0), 30, f"{name} of {charts}")
        self.assertIn("learner\tchief\tup", self.browser.text("#instances"))
        self.assert_clean()

        copied = self.folder / "copied"
        shutil.copytree(run, copied)
        shutil.rmtree(run)
        self.open(copied)
        self.assertEqual(self.state(), "ended")
        self.assertIn("learner", self.browser.text("#topology"))
        self.assertGreater(float(self.number("Return")), 0)
        self.assert_clean()

    def test_who_is_down_and_who_hangs_stands_at_the_top(self):
        run = make_run(self.folder, "hangs")
        channels = [{"from": "gan", "from_port": "samples", "to": "metrics", "to_port": "in", "kind": "stream", "capacity": 4}]
        write_status(run, [instance("gan", 0, idle_s=7.1, why="group in all_reduce(critic) of step 412"),
                           instance("gan", 1, state="restarting", restarts=2, error="it broke"), instance("metrics")],
                     channels=channels, waits=["gan-0 waits 7.1 s: gan-1 is restarting (2 of 5)"],
                     groups=[{"name": "gan", "epoch": "1.3", "seats": 2, "members": ["gan-0"], "broke": "",
                              "missing": [{"name": "gan-1", "state": "restarting"}],
                              "hang": "gan-0 waits 7.1 s for all_reduce(critic) of step 412"}])
        self.open(run)
        alarms = self.browser.text("#alarms")
        self.assertIn("group gan: gan-0 waits 7.1 s for all_reduce(critic) of step 412", alarms)
        self.assertIn("gan-1 is restarting (restart 2 of 5): it broke", alarms)
        self.assertIn("gan-0 waits 7.1 s", self.browser.text("#waits"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('#topology .role.down').length"), 1)
        self.assert_clean()

    def test_samples_of_a_gan_and_films(self):
        run = make_run(self.folder, "gan", evaluation="frechet_distance")
        (run / "samples/gan").mkdir(parents=True)
        for step in (0, 500, 1000):
            (run / f"samples/gan/step-{step:09}.png").write_bytes(png(32, step // 5))
        (run / "render").mkdir()
        (run / "render/strip.png").write_bytes(png(16, 200))
        (run / "samples/gan/link.png").symlink_to("/etc/hostname")
        self.open(run)
        self.assertIn("Fréchet distance", self.browser.text("#charts"))
        widths = lambda: self.browser.run("return [...document.querySelectorAll('#pictures img')].map(one => one.naturalWidth)")
        wait_until(lambda: sorted(widths()) == [16, 32], f"pictures: {widths()}")
        caption = lambda: self.browser.text("#pictures figcaption")
        self.assertIn("step 1,000", " ".join(self.browser.run("return [...document.querySelectorAll('#pictures figcaption')].map(one => one.innerText)")))
        self.browser.run("const slider = document.querySelector('#pictures input'); slider.value = 1; slider.oninput()")
        wait_until(lambda: "step 500" in self.browser.text("#pictures"), f"other step: {caption()}")
        self.assert_clean()

    def test_names_of_a_run_are_text_and_never_markup(self):
        bad = "<img src=x onerror=document.title='taken'>"
        run = make_run(self.folder, "hostile", columns=(bad + "/steps_per_s",))
        (run / "log.txt").write_text(f"error {bad}\n<script>document.title='taken'</script>\n")
        (run / "config.toml").write_text(f"# {bad}\n")
        write_status(run, [instance(bad, why=bad, error=bad, state="restarting")], trouble=[bad], waits=[bad])
        self.open(run)
        time.sleep(0.5)
        self.assertEqual(self.browser.run("return document.querySelectorAll('main img, main script').length"), 0)
        self.assertIn(bad, self.browser.text("#log"))
        self.assertIn(bad, self.browser.text("#alarms"))
        self.assertNotEqual(self.browser.run("return document.title"), "taken")
        self.assert_clean()

    def test_several_runs_side_by_side_and_each_alone(self):
        runs = [make_run(self.folder, name) for name in ("one", "two", "three")]
        self.open(*runs)
        wait_until(lambda: self.coloured().get("Return of each run", 0) > 100, "curves of runs")
        table = self.browser.text("#several")
        for name in ("one", "two", "three"):
            self.assertIn(name, table)
        self.browser.run("document.querySelectorAll('#several table a')[1].click()")
        wait_until(lambda: self.browser.text("#name") == "two" and self.browser.ticks() >= 1, "page of one run")
        wait_until(lambda: self.coloured().get("Critic loss", 0) > 30, "its charts")
        self.browser.run("document.getElementById('back').click()")
        wait_until(lambda: "three" in self.browser.text("#several"), "way back")
        self.assert_clean()

    def test_a_directory_that_goes_and_a_watch_that_ends(self):
        run = make_run(self.folder, "goes")
        watch = self.open(run)
        shutil.rmtree(run)
        wait_until(lambda: self.state() == "directory gone", "word of it")
        self.assertGreater(float(self.number("Return")), 0)  # what was read stays
        self.assert_clean()
        self.assertEqual(watch.end(), 0)
        wait_until(lambda: "not connected" in self.browser.text("#link"), "word of the end")

    def test_the_axis_turns_and_dark_is_dark(self):
        run = make_run(self.folder, "axes")
        self.open(run)
        self.browser.run("document.querySelector('#axis button[data-axis=env_steps]').click()")
        self.assertEqual(self.browser.text("#axis .chosen"), "env steps")
        dark = Browser(dark=True)
        self.addCleanup(dark.end)
        watch = self.watch(run)
        dark.open(watch.link)
        wait_until(lambda: dark.ticks() >= 1, "first picture")
        self.assertEqual(dark.run("return getComputedStyle(document.body).backgroundColor"), "rgb(15, 19, 24)")
        self.assertEqual(dark.log(), [])


if __name__ == "__main__":
    if why := missing():
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
