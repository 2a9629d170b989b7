"""Every bench there is, by name, and its rivals. What a row measures stands in the program that measures it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Packaged:
    """A rival in C++ that is built only where its Debian package is there: nothing else needs it."""

    target: str
    package: str


@dataclasses.dataclass(frozen=True)
class Bench:
    summary: str
    troupe: str  # a CMake target, or a script under bench/
    rivals: dict  # name -> (environment of tools/python_env.sh, script under bench/), or a CMake target, or Packaged
    better: str = "higher"
    repeats: int = 5
    timeout_s: int = 300  # for one run of one side
    programs: tuple = ()  # further CMake targets that its script runs
    seconds: int = 0  # how long a row goes on, for benches where --seconds can say so
    gpu: "OnGpu | None" = None


@dataclasses.dataclass(frozen=True)
class OnGpu:
    """What a bench has instead with --device; the same meanings."""

    troupe: str
    rivals: dict
    timeout_s: int = 1800  # rivals compile, and at first tune, for minutes
    repeats: int = 5
    seconds: int = 3


BENCHES = {
    "learner": Bench(
        "one D4PG learner step, batch 256",
        "learner_bench",
        {
            "jax": ("jax", "learner/rivals/jax_learner.py"),
            "jax_bf16": ("jax", "learner/rivals/jax_bf16_learner.py"),
            "torch": ("torch", "learner/rivals/torch_learner.py"),
        },
        gpu=OnGpu(
            "learner_gpu_bench",
            {
                "jax": ("gpu", "learner/rivals/jax_gpu_learner.py"),
                "torch": ("gpu", "learner/rivals/torch_gpu_learner.py"),
                "jax_cpprb": ("gpu", "learner/rivals/jax_gpu_host_replay.py"),
                "torch_cpprb": ("gpu", "learner/rivals/torch_gpu_host_replay.py"),
            },
        ),
    ),
    "pixels": Bench(
        "one D4PG learner step from images of 84 x 84 x 9, batch 256",
        "",
        {},
        gpu=OnGpu(
            "pixels_gpu_bench",
            {
                "jax": ("gpu", "learner/rivals/jax_gpu_pixels.py"),
                "torch": ("gpu", "learner/rivals/torch_gpu_pixels.py"),
            },
        ),
    ),
    "pixels_scaling": Bench(
        "one D4PG learner step from 84 x 84 x 9 at a total batch of 256, shared by 1, 2 and 4 learners",
        "pixels_scaling_bench",
        {},
        timeout_s=900,
    ),
    "agents": Bench(
        "one learner step of SAC, TD3, DMPO, FlashSAC and DrQ-v2 at their published sizes",
        "agents_bench",
        {
            "jax": ("jax", "learner/rivals/jax_agents.py"),
            "torch": ("torch", "learner/rivals/torch_agents.py"),
        },
        timeout_s=900,
        gpu=OnGpu("agents_bench", {}),  # beside PJRT there
    ),
    "replicators": Bench("one D4PG learner step, batch 256, under each replicator", "replicators_bench", {}),
    "inference": Bench(
        "the policy's forward pass at batch 1, 16 and 256",
        "inference_bench",
        {
            "jax": ("jax", "learner/rivals/jax_inference.py"),
            "torch_jit": ("torch", "learner/rivals/torch_jit_inference.py"),
        },
    ),
    "conv": Bench("one convolution layer, forward and both gradients, beside oneDNN alone", "convolution_bench", {}),
    "sngan": Bench(
        "one training step of the paper's SN-GAN for CIFAR-10, batch 64, and shared by two processes",
        "sngan_bench",
        {
            "torch": ("torch", "learner/rivals/torch_sngan_step.py"),
            "torch_fp32": ("torch", "learner/rivals/torch_fp32_sngan_step.py"),
        },
        timeout_s=900,
        gpu=OnGpu("sngan_bench", {"torch": ("gpu", "learner/rivals/torch_gpu_sngan.py")}),
    ),
    "resnet50": Bench(
        "one training step of ResNet-50 on 8 images of 224 x 224, and shared by two processes",
        "resnet_bench",
        {
            "torch": ("torch", "learner/rivals/torch_resnet50.py"),
            "torch_fp32": ("torch", "learner/rivals/torch_fp32_resnet50.py"),
        },
        timeout_s=600,
        gpu=OnGpu("resnet_bench", {"torch": ("gpu", "learner/rivals/torch_gpu_resnet50.py")}),
    ),
    "resnet50_memory": Bench(
        "memory of a process that takes these steps",
        "resnet_memory_bench",
        {"torch": ("torch", "learner/rivals/torch_resnet50_memory.py")},
        better="lower",
        repeats=1,
    ),
    "pjrt": Bench(
        "steps and small calls by XLA through PJRT's plug-in for the processor; a compilation for TPUs",
        "pjrt_bench",
        {"jax": ("jax", "learner/rivals/jax_pjrt.py")},
        timeout_s=900,
        gpu=OnGpu("pjrt_bench", {}),  # beside Troupe's own kernels there
    ),
    "devices": Bench("one replica over two devices: branches, a pipeline, split layers", "devices_bench", {}),
    "input": Bench(
        "images for ResNet-50 read, decoded, augmented and put into batches",
        "input_bench",
        {
            "pillow": ("torch", "data/rivals/torch_pillow_input.py"),
            "torchvision": ("torch", "data/rivals/torch_tensor_input.py"),
        },
    ),
    "envs": Bench(
        "environment steps, the Control Suite and classic control",
        "envs_bench",
        {
            "dm_control": ("envs", "envs/rivals/dm_control_envs.py"),
            "envpool": ("envs", "envs/rivals/envpool_envs.py"),
            "gymnasium": ("envs", "envs/rivals/gymnasium_envs.py"),
        },
    ),
    "python": Bench(
        "64 environments through Gymnasium's vector interface",
        "python/vector_env.py",
        {"envpool": ("envs", "python/rivals/envpool_vector_env.py")},
    ),
    "python_policy": Bench(
        "a policy's action for one observation, from Python",
        "python/policy.py",
        {
            "torch_jit": ("torch", "python/rivals/torch_jit_policy.py"),
            "onnxruntime": ("test", "python/rivals/onnxruntime_policy.py"),
        },
    ),
    "python_replay": Bench(
        "a replay table in process, from Python",
        "python/replay.py",
        {"reverb": ("reverb", "replay/rivals/reverb_replay.py")},
    ),
    "python_replay_client": Bench(
        "the replay of a run from a Python program outside of it, over a link",
        "python/replay_client.py",
        {"reverb": ("reverb", "python/rivals/reverb_client.py")},
    ),
    "python_learner": Bench(
        "env steps of a run whose learner is TD3 in PyTorch, while it learns",
        "python/learner.py",
        {"torch_loop": ("torch", "python/rivals/torch_td3_loop.py")},
    ),
    "env_pixels": Bench(
        "environment steps that are drawn, 84 x 84 x 9",
        "env_pixels_bench",
        {"dm_control": ("envs", "envs/rivals/dm_control_pixels.py")},
    ),
    "replay": Bench(
        "inserts, samples and priority updates in process",
        "replay_bench",
        {"reverb": ("reverb", "replay/rivals/reverb_replay.py"), "cpprb": ("torch", "replay/rivals/cpprb_replay.py")},
        gpu=OnGpu(
            "replay_gpu_bench",
            {
                "torchrl": ("gpu", "replay/rivals/torchrl_gpu_replay.py"),
                "torch": ("gpu", "replay/rivals/torch_gpu_replay.py"),
            },
        ),
    ),
    "replay_pixels": Bench(
        "stacks of images in replay: items in a GiB, inserts and samples, beside rows that hold whole stacks",
        "replay_pixels_bench",
        {},
    ),
    "journal": Bench("what replay's journal costs an insert, and how fast 1 GiB is back after a kill", "journal_bench", {}),
    "actors": Bench(
        "messages between actors in one process: request-reply and 1 MiB frames",
        "actors_bench",
        {"ray": ("ray", "actors/rivals/ray_actors.py")},
    ),
    "shards": Bench(
        "replay in one and in two shards, in one process",
        "shards_bench",
        {},
    ),
    "parameter_server": Bench(
        "push and pull of 25 million parameters by 1, 2 and 4 workers, in one process and over processes",
        "parameter_server_bench",
        {},
    ),
    "replay_nodes": Bench(
        "inserts and batches of 256 with replay in a process of its own, state and pixels",
        "replay_nodes_bench",
        {"reverb": ("reverb", "actors/rivals/reverb_replay_nodes.py")},
    ),
    "env_scaling": Bench(
        "steps of a stub environment over 1, 2, 4 and 8 env-actor processes",
        "env_scaling_bench",
        {},
    ),
    "memory": Bench(
        "resident memory with a consumer 100 times slower than its producer",
        "memory_bench",
        {},
        better="lower",
        repeats=1,
        seconds=20,
    ),
    "faults": Bench(
        "how soon a process that was killed or hangs is noticed, and its work goes on",
        "apps/faults.py",
        {},
        better="lower",
    ),
    "page": Bench(
        "what a page, Prometheus and a tracker cost a run, and how soon the first picture of a long run of 1,000 instances is there",
        "apps/page.py",
        {},
        better="lower",
        repeats=1,
        timeout_s=1200,
        programs=("troupe",),
    ),
    "nodes": Bench(
        "what 16 to 256 real and 4,096 simulated nodes cost that do next to nothing: all in, the chief, a checkpoint",
        "nodes_bench",
        {},
        better="lower",
        repeats=3,
        timeout_s=900,
    ),
    "shared_memory": Bench(
        "frames between roles in two processes of one host, read by the other",
        "shared_memory_bench",
        {
            "ray": ("ray", "actors/rivals/ray_shared_memory.py"),
            "memcpy": ("ray", "actors/rivals/memcpy_shared_memory.py"),
        },
    ),
    "collectives": Bench(
        "all-reduces between threads of one process and between processes of one host",
        "collectives_bench",
        {
            "gloo": ("torch", "collectives/rivals/gloo_collectives.py"),
            "openmpi": Packaged("openmpi_bench", "libopenmpi-dev openmpi-bin"),
            "mpich": Packaged("mpich_bench", "libmpich-dev mpich"),
        },
    ),
    "collectives_hosts": Bench(
        "all-reduces between hosts (network namespaces) over TLS, against the links' own rate",
        "collectives_hosts_bench",
        {},
    ),
    "link": Bench(
        "messages over a stream between nodes on two hosts (network namespaces)",
        "link_bench",
        {"openssl": "openssl_bench", "grpc": Packaged("grpc_bench", "libgrpc++-dev")},
    ),
    "control": Bench(
        "small messages there and back on the urgent lane, idle and beside 64 MiB frames",
        "control_bench",
        {"caf": "caf_control_bench"},
        better="lower",
    ),
    "learner_group": Bench(
        "the return of D4PG with 1, 2 and 4 learners after equally many steps; one is lost on the way",
        "apps/learner_group.py",
        {},
        repeats=3,  # each with another seed
        timeout_s=3600,
        programs=("learner_group_threads",),
    ),
    "train": Bench(
        "wall time until cartpole-swingup returns 800",
        "apps/train.py",
        {"torch": ("torch", "apps/rivals/torch_train.py")},
        better="lower",
        repeats=1,
        timeout_s=4000,  # the sides give up by themselves after an hour
        gpu=OnGpu("apps/train_gpu.py", {}, timeout_s=4000, repeats=1, seconds=0),
    ),
    "train_agents": Bench(
        "wall time until SAC walks (900) and TD3 runs (300), and of a step on the way",
        "apps/train_agents.py",
        {"sb3": ("torch", "apps/rivals/sb3_train_agents.py")},
        better="lower",
        repeats=1,
        timeout_s=11000,  # the sides give up by themselves
    ),
}
