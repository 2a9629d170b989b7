"""D4PG's networks and learner step in PyTorch, for the rivals of the learner, pixels and train benches.

Eager mode with one fused Adam per network and a scatter projection, which is PyTorch's fastest form on a processor
(torch.compile was measured slower on a CPU step of this size); what it is on a GPU, torch_forms.py finds out. Networks,
initial values, losses and clipping are those of algorithms/d4pg/networks.cpp and replica.cpp.
"""
import dataclasses
import math
import time

import torch
from torch.func import functional_call


@dataclasses.dataclass(frozen=True)
class Options:
    """Named as the keys of a Troupe configuration, with the same meanings."""

    observation_size: int
    action_size: int  # actions lie in -1..1
    policy_layers: tuple = (256, 256, 256)
    critic_layers: tuple = (512, 512, 256)
    atoms: int = 51
    v_min: float = -150.0
    v_max: float = 150.0
    policy_learning_rate: float = 1e-4
    critic_learning_rate: float = 1e-4
    target_update_period: int = 100
    action_gradient_clip: float = 1.0
    gradient_norm_clip: float = 40.0


def hidden_layers(inputs, sizes):
    """Linear, layer norm, tanh, then linear and ELU; with Sonnet's initial values."""
    modules = []
    for layer, size in enumerate(sizes):
        linear = torch.nn.Linear(inputs, size)
        initialise_uniformly(linear)
        modules.append(linear)
        modules += [torch.nn.LayerNorm(size), torch.nn.Tanh()] if layer == 0 else [torch.nn.ELU(inplace=True)]
        inputs = size
    return modules


def initialise_uniformly(linear):
    bound = math.sqrt(3 * 0.333 / linear.out_features)
    torch.nn.init.uniform_(linear.weight, -bound, bound)
    torch.nn.init.zeros_(linear.bias)


def make_policy(options):
    head = torch.nn.Linear(options.policy_layers[-1], options.action_size)
    stddev = math.sqrt(1e-4 / head.in_features) / 0.87962566103423978
    torch.nn.init.trunc_normal_(head.weight, std=stddev, a=-2 * stddev, b=2 * stddev)
    torch.nn.init.zeros_(head.bias)
    hidden = hidden_layers(options.observation_size, options.policy_layers)
    return torch.nn.Sequential(*hidden, head, torch.nn.Tanh())


def make_critic(options):
    head = torch.nn.Linear(options.critic_layers[-1], options.atoms)
    initialise_uniformly(head)
    hidden = hidden_layers(options.observation_size + options.action_size, options.critic_layers)
    return torch.nn.Sequential(*hidden, head)


class Learner:
    """On PyTorch's default device, which may be a GPU: update() can be recorded as a CUDA graph."""

    def __init__(self, options):
        self.options = options
        self.policy, self.critic = self.networks()
        self.target_policy, self.target_critic = self.networks()
        self.policy_parameters, self.critic_parameters = list(self.policy.parameters()), list(self.critic.parameters())
        self.frozen = {name: parameter.detach() for name, parameter in self.critic.named_parameters()}  # for dQ/da alone
        self.copy_to_targets()
        on_gpu = self.critic_parameters[0].is_cuda
        adam = lambda *arguments: torch.optim.Adam(*arguments, fused=True, capturable=on_gpu)
        self.policy_adam = adam(self.policy_parameters, options.policy_learning_rate)
        self.critic_adam = adam(self.critic_parameters, options.critic_learning_rate)
        self.atoms = torch.linspace(options.v_min, options.v_max, options.atoms)
        self.steps = 0

    def networks(self):
        return make_policy(self.options), make_critic(self.options)

    def copy_to_targets(self):
        with torch.no_grad():
            torch._foreach_copy_(list(self.target_policy.parameters()), self.policy_parameters)
            torch._foreach_copy_(list(self.target_critic.parameters()), self.critic_parameters)

    def project(self, probabilities, reward, discount):
        v_min, v_max, atoms = self.options.v_min, self.options.v_max, self.options.atoms
        shifted = (reward[:, None] + discount[:, None] * self.atoms).clamp_(v_min, v_max)
        position = (shifted - v_min) * ((atoms - 1) / (v_max - v_min))
        low = position.floor().clamp_(max=atoms - 2)
        upper_share = probabilities * (position - low)
        index = low.long()
        targets = torch.zeros_like(probabilities)
        targets.scatter_add_(1, index, probabilities - upper_share)
        return targets.scatter_add_(1, index + 1, upper_share)

    def step(self, batch):
        """One update of both networks from (observation, action, reward, discount, next_observation).

        The discount is what next_observation's value is multiplied by, gamma^n included. Returns the critic's loss.
        """
        loss = self.update(batch).mean()
        self.count(1)
        return loss

    def count(self, steps):
        """After so many updates: copies to the targets when one is due."""
        before, self.steps = self.steps, self.steps + steps
        if before // self.options.target_update_period != self.steps // self.options.target_update_period:
            self.copy_to_targets()

    def compile(self, compiler):
        """Passes what has no gradient inside through it. Returns update()."""
        self.criticise, self.act, self.value = map(compiler, (self.criticise, self.act, self.value))
        return self.update

    def update(self, batch):
        """step() without the copies to the targets. A sixth column has the rows' importance weights. Returns the rows'
        cross-entropies before weighting, which are what prioritised replay takes."""
        td_error, critic_loss, seen = self.criticise(batch)
        policy_action = self.act(seen)
        leaf = policy_action.detach().requires_grad_()
        (dqda,) = torch.autograd.grad(self.value(seen, leaf), leaf)
        if clip := self.options.action_gradient_clip:
            dqda = dqda * (clip / dqda.norm(dim=1, keepdim=True).clamp_(min=clip))

        # Both gradients at the same parameters, then both Adams.
        critic_gradients = torch.autograd.grad(critic_loss, self.critic_parameters)
        policy_gradients = torch.autograd.grad(policy_action, self.policy_parameters, dqda * (-1.0 / len(dqda)))
        for parameters, gradients, adam in (
            (self.critic_parameters, critic_gradients, self.critic_adam),
            (self.policy_parameters, policy_gradients, self.policy_adam),
        ):
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient
            if self.options.gradient_norm_clip:
                torch.nn.utils.clip_grad_norm_(parameters, self.options.gradient_norm_clip, foreach=True)
            adam.step()
        return td_error.detach()

    def criticise(self, batch):
        """The rows' cross-entropies, the critic's loss, and what the policy is to see."""
        observation, action, reward, discount, next_observation = batch[:5]
        with torch.no_grad():
            next_action = self.target_policy(next_observation)
            next_logits = self.target_critic(torch.cat((next_observation, next_action), 1))
            targets = self.project(next_logits.softmax(1), reward, discount)
        logits = self.critic(torch.cat((observation, action), 1))
        td_error = -(targets * logits.log_softmax(1)).sum(1)
        return td_error, (td_error * batch[5]).mean() if len(batch) > 5 else td_error.mean(), next_observation

    def act(self, seen):
        return self.policy(seen)

    def value(self, seen, action):
        """The sum over rows of the critic's means."""
        logits = functional_call(self.critic, self.frozen, (torch.cat((seen, action), 1),))
        return (logits.softmax(1) @ self.atoms).sum()


def random_batch(options, size, observation_shape):
    observation, next_observation = torch.randn(2, size, *observation_shape)
    action = torch.rand(size, options.action_size) * 2 - 1
    return [observation, action, torch.rand(size), torch.full((size,), 0.99**5), next_observation]


def steps_per_second(options, batch_size, threads, seconds):
    """The rate of learner steps on one batch of random numbers. Leaves PyTorch with as many threads."""
    torch.set_num_threads(threads)
    learner = Learner(options)
    batch = random_batch(options, batch_size, (options.observation_size,))
    for _ in range(20):
        learner.step(batch)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            loss = learner.step(batch)
        steps += 10
    rate = steps / (time.perf_counter() - start)
    assert torch.isfinite(loss)
    return rate
