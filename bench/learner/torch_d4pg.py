"""D4PG's networks and learner step in PyTorch, for the rivals of the learner and train benches.

Eager mode with one fused Adam per network and a scatter projection, which is PyTorch's fastest form here (torch.compile
was measured slower on a CPU step of this size). Networks, initial values, losses and clipping are those of
learner/d4pg/networks.cpp and replica.cpp.
"""
import dataclasses
import math
import time

import torch


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
    def __init__(self, options):
        self.options = options
        self.policy, self.critic = make_policy(options), make_critic(options)
        self.target_policy, self.target_critic = make_policy(options), make_critic(options)
        self.policy_parameters, self.critic_parameters = list(self.policy.parameters()), list(self.critic.parameters())
        self.copy_to_targets()
        self.policy_adam = torch.optim.Adam(self.policy_parameters, options.policy_learning_rate, fused=True)
        self.critic_adam = torch.optim.Adam(self.critic_parameters, options.critic_learning_rate, fused=True)
        self.atoms = torch.linspace(options.v_min, options.v_max, options.atoms)
        self.steps = 0

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
        observation, action, reward, discount, next_observation = batch
        with torch.no_grad():
            next_action = self.target_policy(next_observation)
            next_logits = self.target_critic(torch.cat((next_observation, next_action), 1))
            targets = self.project(next_logits.softmax(1), reward, discount)
        logits = self.critic(torch.cat((observation, action), 1))
        critic_loss = -(targets * logits.log_softmax(1)).sum(1).mean()

        policy_action = self.policy(next_observation)
        leaf = policy_action.detach().requires_grad_()
        q = self.critic(torch.cat((next_observation, leaf), 1)).softmax(1) @ self.atoms
        (dqda,) = torch.autograd.grad(q.sum(), leaf)
        if clip := self.options.action_gradient_clip:
            dqda = dqda * (clip / dqda.norm(dim=1, keepdim=True).clamp_(min=clip))

        critic_gradients = torch.autograd.grad(critic_loss, self.critic_parameters)
        policy_gradients = torch.autograd.grad(policy_action, self.policy_parameters, dqda * (-1.0 / len(reward)))
        for parameters, gradients, adam in (
            (self.critic_parameters, critic_gradients, self.critic_adam),
            (self.policy_parameters, policy_gradients, self.policy_adam),
        ):
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient
            if self.options.gradient_norm_clip:
                torch.nn.utils.clip_grad_norm_(parameters, self.options.gradient_norm_clip, foreach=True)
            adam.step()
        self.steps += 1
        if self.steps % self.options.target_update_period == 0:
            self.copy_to_targets()
        return critic_loss


def steps_per_second(options, batch_size, threads, seconds):
    """The rate of learner steps on one batch of random numbers. Leaves PyTorch with as many threads."""
    torch.set_num_threads(threads)
    learner = Learner(options)
    observation, next_observation = torch.randn(2, batch_size, options.observation_size)
    action = torch.rand(batch_size, options.action_size) * 2 - 1
    batch = (observation, action, torch.rand(batch_size), torch.full((batch_size,), 0.99**5), next_observation)
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
