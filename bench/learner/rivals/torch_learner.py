#!/usr/bin/env python3
"""The D4PG learner step in PyTorch: rival of bench/learner/learner_bench.cpp, same networks, losses and clipping.

Eager mode with one fused Adam per network and a scatter projection, which is PyTorch's fastest form here (torch.compile
was measured slower on a CPU step of this size). On AMD processors its MKL takes AVX-512 paths only when told that the
processor is Intel's; bench/run.py preloads that answer, so that the rival runs at its best.
"""
import itertools
import json
import os
import time

import torch

OBS, ACT, BATCH, ATOMS = 17, 6, 256, 51
V_MIN, V_MAX, DISCOUNT, LEARNING_RATE, TARGET_PERIOD = -150.0, 150.0, 0.99**5, 1e-4, 100
SECONDS = 4.0


class LayerNormMlp(torch.nn.Sequential):
    def __init__(self, inputs, sizes, outputs):
        layers = [torch.nn.Linear(inputs, sizes[0]), torch.nn.LayerNorm(sizes[0]), torch.nn.Tanh()]
        for width, size in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(width, size), torch.nn.ELU(inplace=True)]
        super().__init__(*layers, torch.nn.Linear(sizes[-1], outputs))


class Learner:
    def __init__(self):
        def networks():
            return LayerNormMlp(OBS, (256, 256, 256), ACT), LayerNormMlp(OBS + ACT, (512, 512, 256), ATOMS)

        self.policy, self.critic = networks()
        self.target_policy, self.target_critic = networks()
        self.target_policy.load_state_dict(self.policy.state_dict())
        self.target_critic.load_state_dict(self.critic.state_dict())
        self.policy_parameters, self.critic_parameters = list(self.policy.parameters()), list(self.critic.parameters())
        self.policy_adam = torch.optim.Adam(self.policy_parameters, LEARNING_RATE, fused=True)
        self.critic_adam = torch.optim.Adam(self.critic_parameters, LEARNING_RATE, fused=True)
        self.atoms = torch.linspace(V_MIN, V_MAX, ATOMS)
        self.steps = 0

    def project(self, probabilities, reward, discount):
        shifted = (reward[:, None] + DISCOUNT * discount[:, None] * self.atoms).clamp_(V_MIN, V_MAX)
        position = (shifted - V_MIN) * ((ATOMS - 1) / (V_MAX - V_MIN))
        low = position.floor().clamp_(max=ATOMS - 2)
        upper_share = probabilities * (position - low)
        index = low.long()
        targets = torch.zeros_like(probabilities)
        targets.scatter_add_(1, index, probabilities - upper_share)
        return targets.scatter_add_(1, index + 1, upper_share)

    def step(self, batch):
        observation, action, reward, discount, next_observation = batch
        with torch.no_grad():
            next_action = self.target_policy(next_observation).tanh_()
            next_logits = self.target_critic(torch.cat((next_observation, next_action), 1))
            targets = self.project(next_logits.softmax(1), reward, discount)
        logits = self.critic(torch.cat((observation, action), 1))
        critic_loss = -(targets * logits.log_softmax(1)).sum(1).mean()

        policy_action = self.policy(next_observation).tanh()
        leaf = policy_action.detach().requires_grad_()
        q = self.critic(torch.cat((next_observation, leaf), 1)).softmax(1) @ self.atoms
        (dqda,) = torch.autograd.grad(q.sum(), leaf)
        dqda = dqda * (1.0 / dqda.norm(dim=1, keepdim=True).clamp_(min=1.0))

        critic_gradients = torch.autograd.grad(critic_loss, self.critic_parameters)
        policy_gradients = torch.autograd.grad(policy_action, self.policy_parameters, dqda * (-1.0 / BATCH))
        for parameters, gradients, adam in (
            (self.critic_parameters, critic_gradients, self.critic_adam),
            (self.policy_parameters, policy_gradients, self.policy_adam),
        ):
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient
            torch.nn.utils.clip_grad_norm_(parameters, 40.0, foreach=True)
            adam.step()
        self.steps += 1
        if self.steps % TARGET_PERIOD == 0:
            with torch.no_grad():
                torch._foreach_copy_(list(self.target_policy.parameters()), self.policy_parameters)
                torch._foreach_copy_(list(self.target_critic.parameters()), self.critic_parameters)
        return critic_loss


def measure(threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    learner = Learner()
    batch = (torch.randn(BATCH, OBS), torch.rand(BATCH, ACT) * 2 - 1, torch.rand(BATCH), torch.ones(BATCH), torch.randn(BATCH, OBS))
    for _ in range(20):
        learner.step(batch)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(10):
            loss = learner.step(batch)
        steps += 10
    rate = steps / (time.perf_counter() - start)
    assert torch.isfinite(loss)
    return rate


def main():
    cores = sorted(os.sched_getaffinity(0))
    for threads, name in ((1, "d4pg_step_1_thread"), (2, "d4pg_step_2_threads")):
        if len(cores) >= threads:
            print(json.dumps({"name": name, "value": measure(threads), "unit": "steps/s", "version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
