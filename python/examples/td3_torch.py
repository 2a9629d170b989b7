"""TD3 (Fujimoto et al. 2018) in PyTorch, one file in the manner of CleanRL's td3_continuous_action.py, that learns from
Troupe's native env actors and replay. What differs from such a file: no environment, no replay buffer and no loop, as a run
has them; the policy's weights are handed over by the names of `agent.policy`.

    pip install torch
    python td3_torch.py train cheetah_run_td3 --set learner.kind=td3_torch
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn

import troupe


class QNetwork(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(inputs, 256), nn.Linear(256, 256), nn.Linear(256, 1)

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x))).squeeze(1)


class Actor(nn.Module):
    def __init__(self, inputs, actions):
        super().__init__()
        self.fc1, self.fc2, self.fc_mu = nn.Linear(inputs, 256), nn.Linear(256, 256), nn.Linear(256, actions)

    def forward(self, x):
        return torch.tanh(self.fc_mu(F.relu(self.fc2(F.relu(self.fc1(x))))))  # actions are -1 .. 1, as dm_control's


class TD3(troupe.Learner):
    """TD3 in PyTorch"""

    keys = {
        "rate": troupe.Key(3e-4, "Learning rate of all networks", min=0),
        "tau": troupe.Key(0.005, "Part of the online networks in the targets, in each update of the policy", min=0, max=1),
        "policy_frequency": troupe.Key(2, "Steps of the critics to one of the policy", min=1),
        "policy_noise": troupe.Key(0.2, "Deviation of the noise on the target's actions", min=0),
        "noise_clip": troupe.Key(0.5, "Its bound", min=0),
    }

    def __init__(self, keys, agent):
        self.__dict__.update(keys)
        torch.manual_seed(agent.seed % 2**63)
        observation, action = agent.batch["observation"][1][0], agent.batch["action"][1][0]
        self.names = list(agent.policy)  # weight and bias of each layer, from the first to the last
        self.actor = Actor(observation, action)
        self.qf1, self.qf2 = QNetwork(observation + action), QNetwork(observation + action)
        self.target_actor, self.qf1_target, self.qf2_target = map(copy.deepcopy, (self.actor, self.qf1, self.qf2))
        self.q_optimizer = torch.optim.Adam([*self.qf1.parameters(), *self.qf2.parameters()], lr=self.rate, fused=True)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=self.rate, fused=True)
        self.steps, self.actor_loss = 0, 0.0

    def learn(self, batch):
        data = {name: torch.from_numpy(column) for name, column in batch.items()}
        with torch.no_grad():
            noise = (torch.randn_like(data["action"]) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            next_action = (self.target_actor(data["next_observation"]) + noise).clamp(-1, 1)
            q = torch.min(self.qf1_target(data["next_observation"], next_action), self.qf2_target(data["next_observation"], next_action))
            y = data["reward"] + data["discount"] * q
        q1, q2 = self.qf1(data["observation"], data["action"]), self.qf2(data["observation"], data["action"])
        loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.q_optimizer.zero_grad()
        loss.backward()
        self.q_optimizer.step()
        self.steps += 1
        if self.steps % self.policy_frequency == 0:
            actor_loss = -self.qf1(data["observation"], self.actor(data["observation"])).mean()
            self.actor_optimizer.zero_grad()
            actor_loss.backward(inputs=list(self.actor.parameters()))  # and no gradients of the critic
            self.actor_optimizer.step()
            self.actor_loss = actor_loss.item()
            for online, target in ((self.actor, self.target_actor), (self.qf1, self.qf1_target), (self.qf2, self.qf2_target)):
                with torch.no_grad():
                    for of, to in zip(online.parameters(), target.parameters()):
                        to.lerp_(of, self.tau)
        return {"critic_loss": loss.item(), "policy_loss": self.actor_loss, "q_mean": q1.mean().item()}

    def policy(self):
        tensors = [t.detach() for layer in (self.actor.fc1, self.actor.fc2, self.actor.fc_mu) for t in (layer.weight.T, layer.bias)]
        return dict(zip(self.names, tensors))

    def save(self):
        networks = {"actor": self.actor, "qf1": self.qf1, "qf2": self.qf2, "target_actor": self.target_actor, "qf1_target": self.qf1_target,
                    "qf2_target": self.qf2_target}
        return {"steps": self.steps} | {f"{of}/{name}": tensor for of, network in networks.items() for name, tensor in network.state_dict().items()}

    def restore(self, state):
        self.steps = state["steps"]
        for of in ("actor", "qf1", "qf2", "target_actor", "qf1_target", "qf2_target"):
            tensors = {name.split("/", 1)[1]: torch.from_numpy(array) for name, array in state.items() if name.startswith(of + "/")}
            getattr(self, of).load_state_dict(tensors)


if __name__ == "__main__":
    raise SystemExit(troupe.main(learners={"td3_torch": TD3}))
