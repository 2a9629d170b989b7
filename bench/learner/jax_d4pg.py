"""D4PG's networks and learner step in JAX, for the rivals of the learner and pixels benches: those of
algorithms/d4pg/networks.cpp and replica.cpp, with the same losses and clipping.

Imports JAX, which takes its threads from the process' affinity: pin the process first.
"""
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Options:
    observation_size: int  # of images: the features behind the torso
    action_size: int  # actions lie in -1..1
    batch: int = 256
    policy_sizes: tuple = (256, 256, 256)
    critic_sizes: tuple = (512, 512, 256)
    atoms: int = 51
    v_min: float = -150.0
    v_max: float = 150.0
    learning_rate: float = 1e-4
    target_period: int = 100
    matmul_dtype: str = "float32"  # of the operands; sums are float32
    image: tuple = ()  # (height, width, channels): the observation is an image, seen through a torso
    filters: int = 32
    convolutions: int = 4


def layer_norm(x, scale, offset):
    centred = x - x.mean(-1, keepdims=True)
    x = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return jnp.tanh(x * scale + offset)


def initial_state(options, generator):
    """Everything that a step changes."""

    def linear(inputs, outputs):
        return jnp.asarray(generator.normal(size=(inputs, outputs)) / inputs**0.5, jnp.float32), jnp.zeros(outputs)

    def mlp(inputs, sizes, outputs):
        layers, width = [], inputs
        for size in (*sizes, outputs):
            layers.append(linear(width, size))
            width = size
        return {"layers": layers, "scale": jnp.ones(sizes[0]), "offset": jnp.zeros(sizes[0])}

    features, actions = options.observation_size, options.action_size
    policy = mlp(features, options.policy_sizes, actions)
    critic = mlp(features + actions, options.critic_sizes, options.atoms)
    if options.image:
        side, inputs, torso = options.image[0], options.image[2], []
        for layer in range(options.convolutions):
            shape = (3, 3, inputs, options.filters)
            torso.append((jnp.asarray(generator.normal(size=shape) / (9 * inputs) ** 0.5, jnp.float32), jnp.zeros(options.filters)))
            side, inputs = (side - 3) // (2 if layer == 0 else 1) + 1, options.filters
        critic["torso"] = torso
        for network in (policy, critic):
            weight, bias = linear(side * side * inputs, features)
            network["trunk"] = {"weight": weight, "bias": bias, "scale": jnp.ones(features), "offset": jnp.zeros(features)}
    online = {"policy": policy, "critic": critic}
    return {
        "online": online,
        "target": jax.tree.map(jnp.copy, online),
        "m": jax.tree.map(jnp.zeros_like, online),
        "v": jax.tree.map(jnp.zeros_like, online),
        "count": jnp.zeros((), jnp.int32),
    }


def random_batch(options, generator):
    observation = (options.batch, *(options.image or (options.observation_size,)))
    batch = {
        "observation": generator.normal(size=observation),
        "action": generator.uniform(-1, 1, size=(options.batch, options.action_size)),
        "reward": generator.uniform(size=options.batch),
        "discount": np.full(options.batch, 0.99**5),
        "next_observation": generator.normal(size=observation),
    }
    return {name: jnp.asarray(column, jnp.float32) for name, column in batch.items()}


def make_step(options):
    """step(state, batch) -> (state, the rows' cross-entropies). The discount is what next_observation's value is
    multiplied by, gamma^n included; a column `weight` is optional."""

    def mlp(parameters, x):
        last = len(parameters["layers"]) - 1
        for index, (weight, bias) in enumerate(parameters["layers"]):
            operands = x.astype(options.matmul_dtype), weight.astype(options.matmul_dtype)
            x = jnp.matmul(*operands, preferred_element_type=jnp.float32) + bias
            if index == 0:
                x = layer_norm(x, parameters["scale"], parameters["offset"])
            elif index < last:
                x = jax.nn.elu(x)
        return x

    def see(critic, image):
        """Of images what the torso makes of them."""
        x = image
        for layer, (weight, bias) in enumerate(critic.get("torso", ())):
            stride = (2, 2) if layer == 0 else (1, 1)
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, weight, stride, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias)
        return x.reshape(len(x), -1)

    def features(network, seen):
        if "trunk" not in network:
            return seen
        trunk = network["trunk"]
        return layer_norm(seen @ trunk["weight"] + trunk["bias"], trunk["scale"], trunk["offset"])

    def act(policy, seen):
        return jnp.tanh(mlp(policy, features(policy, seen)))

    def criticise(critic, seen, action):
        return mlp(critic, jnp.concatenate([features(critic, seen), action], -1))

    atoms = jnp.linspace(options.v_min, options.v_max, options.atoms)

    def project(probabilities, reward, discount):
        shifted = jnp.clip(reward[:, None] + discount[:, None] * atoms, options.v_min, options.v_max)
        overlap = jnp.clip(1 - jnp.abs(shifted[:, None, :] - atoms[None, :, None]) / (atoms[1] - atoms[0]), 0, 1)
        return jnp.einsum("bts,bs->bt", overlap, probabilities)

    def critic_loss(critic, target, batch):
        next_seen = see(target["critic"], batch["next_observation"])
        next_logits = criticise(target["critic"], next_seen, act(target["policy"], next_seen))
        targets = project(jax.nn.softmax(next_logits), batch["reward"], batch["discount"])
        seen = see(critic, batch["observation"])
        td_error = -(targets * jax.nn.log_softmax(criticise(critic, seen, batch["action"]))).sum(-1)
        return (td_error * batch.get("weight", 1.0)).mean(), (td_error, seen)

    def policy_loss(policy, critic, seen):
        action = act(policy, seen)
        dqda = jax.grad(lambda a: (jax.nn.softmax(criticise(critic, seen, a)) @ atoms).sum())(action)
        dqda *= 1.0 / jnp.maximum(jnp.linalg.norm(dqda, axis=-1, keepdims=True), 1.0)
        return 0.5 * jnp.square(jax.lax.stop_gradient(dqda + action) - action).sum(-1).mean()

    def adam(parameters, gradients, m, v, step):
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradients)))
        gradients = jax.tree.map(lambda g: g * jnp.minimum(1.0, 40.0 / norm), gradients)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradients)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradients)
        rate, correction = options.learning_rate / (1 - 0.9**step), 1 / jnp.sqrt(1 - 0.999**step)
        return jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) * correction + 1e-8), parameters, m, v), m, v

    def step(state, batch):
        online = state["online"]
        (_, (td_error, seen)), critic_gradients = jax.value_and_grad(critic_loss, has_aux=True)(
            online["critic"], state["target"], batch)
        # From images the policy sees what the critic's torso saw, as in DrQ-v2; else Acme's next_observation.
        seen = jax.lax.stop_gradient(seen) if options.image else batch["next_observation"]
        gradients = {"policy": jax.grad(policy_loss)(online["policy"], online["critic"], seen), "critic": critic_gradients}
        count, updated, m, v = state["count"] + 1, {}, {}, {}
        for net in gradients:
            updated[net], m[net], v[net] = adam(
                online[net], gradients[net], state["m"][net], state["v"][net], count.astype(jnp.float32))
        target = jax.lax.cond(count % options.target_period == 0, lambda: updated, lambda: state["target"])
        return {"online": updated, "target": target, "m": m, "v": v, "count": count}, td_error

    return step
