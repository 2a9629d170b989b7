#!/usr/bin/env python3
"""`troupe export` as other programs see it: one small run of a D4PG group, SN-GANs of all kinds, a residual network and a
classifier under a parameter server is exported; ONNX files pass onnx.checker and onnxruntime computes what Troupe does,
safetensors hold enough to compute it by hand in NumPy and PyTorch. Runs in the Python environment of the tests; exit
status 77 where that is missing."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = 1e-5  # of the largest value; sums in another order differ by some 1e-7

CONFIG = """
env = "pendulum-swingup"
max_env_steps = 2000

[d4pg]
policy_layers = [16, 12]
critic_layers = [16]
atoms = 11
[learner]
count = 2
batch_size = 16

[replay]
min_items = 100
samples_per_insert = 2
tolerance = 1

[evaluator]
episodes = 1

[replicas.gan]
model = "sngan"
data = "synthetic"
replicator = "multi_worker"
count = 2
batch_size = 20
steps = 60
layers = [16, 24]
ema_decay = 0.9

[replicas.mlp]
model = "classifier"
data = "synthetic"
replicator = "parameter_server"
count = 2
ps_shards = 2
batch_size = 20
steps = 60
layers = [16]
ema_decay = 0.9

[replicas.conv]
model = "sngan"
data = "synthetic"
network = "resnet"
width = 8
discriminator_width = 8
noise_size = 16
batch_size = 16
steps = 20
evaluation_images = 100
ema_decay = 0.9

[replicas.classes]
model = "sngan"
data = "synthetic"
network = "resnet"
conditional = true
width = 8
discriminator_width = 8
noise_size = 16
batch_size = 16
steps = 20
evaluation_images = 100
learning_rate = 0.01
ema_decay = 0.5

[replicas.net]
model = "resnet"
depth = 20
data = "synthetic"
batch_size = 16
steps = 10
ema_decay = 0.5
"""
PARTS = {"learner": "d4pg", "gan": "sngan", "mlp": "classifier", "conv": "sngan", "classes": "sngan", "net": "resnet"}
CONVOLUTIONS = {"conv", "classes", "net"}  # the others are NumPy's too


def troupe(*arguments):
    return subprocess.run([os.environ["TROUPE_PROGRAM"], *map(str, arguments)], capture_output=True, text=True,
                          timeout=100, check=False)


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-export-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        (cls.folder / "c.toml").write_text(CONFIG, encoding="utf-8")
        cls.run_folder = cls.folder / "run"
        trained = troupe("train", cls.folder / "c.toml", "--run-dir", cls.run_folder, "--quiet")
        assert trained.returncode == 0, trained.stderr

    def export(self, part, form):
        """The exported file and the file of examples."""
        file, examples = self.folder / f"{part}.{form}", self.folder / f"{part}.{form}.examples"
        done = troupe("export", self.run_folder, "--format", form, "--what", part, "-o", file, "--examples", examples)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{part} ({PARTS[part]}) at step ", done.stdout)
        return file, examples

    def refused(self, message, *arguments):
        """The command fails with one line that says so."""
        done = troupe(*arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_onnxruntime_computes_what_troupe_does(self):
        for part in PARTS:
            with self.subTest(part=part):
                file, examples = self.export(part, "onnx")
                onnx.checker.check_model(str(file), full_check=True)
                model = onnx.load(str(file))
                self.assertEqual([opset.domain for opset in model.opset_import], [""])
                self.assertEqual({p.key: p.value for p in model.metadata_props}["part"], part)
                session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
                given = load_file(examples)
                for rows in 16, 1, 5:  # the batch is open
                    feed = {i.name: given[f"input/{i.name}"][:rows] for i in session.get_inputs()}
                    for info, got in zip(session.get_outputs(), session.run(None, feed)):
                        self.assertEqual(info.shape[0], "batch")
                        expected = given[f"output/{info.name}"][:rows]
                        self.assertEqual(got.shape, expected.shape)
                        numpy.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE * abs(expected).max())
                        self.assertGreater(numpy.ptp(given[f"output/{info.name}"]), 1e-3, "says nothing")

    def test_safetensors_hold_parameters_averages_and_states_alone(self):
        files = {part: load_file(self.export(part, "safetensors")[0]) for part in PARTS}
        self.assertEqual(files["learner"]["policy/layer0/weight"].shape, (3, 16))
        for name in ("policy.target/layer2/bias", "critic/norm/gain"):
            self.assertIn(name, sorted(files["learner"]))
        for name in ("generator.average/layer0/weight", "state/generator/layer0/variance", "state/discriminator/layer0/u"):
            self.assertIn(name, sorted(files["gan"]))
        self.assertTrue((files["gan"]["state/generator/layer0/variance"] != 1).all(), "statistics as they were at the start")
        self.assertGreater(abs(files["mlp"]["classifier/layer0/weight"] -
                               files["mlp"]["classifier.average/layer0/weight"]).max(), 0)
        for part, tensors in files.items():
            self.assertEqual([n for n in tensors if ".adam" in n or "accum" in n], [], part)
        with safetensors.safe_open(self.folder / "gan.safetensors", framework="numpy") as file:
            self.assertEqual(file.metadata()["model"], "sngan")
            self.assertEqual(file.metadata()["step"], "60")

    def forward(self, python, kind, parts):
        for part in parts:
            with self.subTest(part=part):
                command = [python, "-IB", ROOT / "tests/apps/export_forward.py", kind, PARTS[part]]
                done = subprocess.run([*command, *self.export(part, "safetensors")], capture_output=True, text=True,
                                      timeout=100, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertLess(float(done.stdout), TOLERANCE)

    def test_numpy_computes_the_same_from_safetensors(self):
        self.forward(sys.executable, "numpy", PARTS.keys() - CONVOLUTIONS)

    def test_pytorch_computes_the_same_from_safetensors(self):
        found = subprocess.run([ROOT / "tools/python_env.sh", "--find", "torch"], capture_output=True, text=True,
                               timeout=10, check=True).stdout.strip()
        if not found:
            self.skipTest("PyTorch is not installed (tools/python_env.sh torch)")
        self.forward(found, "torch", PARTS)

    def test_by_default_the_file_lies_in_the_run(self):
        done = troupe("export", self.run_folder, "--format", "onnx", "--what", "gan")
        self.assertEqual(done.stdout.splitlines()[-1], str(self.run_folder / "export/gan.onnx"))
        self.assertTrue((self.run_folder / "export/gan.onnx").is_file())

    def test_bad_input_gives_one_error_and_no_file(self):
        file = self.folder / "none.onnx"
        onnx_to = ("--format", "onnx", "-o", file)
        self.refused("not the directory of a run", "export", self.folder / "absent", *onnx_to)
        names = ["learner", *sorted(PARTS.keys() - {"learner"})]
        self.refused("several parts: choose one with --what " + " or --what ".join(names), "export", self.run_folder,
                     *onnx_to)
        self.refused("the run has no part critic; it has: " + ", ".join(names), "export", self.run_folder, *onnx_to,
                     "--what", "critic")
        self.assertIn("--format", troupe("export", self.run_folder, "--format", "h5", "-o", file).stderr)
        self.refused("/absent/x.onnx", "export", self.run_folder, "--what", "gan", "--format", "onnx", "-o",
                     self.folder / "absent/x.onnx")
        self.assertFalse(file.exists())
        self.assertFalse((self.folder / "absent").exists())

    def test_missing_and_damaged_checkpoints_are_named(self):
        copy = self.folder / "copy"
        shutil.copytree(self.run_folder, copy, ignore=shutil.ignore_patterns("export"))
        arguments = ("export", copy, "--what", "gan", "--format", "safetensors")
        for file in (copy / "checkpoints").rglob("tensors.safetensors"):
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        done = troupe(*arguments)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tensors.safetensors: SHA-256", done.stderr)
        shutil.rmtree(copy / "checkpoints")
        self.refused("checkpoints", *arguments)
        self.assertFalse((copy / "export").exists())


if __name__ == "__main__":
    environment = os.environ.pop("TROUPE_TEST_PYTHON", None)
    if environment:  # go on in there
        os.execv(environment, [environment, "-IB", *sys.argv, "--inside"])
    if "--inside" not in sys.argv:
        print("SKIPPED Export: no Python environment of the tests (tools/python_env.sh test)")
        sys.exit(77)
    sys.argv.remove("--inside")
    try:
        import numpy
        import onnx
        import onnxruntime
        import safetensors
        from safetensors.numpy import load_file
    except ModuleNotFoundError as missing:
        print(f"SKIPPED Export: {missing}: the Python environment is older than tools/python/test.txt")
        sys.exit(77)
    unittest.main(verbosity=2)
