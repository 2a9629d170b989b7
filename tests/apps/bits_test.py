"""The bits that every shipped configuration learns with `--deterministic`: a hash of all its parameters after 200 steps,
in bits.json. A change that is to leave what is computed as it is (another shape of the code, another way to run it)
leaves these hashes as they are; one that is to change it records them anew and says why:

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/apps/bits_test.py --record [CONFIG...]

Without a CONFIG: all, or with --quick all but the slowest.

Held down to SSE4.1 (TROUPE_MAX_ISA), so that all processors of the platform compute the same. Sizes are those of tests:
images that are made up, narrow networks, small batches; what a step computes, and in which order, is the configuration's.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDED = pathlib.Path(__file__).with_name("bits.json")

D4PG = ["max_learner_steps=200", "learner.batch_size=32", "evaluator.episodes=1", "evaluator.every_learner_steps=100000"]
# With draws from the policy, noise on targets and running statistics, none of which the number of learners changes.
SAC = D4PG + ["sac.random_env_steps=500", "sac.policy_layers=[32,32]", "sac.critic_layers=[32,32]", "sac.normalise_observations=true"]
TD3 = D4PG + ["td3.random_env_steps=500", "td3.policy_layers=[32,32]", "td3.critic_layers=[32,32]"]
DMPO = D4PG + ["dmpo.policy_layers=[32,32]", "dmpo.critic_layers=[32,32]", "dmpo.policy_target_update_period=20",
               "dmpo.critic_target_update_period=20", "dmpo.normalise_observations=true"]
# Its batch norms have the statistics of all replicas' rows, and what projects its weights comes after the optimiser.
FLASHSAC = D4PG + ["flashsac.random_env_steps=500", "replay.min_items=500", "replay.samples_per_insert=32", "flashsac.policy_width=16",
                   "flashsac.policy_blocks=1", "flashsac.critic_width=16", "flashsac.critic_blocks=1"]
PRIORITISED = D4PG + ["replay.sampler=prioritized"]
# Images that are drawn.
PIXELS = ["max_learner_steps=30", "learner.batch_size=8", "evaluator.episodes=1", "evaluator.every_learner_steps=100000",
          "pixels.height=40", "pixels.width=40", "resize.height=20", "resize.width=20", "replay.min_items=100"]
PIXELS_D4PG = PIXELS + ["d4pg.filters=4", "d4pg.policy_layers=[16,16]", "d4pg.critic_layers=[16,16]", "d4pg.target_update_period=10"]
PIXELS_DRQV2 = PIXELS + ["drqv2.filters=4", "drqv2.policy_layers=[16,16]", "drqv2.critic_layers=[16,16]", "drqv2.random_env_steps=50"]


def images(group, *more, steps=200, batch=16):
    keys = [f"steps={steps}", f"batch_size={batch}", "data=synthetic", 'data_dir=""', "evaluate_every_steps=100000",
            "deterministic=true", "threads=1", *more]
    return [f"replicas.{group}.{key}" for key in keys]


SMALL_GAN = ["width=16", "discriminator_width=16", "evaluation_images=100"]
IN_ONE_INSTANCE = ["replicator=multi_device", "count=2"]
# A case's name: its configuration, and what is other than there behind a dot.
CASES = {
    "cartpole_swingup": D4PG,
    "cartpole_swingup.prioritized": PRIORITISED,
    # The same hash for every number of learners in one instance.
    **{f"cartpole_swingup.{how}_{count}": D4PG + ["learner.deterministic=true", f"learner.count={count}",
                                                  f"learner.replicator={how}"]
       for how, count in (("multi_device", 1), ("multi_device", 2), ("multi_device", 8), ("central_storage", 4))},
    # Several instances, which take turns.
    "cartpole_swingup.learners_2": D4PG + ["learner.count=2"],
    "cartpole_swingup.learners_2_prioritized": PRIORITISED + ["learner.count=2", "replay.shards=2"],
    "cartpole_swingup.model_parallel": D4PG + ["learner.replicator=model_parallel", "learner.devices=2"],
    "cheetah_run": D4PG,
    "finger_spin": D4PG,
    "pendulum_swingup": D4PG,
    "pendulum_v1": D4PG,
    "reacher_easy": D4PG,
    "cartpole_swingup_dmpo": DMPO,
    **{f"cartpole_swingup_dmpo.multi_device_{count}": DMPO + ["learner.deterministic=true", f"learner.count={count}",
                                                              "learner.replicator=multi_device"] for count in (1, 8)},
    "cartpole_swingup_dmpo.parameter_server": DMPO + ["learner.replicator=parameter_server", "learner.count=2"],
    "walker_walk_sac": SAC,
    **{f"walker_walk_sac.multi_device_{count}": SAC + ["learner.deterministic=true", "learner.replicator=multi_device",
                                                       f"learner.count={count}"] for count in (1, 8)},
    "walker_walk_sac.parameter_server": SAC + ["learner.replicator=parameter_server", "learner.count=2"],
    "humanoid_walk_flashsac": FLASHSAC,
    **{f"humanoid_walk_flashsac.multi_device_{count}": FLASHSAC + ["learner.deterministic=true", "learner.replicator=multi_device",
                                                                  f"learner.count={count}"] for count in (1, 2, 8)},
    "humanoid_walk_flashsac.parameter_server": FLASHSAC + ["learner.replicator=parameter_server", "learner.count=2"],
    "dog_walk_flashsac": FLASHSAC,
    "cheetah_run_td3": TD3,
    "cheetah_run_td3.learners_2": TD3 + ["learner.count=2"],
    "cartpole_swingup_pixels": PIXELS_D4PG,
    "cartpole_swingup_pixels.inference": PIXELS_D4PG + ["actors.inference=server"],
    **{f"cartpole_swingup_pixels.multi_device_{count}": PIXELS_D4PG + [
        "learner.deterministic=true", "learner.replicator=multi_device", f"learner.count={count}"] for count in (1, 4)},
    "cartpole_swingup_pixels.learners_2": PIXELS_D4PG + ["learner.count=2"],
    "cartpole_swingup_pixels.parameter_server": PIXELS_D4PG + ["learner.replicator=parameter_server", "learner.count=2"],
    "cartpole_swingup_pixels_drqv2": PIXELS_DRQV2,
    "cartpole_swingup_pixels_drqv2.learners_2": PIXELS_DRQV2 + ["learner.count=2"],
    "classifier": images("classifier"),
    "classifier.multi_device": images("classifier", *IN_ONE_INSTANCE),
    # Instances that take turns: the group's bits are those of one replica.
    "classifier.multi_worker": images("classifier", "replicator=multi_worker", "count=2"),
    # What a server's workers do has no promise but that two deterministic runs are the same.
    **{f"classifier.{how}": images("classifier", f"replicator={how}", "count=2", "deterministic=false")
       for how in ("parameter_server", "sync_replicas")},
    "classifier.central_storage": images("classifier", "replicator=central_storage", "count=2"),
    "classifier.model_parallel": images("classifier", "replicator=model_parallel", "devices=2"),
    "classifier.model_parallel_2": images("classifier", "replicator=model_parallel", "devices=2", "count=2"),
    "resnet20_fashion": images("resnet", steps=20),
    "resnet50_imagenet": images("resnet", *IN_ONE_INSTANCE, "image_size=32", "data_threads=0", "compute=fp32", steps=3, batch=8),
    "sngan_mlp": images("sngan", *IN_ONE_INSTANCE, "layers=[32,64]", "evaluation_images=100"),
    "sngan_fashion": images("sngan", *SMALL_GAN, steps=20),
    "sngan_cifar10": images("sngan", *SMALL_GAN, steps=20),
    "sngan_imagenet128": images("sngan", *IN_ONE_INSTANCE, *SMALL_GAN, "image_size=32", "data_threads=0", "compute=fp32",
                                steps=10, batch=8),
    "gan_async": images("gan", "layers=[32,64]", "discriminators=1", "discriminator_nodes=1",
                       "evaluation_images=100", steps=50),
    "gan_async.2": images("gan", "layers=[32,64]", "count=2", "discriminators=2", "evaluation_images=100", steps=50),
    "mixed": D4PG + ["learner.count=1", "actors.count=2"]
             + images("sngan", *IN_ONE_INSTANCE, "nodes=1", "layers=[32,64]", "evaluation_images=100")
             + images("classifier", "count=1", "nodes=1", "deterministic=false"),
}


# Half of the time of all: networks of full depth, and a judge of images that is trained first.
SLOW = {"resnet50_imagenet", "sngan_imagenet128"}

# Mesa's rasteriser draws, with the vectors that all processors of the platform have, even where there is a GPU.
DRAWN_ALIKE = {"__EGL_VENDOR_LIBRARY_FILENAMES": "/usr/share/glvnd/egl_vendor.d/50_mesa.json", "LP_NATIVE_VECTOR_WIDTH": "128"}


class Skipped(Exception):
    """Why a case says nothing on this machine."""


def tensors(path):
    """name -> bytes of a safetensors file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


def hash_of(path):
    digest = hashlib.sha256()
    for name, values in sorted(tensors(path).items()):
        digest.update(name.encode() + b"\0" + values)
    return digest.hexdigest()[:16]


def parts(case):
    """What the case's run learns: export asks for a name where there are several."""
    return ["learner", "sngan", "classifier"] if case.split(".")[0] == "mixed" else [""]


def run(program, case, folder):
    config = ROOT / "apps/configs" / (case.split(".")[0] + ".toml")
    environment = os.environ | {"TROUPE_MAX_ISA": "sse41", "XDG_CACHE_HOME": str(folder / "cache"), **DRAWN_ALIKE}

    def troupe(*arguments):
        done = subprocess.run([program, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300)
        if "no EGL device can be opened" in done.stderr:
            raise Skipped("nothing can be drawn here: no EGL device can be opened")
        if done.returncode != 0:
            sys.exit(f"{case}: troupe {' '.join(map(str, arguments))}: exit status {done.returncode}\n{done.stderr[-3000:]}")

    settings = [word for key in CASES[case] for word in ("--set", key)]
    troupe("train", config, "--deterministic", "--run-dir", folder / "run", *settings)
    hashes = {}
    for part in parts(case):
        troupe("export", folder / "run", *(["--what", part] if part else []), "-o", folder / "out.safetensors")
        hashes[part] = hash_of(folder / "out.safetensors")
    return hashes


def main():
    record, quick = (sys.argv[1:2] == [option] for option in ("--record", "--quick"))
    cases = sys.argv[1 + (record or quick):]
    program = os.environ["TROUPE_PROGRAM"]
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    wrong = []
    for case in cases or [case for case in CASES if not (quick and case in SLOW)]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                hashes = run(program, case, pathlib.Path(folder))
            except Skipped as reason:
                print(f"{case}: skipped: {reason}", flush=True)
                continue
        print(case, hashes, flush=True)
        if record:
            recorded[case] = hashes
            RECORDED.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
        elif recorded.get(case) != hashes:
            wrong.append(f"{case}: got {hashes}, recorded {recorded.get(case)}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
