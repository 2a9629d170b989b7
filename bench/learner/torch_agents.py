"""Learner steps of SAC and TD3 in PyTorch, for the rivals of the agents bench: the networks, losses and order of
algorithms/sac and algorithms/td3, whose gradients are all taken at the same parameters.

Written for speed: both critics are one batched network, Adam is fused, targets move in one pass over all parameters, and
gradients are taken for those parameters alone that a loss trains.
"""
import math

import torch
from torch.func import functional_call

OBSERVATIONS, ACTIONS, BATCH, WIDTH = 17, 6, 256, 256
TAU = 0.005


class Twin(torch.nn.Module):
    """Two multi-layer perceptrons of the same input, as one batched product for each layer."""

    def __init__(self, inputs):
        super().__init__()
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for width, size in ((inputs, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)):
            limit = 1 / math.sqrt(width)
            self.weights.append(torch.nn.Parameter(torch.empty(2, width, size).uniform_(-limit, limit)))
            self.biases.append(torch.nn.Parameter(torch.empty(2, 1, size).uniform_(-limit, limit)))

    def forward(self, observation, action):
        x = torch.cat([observation, action], -1).expand(2, -1, -1)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            x = torch.baddbmm(bias, x, weight)
            if layer < 2:
                x = torch.relu_(x)
        return x[..., 0]


class Policy(torch.nn.Module):
    """heads: outputs of ACTIONS columns each."""

    def __init__(self, heads):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(OBSERVATIONS, WIDTH), torch.nn.ReLU(inplace=True),
                                        torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(inplace=True))
        self.head = torch.nn.Linear(WIDTH, heads * ACTIONS)

    def forward(self, observation):
        return self.head(self.body(observation))


def frozen(module):
    """Its parameters without gradients, for losses that pass through it."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def apply(adam, parameters, gradients):
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    adam.step()


class Sac:
    def __init__(self, compiler):
        self.policy, self.critic, self.target = Policy(2), Twin(OBSERVATIONS + ACTIONS), Twin(OBSERVATIONS + ACTIONS)
        self.target.load_state_dict(self.critic.state_dict())
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.policy_parameters, self.critic_parameters = list(self.policy.parameters()), list(self.critic.parameters())
        self.target_parameters = list(self.target.parameters())
        self.frozen = frozen(self.critic)
        self.adams = [torch.optim.Adam(parameters, rate, fused=True) for parameters, rate in
                      ((self.critic_parameters, 1e-3), (self.policy_parameters, 3e-4), ([self.log_alpha], 1e-3))]
        self.losses = compiler(self.losses)

    def draw(self, observation):
        mean, raw = self.policy(observation).chunk(2, -1)
        log_stddev = -5 + 3.5 * (torch.tanh(raw) + 1)
        noise = torch.randn_like(mean)
        before = mean + log_stddev.exp() * noise
        of_tanh = 2 * (math.log(2) - before - torch.nn.functional.softplus(-2 * before))
        return torch.tanh(before), (-0.5 * noise**2 - log_stddev - 0.5 * math.log(2 * math.pi) - of_tanh).sum(-1)

    def losses(self, observation, action, reward, discount, next_observation):
        alpha = self.log_alpha.exp()
        with torch.no_grad():
            next_action, next_log_prob = self.draw(next_observation)
            y = reward + discount * (self.target(next_observation, next_action).amin(0) - alpha * next_log_prob)
        critic_loss = ((self.critic(observation, action) - y) ** 2).mean(1).sum()
        drawn, log_prob = self.draw(observation)
        value = functional_call(self.critic, self.frozen, (observation, drawn)).amin(0)
        policy_loss = (alpha.detach() * log_prob - value).mean()
        return critic_loss, policy_loss, -(alpha * (log_prob.detach() - ACTIONS)).mean()

    def step(self, batch):
        losses = self.losses(*batch)
        trained = (self.critic_parameters, self.policy_parameters, [self.log_alpha])
        gradients = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss, parameters in zip(losses, trained)]
        for adam, parameters, gradient in zip(self.adams, trained, gradients):
            apply(adam, parameters, gradient)
        with torch.no_grad():
            torch._foreach_lerp_(self.target_parameters, self.critic_parameters, TAU)


class Td3:
    def __init__(self, compiler):
        self.policy, self.critic = Policy(1), Twin(OBSERVATIONS + ACTIONS)
        self.target_policy, self.target_critic = Policy(1), Twin(OBSERVATIONS + ACTIONS)
        self.target_policy.load_state_dict(self.policy.state_dict())
        self.target_critic.load_state_dict(self.critic.state_dict())
        self.policy_parameters, self.critic_parameters = list(self.policy.parameters()), list(self.critic.parameters())
        self.online = self.policy_parameters + self.critic_parameters
        self.targets = [*self.target_policy.parameters(), *self.target_critic.parameters()]
        self.frozen = frozen(self.critic)
        self.policy_adam = torch.optim.Adam(self.policy_parameters, 3e-4, fused=True)
        self.critic_adam = torch.optim.Adam(self.critic_parameters, 3e-4, fused=True)
        self.steps = 0
        self.critic_loss, self.policy_loss = compiler(self.critic_loss), compiler(self.policy_loss)

    def critic_loss(self, observation, action, reward, discount, next_observation):
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(action)).clamp_(-0.5, 0.5)
            next_action = (torch.tanh(self.target_policy(next_observation)) + noise).clamp_(-1, 1)
            y = reward + discount * self.target_critic(next_observation, next_action).amin(0)
        return ((self.critic(observation, action) - y) ** 2).mean(1).sum()

    def policy_loss(self, observation):
        action = torch.tanh(self.policy(observation))
        return -functional_call(self.critic, self.frozen, (observation, action))[0].mean()

    def step(self, batch):
        self.steps += 1
        both = self.steps % 2 == 0
        critic_gradients = torch.autograd.grad(self.critic_loss(*batch), self.critic_parameters)
        if both:
            policy_gradients = torch.autograd.grad(self.policy_loss(batch[0]), self.policy_parameters)
        apply(self.critic_adam, self.critic_parameters, critic_gradients)
        if both:
            apply(self.policy_adam, self.policy_parameters, policy_gradients)
            with torch.no_grad():
                torch._foreach_lerp_(self.targets, self.online, TAU)


AGENTS = {"sac": Sac, "td3": Td3}
# Name -> what is done to the losses.
FORMS = {"eager": lambda function: function, "compiled": torch.compile}


def random_batch():
    return (torch.randn(BATCH, OBSERVATIONS), torch.rand(BATCH, ACTIONS) * 2 - 1, torch.rand(BATCH), torch.full((BATCH,), 0.99),
            torch.randn(BATCH, OBSERVATIONS))
