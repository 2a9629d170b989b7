"""D4PG from images in PyTorch: rival of bench/learner/pixels_gpu_bench.cpp, same networks, losses and clipping.

DrQ-v2's arrangement: the critic owns the torso of convolutions, the policy sees what comes out of it and passes no
gradient back, and its loss is taken at the same images; each has a linear layer, layer norm and tanh of its own.
"""
import torch
from torch import nn
from torch.func import functional_call

import gpu_sizes as sizes
import torch_d4pg


def trunk():
    side = (sizes.SIDE - 3) // 2 + 1 - 2 * (sizes.CONVOLUTIONS - 1)
    return nn.Sequential(nn.Flatten(), nn.Linear(side * side * sizes.FILTERS, sizes.FEATURES),
                         nn.LayerNorm(sizes.FEATURES), nn.Tanh())


class Critic(nn.Module):
    def __init__(self, options):
        super().__init__()
        layers, inputs = [], sizes.CHANNELS
        for layer in range(sizes.CONVOLUTIONS):
            layers += [nn.Conv2d(inputs, sizes.FILTERS, 3, 2 if layer == 0 else 1), nn.ReLU(inplace=True)]
            inputs = sizes.FILTERS
        self.torso, self.trunk, self.head = nn.Sequential(*layers), trunk(), torch_d4pg.make_critic(options)

    def forward(self, seen, action):
        return self.head(torch.cat((self.trunk(seen), action), 1))


class Learner(torch_d4pg.Learner):
    """options.observation_size is that of the trunk's features. Images are [batch, channels, side, side]."""

    def networks(self):
        networks = nn.Sequential(trunk(), torch_d4pg.make_policy(self.options)), Critic(self.options)
        return [network.to(memory_format=torch.channels_last) for network in networks]

    def criticise(self, batch):
        observation, action, reward, discount, next_observation = batch
        with torch.no_grad():
            seen = self.target_critic.torso(next_observation)
            next_logits = self.target_critic(seen, self.target_policy(seen))
            targets = self.project(next_logits.softmax(1), reward, discount)
        seen = self.critic.torso(observation)
        td_error = -(targets * self.critic(seen, action).log_softmax(1)).sum(1)
        return td_error, td_error.mean(), seen.detach()

    def value(self, seen, action):
        return (functional_call(self.critic, self.frozen, (seen, action)).softmax(1) @ self.atoms).sum()
