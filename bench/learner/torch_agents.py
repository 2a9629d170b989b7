"""Learner steps of SAC, TD3, DMPO, FlashSAC and DrQ-v2 in PyTorch, for the rivals of the agents bench: the networks, losses and order
of algorithms/sac, td3, dmpo, flashsac and drqv2, whose gradients are all taken at the same parameters.

Written for speed: both critics are one batched network, Adam is fused, targets move in one pass over all parameters, and
gradients are taken for those parameters alone that a loss trains.
"""
import math

import torch
from torch.func import functional_call

OBSERVATIONS, ACTIONS, BATCH, WIDTH = 17, 6, 256, 256
ATOMS = 101  # FlashSAC's
TAU = 0.005


class Twin(torch.nn.Module):
    """Two multi-layer perceptrons of the same input, as one batched product for each layer."""

    def __init__(self, inputs, hidden=WIDTH):
        super().__init__()
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for width, size in ((inputs, hidden), (hidden, hidden), (hidden, 1)):
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


def layer_norm_mlp(inputs, sizes):
    layers = [torch.nn.Linear(inputs, sizes[0]), torch.nn.LayerNorm(sizes[0]), torch.nn.Tanh()]
    for width, size in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(width, size), torch.nn.ELU()]
    return layers


class Dmpo:
    """Acme's, with its 20 sampled actions and 51 atoms; the limits are those of algorithms/dmpo."""

    samples, atoms, target_period = 20, torch.linspace(-150, 150, 51), 100

    def __init__(self, compiler):
        def policy():
            return torch.nn.Sequential(*layer_norm_mlp(OBSERVATIONS, (256, 256, 256)), torch.nn.Linear(256, 2 * ACTIONS))

        def critic():
            return torch.nn.Sequential(*layer_norm_mlp(OBSERVATIONS + ACTIONS, (512, 512, 256)), torch.nn.Linear(256, len(self.atoms)))

        self.policy, self.critic, self.target_policy, self.target_critic = policy(), critic(), policy(), critic()
        duals = torch.cat([torch.full((2,), 10.0), torch.full((ACTIONS,), 10.0), torch.full((ACTIONS,), 1000.0)])
        self.duals = duals.requires_grad_()
        self.online, self.targets = [self.policy, self.critic], [self.target_policy, self.target_critic]
        self.parameters = [list(self.critic.parameters()), list(self.policy.parameters()), [self.duals]]
        self.adams = [torch.optim.Adam(parameters, rate, fused=True) for parameters, rate in zip(self.parameters, (1e-4, 1e-4, 1e-2))]
        self.steps, self.losses = 0, compiler(self.losses)

    @staticmethod
    def distribution(policy, observation):
        mean, raw = policy(observation).chunk(2, -1)
        return mean, torch.nn.functional.softplus(raw) * (0.7 / math.log(2)) + 1e-6

    @staticmethod
    def log_prob(actions, mean, stddev):
        return (-0.5 * ((actions - mean) / stddev) ** 2 - stddev.log() - 0.5 * math.log(2 * math.pi)).sum(-1)

    def weigh(self, scores, temperature, limit):
        tempered = scores / temperature
        loss = temperature * (limit + torch.logsumexp(tempered, 0).mean() - math.log(self.samples))
        return torch.softmax(tempered, 0).detach(), loss

    def losses(self, observation, action, reward, discount, next_observation):
        with torch.no_grad():
            target_mean, target_stddev = self.distribution(self.target_policy, next_observation)
            actions = target_mean + target_stddev * torch.randn(self.samples, *target_mean.shape)
            states = next_observation.expand(self.samples, -1, -1)
            log_probs = torch.log_softmax(self.target_critic(torch.cat([states, actions.clamp(-1, 1)], -1)), -1)
            q = (log_probs.exp() * self.atoms).sum(-1)
            following = torch.softmax(torch.logsumexp(log_probs, 0), -1)
            low, high, last = self.atoms[0], self.atoms[-1], len(self.atoms) - 1
            at = ((reward[:, None] + discount[:, None] * self.atoms).clamp(low, high) - low) * (last / (high - low))
            lower = at.floor().long()
            target = torch.zeros_like(following).scatter_add_(1, lower, following * (1 - (at - lower)))
            target.scatter_add_(1, (lower + 1).clamp(max=last), following * (at - lower))
            cost = -(actions - actions.clamp(-1, 1)).norm(dim=-1)
        critic_loss = -(target * torch.log_softmax(self.critic(torch.cat([observation, action.clamp(-1, 1)], -1)), -1)).sum(-1).mean()
        eta, penalty_eta, alpha_mean, alpha_stddev = (torch.nn.functional.softplus(self.duals) + 1e-8).split([1, 1, ACTIONS, ACTIONS])
        weights, dual_loss = self.weigh(q, eta, 0.1)
        penalty_weights, penalty_loss = self.weigh(cost, penalty_eta, 0.001)
        weights, dual_loss = weights + penalty_weights, (dual_loss + penalty_loss).sum()
        mean, stddev = self.distribution(self.policy, next_observation)
        policy_loss = 0
        for of_mean, of_stddev, alpha, limit in ((mean, target_stddev, alpha_mean, 2.5e-3), (target_mean, stddev, alpha_stddev, 1e-6)):
            ratio, shift = (target_stddev / of_stddev) ** 2, ((target_mean - of_mean) / of_stddev) ** 2
            kl = (0.5 * (ratio + shift - 1 - ratio.log())).mean(0)
            policy_loss = policy_loss - (weights * self.log_prob(actions, of_mean, of_stddev)).sum(0).mean() + (alpha.detach() * kl).sum()
            dual_loss = dual_loss + (alpha * (limit - kl.detach())).sum()
        return critic_loss, policy_loss, dual_loss

    def step(self, batch):
        if self.steps % self.target_period == 0:
            for target, online in zip(self.targets, self.online):
                target.load_state_dict(online.state_dict())
        self.steps += 1
        losses = self.losses(*batch)
        gradients = [torch.autograd.grad(loss, of, retain_graph=True) for loss, of in zip(losses, self.parameters)]
        for adam, of, gradient in zip(self.adams, self.parameters, gradients):
            if of[0] is not self.duals:
                norm = torch._foreach_norm(gradient)
                factor = (40 / torch.stack(norm).norm()).clamp(max=1)
                gradient = torch._foreach_mul(gradient, factor)
            apply(adam, of, gradient)
        with torch.no_grad():
            self.duals.clamp_(min=-18)


class BatchNorm(torch.nn.Module):
    """Of `copies` networks at once: x is [copies, rows, width]."""

    def __init__(self, copies, width):
        super().__init__()
        self.gain, self.offset = torch.nn.Parameter(torch.ones(copies, 1, width)), torch.nn.Parameter(torch.zeros(copies, 1, width))
        self.register_buffer("mean", torch.zeros(copies, 1, width))
        self.register_buffer("variance", torch.ones(copies, 1, width))

    def forward(self, x, training):
        mean, variance = self.mean, self.variance
        if training:
            variance, mean = torch.var_mean(x, 1, correction=0, keepdim=True)
            with torch.no_grad():
                rows = x.shape[1]
                self.mean.lerp_(mean, 0.01)
                self.variance.lerp_(variance * (rows / (rows - 1)), 0.01)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.gain + self.offset

    @torch.no_grad()
    def project(self):
        squares = (self.gain**2 + self.offset**2).sum(-1, keepdim=True)
        factor = math.sqrt(self.gain.shape[-1]) * torch.rsqrt(squares)
        self.gain.mul_(factor)
        self.offset.mul_(factor)


class UnitLinear(torch.nn.Module):
    def __init__(self, copies, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.nn.functional.normalize(torch.randn(copies, inputs, outputs), dim=1))

    def forward(self, x):
        return torch.bmm(x, self.weight)

    @torch.no_grad()
    def project(self):
        self.weight.copy_(torch.nn.functional.normalize(self.weight, dim=1))


class Residual(torch.nn.Module):
    """FlashSAC's networks, `copies` of them side by side: two blocks, then `outputs` columns."""

    def __init__(self, copies, inputs, width, outputs):
        super().__init__()
        self.copies, self.norm, self.embed = copies, BatchNorm(copies, inputs), UnitLinear(copies, inputs, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.ModuleList([UnitLinear(copies, width, 4 * width), BatchNorm(copies, 4 * width),
                                 UnitLinear(copies, 4 * width, width), BatchNorm(copies, width)]) for _ in range(2))
        self.gain = torch.nn.Parameter(torch.ones(copies, 1, width))
        self.head, self.bias = UnitLinear(copies, width, outputs), torch.nn.Parameter(torch.zeros(copies, 1, outputs))
        self.parts = [module for module in self.modules() if hasattr(module, "project") and module is not self]

    def forward(self, x, training):
        x = self.embed(self.norm(x.expand(self.copies, -1, -1), training))
        for wide, wide_norm, narrow, narrow_norm in self.blocks:
            x = x + torch.relu(narrow_norm(narrow(torch.relu(wide_norm(wide(x), training))), training))
        x = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.gain
        return self.head(x) + self.bias

    @torch.no_grad()
    def project(self):
        for part in self.parts:
            part.project()
        self.gain.mul_(math.sqrt(self.gain.shape[-1]) * torch.rsqrt((self.gain**2).sum(-1, keepdim=True)))


class FlashSac:
    batch = 512

    def __init__(self, compiler):
        self.policy = Residual(1, OBSERVATIONS, 128, 2 * ACTIONS)
        self.critic, self.target = (Residual(2, OBSERVATIONS + ACTIONS, 256, ATOMS) for _ in range(2))
        self.target.load_state_dict(self.critic.state_dict())
        self.log_alpha = torch.full((), math.log(0.01), requires_grad=True)
        self.policy_parameters, self.critic_parameters = list(self.policy.parameters()), list(self.critic.parameters())
        self.target_parameters = list(self.target.parameters())
        self.frozen = frozen(self.critic)
        self.adams = [torch.optim.Adam(parameters, 3e-4, fused=True) for parameters in
                      (self.critic_parameters, self.policy_parameters, [self.log_alpha])]
        self.atoms = torch.linspace(-5, 5, ATOMS)
        self.moments, self.peak, self.steps = torch.tensor([0.0, 1.0]), torch.zeros(()), 0
        self.critic_loss, self.policy_loss = compiler(self.critic_loss), compiler(self.policy_loss)
        self.project = compiler(self.project)

    def project(self):
        self.critic.project()
        if self.steps % 2 == 0:
            self.policy.project()

    def draw(self, rows, training, count):
        mean, raw = self.policy(rows, training)[0, :count].chunk(2, -1)
        log_stddev = -10 + 6 * (torch.tanh(raw) + 1)
        noise = torch.randn_like(mean)
        before = mean + log_stddev.exp() * noise
        of_tanh = 2 * (math.log(2) - before - torch.nn.functional.softplus(-2 * before))
        return torch.tanh(before), (-0.5 * noise**2 - log_stddev - 0.5 * math.log(2 * math.pi) - of_tanh).sum(-1)

    def mean_of(self, logits):
        return (torch.softmax(logits, -1) * self.atoms).sum(-1)

    def critic_loss(self, observation, action, reward, discount, next_observation, returns):
        count = len(reward)
        with torch.no_grad():
            self.moments.lerp_(torch.stack([returns.mean(), returns.var(correction=0)]), 0.001)
            self.peak.copy_(torch.maximum(self.peak, returns.abs().max()))
            reward = reward / torch.maximum((self.moments[1] + 1e-8).sqrt(), self.peak / 5)
            next_action, next_log_prob = self.draw(next_observation, False, count)
            rows = torch.cat([torch.cat([observation, next_observation]), torch.cat([action, next_action])], -1)
            after = self.target(rows, True)[:, count:]
            values = self.mean_of(after)
            chosen = torch.softmax(torch.where((values[0] <= values[1])[:, None], after[0], after[1]), -1)
            places = reward[:, None] + discount[:, None] * (self.atoms - self.log_alpha.exp() * next_log_prob[:, None])
            at = (places.clamp(-5, 5) + 5) / (10 / (ATOMS - 1))
            lower = at.floor().long()
            target = torch.zeros_like(chosen).scatter_add_(1, lower, chosen * (1 - (at - lower)))
            target.scatter_add_(1, (lower + 1).clamp(max=ATOMS - 1), chosen * (at - lower))
        return -(target * torch.log_softmax(self.critic(rows, True)[:, :count], -1)).sum(-1).mean()

    def policy_loss(self, observation, next_observation):
        action, log_prob = self.draw(torch.cat([observation, next_observation]), True, len(observation))
        logits = functional_call(self.critic, self.frozen, (torch.cat([observation, action], -1), False))
        alpha = self.log_alpha.exp()
        entropy = 0.5 * math.log(2 * math.pi * math.e * 0.15**2) * ACTIONS
        value = self.mean_of(logits).amin(0)
        return (alpha.detach() * log_prob - value).mean(), -(alpha * (log_prob.detach() + entropy)).mean()

    def step(self, batch):
        self.steps += 1
        both = self.steps % 2 == 0
        if both:
            # Neither loss depends on what the other one trains; compiled, they share a backward pass that can be taken once.
            losses = self.policy_loss(batch[0], batch[4])
            *policy_gradients, temperature_gradient = torch.autograd.grad(sum(losses), [*self.policy_parameters, self.log_alpha])
        critic_gradients = torch.autograd.grad(self.critic_loss(*batch), self.critic_parameters)
        apply(self.adams[0], self.critic_parameters, critic_gradients)
        if both:
            apply(self.adams[1], self.policy_parameters, policy_gradients)
            apply(self.adams[2], [self.log_alpha], [temperature_gradient])
        self.project()
        with torch.no_grad():
            torch._foreach_lerp_(self.target_parameters, self.critic_parameters, 0.01)


class Trunk(torch.nn.Sequential):
    """What each network of DrQ-v2 makes of the encoder's output."""

    def __init__(self):
        super().__init__(torch.nn.Linear(35 * 35 * 32, 50), torch.nn.LayerNorm(50), torch.nn.Tanh())


class DrqPolicy(torch.nn.Sequential):
    def __init__(self):
        super().__init__(Trunk(), torch.nn.Linear(50, 1024), torch.nn.ReLU(inplace=True), torch.nn.Linear(1024, 1024),
                         torch.nn.ReLU(inplace=True), torch.nn.Linear(1024, ACTIONS), torch.nn.Tanh())


class DrqCritic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.heads = Trunk(), Twin(50 + ACTIONS, 1024)

    def forward(self, seen, action):
        return self.heads(self.trunk(seen), action)


class DrqV2:
    """Images of 84 x 84 x 9, moved by whole pixels: a crop, which is faster than the published grid_sample."""

    side, channels, padding = 84, 9, 4

    def __init__(self, compiler):
        layers, inputs = [], self.channels
        for stride in (2, 1, 1, 1):
            layers += [torch.nn.Conv2d(inputs, 32, 3, stride), torch.nn.ReLU(inplace=True)]
            inputs = 32
        self.encoder = torch.nn.Sequential(*layers, torch.nn.Flatten()).to(memory_format=torch.channels_last)
        self.policy, self.critic, self.target = DrqPolicy(), DrqCritic(), DrqCritic()
        self.target.load_state_dict(self.critic.state_dict())
        self.critic_parameters, self.target_parameters = list(self.critic.parameters()), list(self.target.parameters())
        self.parameters = [list(self.encoder.parameters()), self.critic_parameters, list(self.policy.parameters())]
        self.frozen = frozen(self.critic)
        self.adams = [torch.optim.Adam(parameters, 1e-4, fused=True) for parameters in self.parameters]
        self.losses = compiler(self.losses)

    def moved(self, images):
        rows, padding = len(images), self.padding
        padded = torch.nn.functional.pad(images.float(), (padding,) * 4, mode="replicate")
        places = torch.randint(0, 2 * padding + 1, (2, rows, 1)) + torch.arange(self.side)
        at = padded.permute(0, 2, 3, 1)[torch.arange(rows)[:, None, None], places[0][:, :, None], places[1][:, None, :]]
        return at.permute(0, 3, 1, 2) / 255 - 0.5

    @staticmethod
    def noisy(action, deviation=0.5):
        drawn = action + (deviation * torch.randn_like(action)).clamp(-0.3, 0.3)
        return drawn - drawn.detach() + drawn.detach().clamp(-1 + 1e-6, 1 - 1e-6)

    def losses(self, pixels, action, reward, discount, next_pixels):
        with torch.no_grad():
            after = self.encoder(self.moved(next_pixels))
            y = reward + discount * self.target(after, self.noisy(self.policy(after))).amin(0)
        seen = self.encoder(self.moved(pixels))
        critic_loss = ((self.critic(seen, action) - y) ** 2).mean(1).sum()
        fixed = seen.detach()
        values = functional_call(self.critic, self.frozen, (fixed, self.noisy(self.policy(fixed))))
        return critic_loss, -values.amin(0).mean()

    def step(self, batch):
        critic_loss, policy_loss = self.losses(*batch)
        of_critic = torch.autograd.grad(critic_loss, self.parameters[0] + self.parameters[1], retain_graph=True)
        of_policy = torch.autograd.grad(policy_loss, self.parameters[2])
        convolutions = len(self.parameters[0])
        for adam, parameters, gradient in zip(self.adams, self.parameters, (of_critic[:convolutions], of_critic[convolutions:], of_policy)):
            apply(adam, parameters, gradient)
        with torch.no_grad():
            torch._foreach_lerp_(self.target_parameters, self.critic_parameters, 0.01)


AGENTS = {"sac": Sac, "td3": Td3, "dmpo": Dmpo, "flashsac": FlashSac, "drqv2": DrqV2}
# Name -> what is done to the losses.
FORMS = {"eager": lambda function: function, "compiled": torch.compile}


def random_batch(agent):
    """Of its columns: DrQ-v2 sees images, FlashSAC's rows have returns."""
    rows = getattr(agent, "batch", BATCH)

    def seen():
        if agent is not DrqV2:
            return torch.randn(rows, OBSERVATIONS)
        images = torch.randint(0, 256, (rows, DrqV2.channels, DrqV2.side, DrqV2.side), dtype=torch.uint8)
        return images.to(memory_format=torch.channels_last)

    columns = seen(), torch.rand(rows, ACTIONS) * 2 - 1, torch.rand(rows), torch.full((rows,), 0.99), seen()
    return (*columns, torch.rand(rows)) if agent is FlashSac else columns
