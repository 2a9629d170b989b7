"""Training steps of the paper's SN-GAN for CIFAR-10 and of ResNet-50 v1.5 in JAX, for the rival of the pjrt bench: the
networks, losses and optimisers of torch_sngan.py and torch_resnet.py, in float32, with height, width, channels.

Parameters are flat dictionaries whose names are those of algorithms/sngan/resnet.cpp and algorithms/resnet/network.cpp.
"""
import jax
import jax.numpy as jnp
import numpy as np

RESNET50_BLOCKS = (3, 4, 6, 3)  # of each stage
SNGAN_NOISE = 128
SNGAN_HALVINGS = (True, True, False, False)  # of the discriminator's blocks


def convolution(x, weight, stride=1):
    """Keeps the size, but for its stride. weight: [kernel, kernel, in, out]."""
    padding = [(weight.shape[0] // 2,) * 2] * 2
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), padding, dimension_numbers=layout)


def batch_norm(x, gain, offset, running):
    """Returns x normalised by the statistics of this batch, and the running ones, which have moved: (mean, variance).
    The running variance is unbiased, as PyTorch's."""
    count = x.size // x.shape[-1]
    mean = x.mean((0, 1, 2))
    variance = jnp.maximum(jnp.square(x).mean((0, 1, 2)) - jnp.square(mean), 0)
    moved = tuple(0.9 * old + 0.1 * new for old, new in zip(running, (mean, variance * count / (count - 1))))
    return (x - mean) * (gain * jax.lax.rsqrt(variance + 1e-5)) + offset, moved


def twice_as_large(x):
    return x.repeat(2, axis=1).repeat(2, axis=2)


def half_as_large(x):
    rows, height, width, channels = x.shape
    return x.reshape(rows, height // 2, 2, width // 2, 2, channels).mean((2, 4))


def initial_running(channels):
    return jnp.zeros(channels), jnp.ones(channels)


def make_sngan(batch=64, generator_width=256, discriminator_width=128):
    """(state, batch, step). step(state, batch) -> (state, the discriminator's and the generator's loss).

    Spectral norm iterates once a step, and real and fake images meet the same weights. Both gradients are taken at the
    same parameters, before either update.
    """
    random = np.random.default_rng(1)
    generator, running, discriminator, u = {}, {}, {}, {}

    def add(parameters, name, shape, gain=1.0):
        fans = np.prod(shape[:-2]) * (shape[-2] + shape[-1])
        bound = gain * np.sqrt(6 / fans)
        parameters[f"{name}/weight"] = jnp.asarray(random.uniform(-bound, bound, shape), jnp.float32)
        parameters[f"{name}/bias"] = jnp.zeros(shape[-1])

    def add_norm(name):
        generator[f"{name}/gain"], generator[f"{name}/offset"] = jnp.ones(generator_width), jnp.zeros(generator_width)
        running[name] = initial_running(generator_width)

    def add_normalised(name, shape, gain=1.0):
        add(discriminator, name, shape, gain)
        u[name] = jnp.asarray(random.normal(size=shape[-1]), jnp.float32)

    before_relu, width = np.sqrt(2), generator_width
    add(generator, "input", (SNGAN_NOISE, 4 * 4 * width))
    for block in ("block0", "block1", "block2"):
        for layer in (0, 1):
            add_norm(f"{block}/norm{layer}")
            add(generator, f"{block}/conv{layer}", (3, 3, width, width), before_relu)
        add(generator, f"{block}/shortcut", (1, 1, width, width))
    add_norm("norm")
    add(generator, "output", (3, 3, width, 3))

    inputs, width = 3, discriminator_width
    for block, halves in enumerate(SNGAN_HALVINGS):
        add_normalised(f"block{block}/conv0", (3, 3, inputs, width), before_relu)
        add_normalised(f"block{block}/conv1", (3, 3, width, width), before_relu)
        if halves:
            add_normalised(f"block{block}/shortcut", (1, 1, inputs, width))
        inputs = width
    add_normalised("output", (width, 1))

    parameters = {"generator": generator, "discriminator": discriminator}
    state = {
        "parameters": parameters,
        "m": jax.tree.map(jnp.zeros_like, parameters),
        "v": jax.tree.map(jnp.zeros_like, parameters),
        "count": jnp.zeros((), jnp.int32),
        "running": running,
        "u": u,
    }
    data = {
        "image": random.normal(size=(batch, 32, 32, 3)).astype(np.float32),
        "noise": random.normal(size=(batch, SNGAN_NOISE)).astype(np.float32),
    }

    def biased(x, parameters, name):
        return convolution(x, parameters[f"{name}/weight"]) + parameters[f"{name}/bias"]

    def generate(generator, running, noise):
        """Images, and the running statistics."""
        moved = {}

        def norm(x, name):
            x, moved[name] = batch_norm(x, generator[f"{name}/gain"], generator[f"{name}/offset"], running[name])
            return jax.nn.relu(x)

        x = noise @ generator["input/weight"] + generator["input/bias"]
        x = x.reshape(len(noise), 4, 4, -1)
        for block in ("block0", "block1", "block2"):
            h = biased(twice_as_large(norm(x, f"{block}/norm0")), generator, f"{block}/conv0")
            h = biased(norm(h, f"{block}/norm1"), generator, f"{block}/conv1")
            x = h + twice_as_large(biased(x, generator, f"{block}/shortcut"))
        return jnp.tanh(biased(norm(x, "norm"), generator, "output")), moved

    def normalise(discriminator, u):
        """Weights divided by their norms, after one power iteration, through which no gradients pass; and u."""
        normalised, moved = dict(discriminator), {}
        for name in u:
            weight = discriminator[f"{name}/weight"]
            matrix = weight.reshape(-1, weight.shape[-1])
            fixed = jax.lax.stop_gradient(matrix)
            v = fixed @ u[name]
            v /= jnp.maximum(jnp.linalg.norm(v), 1e-12)
            moved[name] = v @ fixed
            moved[name] /= jnp.maximum(jnp.linalg.norm(moved[name]), 1e-12)
            normalised[f"{name}/weight"] = weight / (v @ (matrix @ moved[name]))
        return normalised, moved

    def judge(discriminator, x):
        for block, halves in enumerate(SNGAN_HALVINGS):
            half = half_as_large if halves else lambda x: x
            h = biased(jax.nn.relu(x) if block > 0 else x, discriminator, f"block{block}/conv0")
            h = half(biased(jax.nn.relu(h), discriminator, f"block{block}/conv1"))
            x = h + (biased(half(x), discriminator, f"block{block}/shortcut") if halves else x)
        return jax.nn.relu(x).sum((1, 2)) @ discriminator["output/weight"] + discriminator["output/bias"]

    def adam(parameters, gradients, m, v, step):
        m = jax.tree.map(lambda m, g: 0.0 * m + 1.0 * g, m, gradients)  # beta1 is 0
        v = jax.tree.map(lambda v, g: 0.9 * v + 0.1 * g * g, v, gradients)
        correction = 1 / jnp.sqrt(1 - 0.9**step)
        return jax.tree.map(lambda p, m, v: p - 2e-4 * m / (jnp.sqrt(v) * correction + 1e-8), parameters, m, v), m, v

    def step(state, batch):
        def losses(generator, discriminator):
            fake, running = generate(generator, state["running"], batch["noise"])
            normalised, u = normalise(discriminator, state["u"])
            real_logit, fake_logit = judge(normalised, batch["image"]), judge(normalised, fake)
            loss_d = jax.nn.relu(1 - real_logit).mean() + jax.nn.relu(1 + fake_logit).mean()
            return (loss_d, -fake_logit.mean()), (running, u)

        parameters, count = state["parameters"], state["count"] + 1
        (loss_d, loss_g), pull_back, (running, u) = jax.vjp(
            losses, parameters["generator"], parameters["discriminator"], has_aux=True)
        one, zero = jnp.ones(()), jnp.zeros(())
        gradients = {"generator": pull_back((zero, one))[0], "discriminator": pull_back((one, zero))[1]}
        parameters, m, v = adam(parameters, gradients, state["m"], state["v"], count.astype(jnp.float32))
        state = {"parameters": parameters, "m": m, "v": v, "count": count, "running": running, "u": u}
        return state, jnp.stack([loss_d, loss_g])

    return state, data, step


def make_resnet50(batch=8, size=224, filters=64):
    """(state, batch, step) of ResNet-50. step(state, batch) -> (state, loss)."""
    random = np.random.default_rng(1)
    parameters, running, classes = {}, {}, 1000

    def add(name, kernel, inputs, outputs):
        shape = (kernel, kernel, inputs, outputs)
        scale = np.sqrt(2 / (kernel * kernel * outputs))
        parameters[f"{name}/weight"] = jnp.asarray(scale * random.normal(size=shape), jnp.float32)
        parameters[f"{name}/gain"], parameters[f"{name}/offset"] = jnp.ones(outputs), jnp.zeros(outputs)
        running[name] = initial_running(outputs)

    add("stem", 7, 3, filters)
    blocks, inputs = [], filters  # (name, stride)
    for stage, count in enumerate(RESNET50_BLOCKS):
        width = filters * 2**stage
        for block in range(count):
            name, stride = f"stage{stage + 1}/block{block + 1}", 2 if stage > 0 and block == 0 else 1
            add(f"{name}/conv1", 1, inputs, width)
            add(f"{name}/conv2", 3, width, width)
            add(f"{name}/conv3", 1, width, 4 * width)
            if block == 0:
                add(f"{name}/shortcut", 1, inputs, 4 * width)
            blocks.append((name, stride))
            inputs = 4 * width
    parameters["head/weight"] = jnp.asarray(0.01 * random.normal(size=(inputs, classes)), jnp.float32)
    parameters["head/bias"] = jnp.zeros(classes)

    state = {"parameters": parameters, "momentum": jax.tree.map(jnp.zeros_like, parameters), "running": running}
    data = {
        "image": random.normal(size=(batch, size, size, 3)).astype(np.float32),
        "label": random.integers(0, classes, batch).astype(np.int32),
    }

    def network(parameters, running, x):
        """Logits, and the running statistics."""
        moved = {}

        def convolve(x, name, stride=1):
            x = convolution(x, parameters[f"{name}/weight"], stride)
            x, moved[name] = batch_norm(x, parameters[f"{name}/gain"], parameters[f"{name}/offset"], running[name])
            return x

        x = jax.nn.relu(convolve(x, "stem", 2))
        x = jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
        for name, stride in blocks:
            y = jax.nn.relu(convolve(x, f"{name}/conv1"))
            y = jax.nn.relu(convolve(y, f"{name}/conv2", stride))
            y = convolve(y, f"{name}/conv3")
            x = jax.nn.relu(y + (convolve(x, f"{name}/shortcut", stride) if f"{name}/shortcut" in running else x))
        return x.mean((1, 2)) @ parameters["head/weight"] + parameters["head/bias"], moved

    def step(state, batch):
        def loss_of(parameters):
            logits, running = network(parameters, state["running"], batch["image"])
            log_p = jax.nn.log_softmax(logits)
            of_label = jnp.take_along_axis(log_p, batch["label"][:, None], 1)[:, 0]
            return -(0.9 * of_label + 0.1 * log_p.mean(-1)).mean(), running  # label smoothing 0.1

        parameters = state["parameters"]
        (loss, running), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
        gradients = jax.tree.map(lambda g, p: g + 1e-4 * p, gradients, parameters)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradients)
        # Nesterov's
        parameters = jax.tree.map(lambda p, g, m: p - 0.01 * (g + 0.9 * m), parameters, gradients, momentum)
        return {"parameters": parameters, "momentum": momentum, "running": running}, loss

    return state, data, step
