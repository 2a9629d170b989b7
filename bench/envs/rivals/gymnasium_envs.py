"""Gymnasium stepping its classic control with random actions in a plain loop: one thread.

Actions are drawn ahead, and the checks of what an environment returns are off: nothing but the environment is timed.
"""

import importlib.metadata
import json
import time

import gymnasium
import numpy as np

NAMES = ('Acrobot-v1', 'CartPole-v1', 'MountainCar-v0', 'MountainCarContinuous-v0', 'Pendulum-v1')
SECONDS = 1
WARM_UP_STEPS = 500
STEPS_BETWEEN_CLOCKS = 500


def steps_per_second(name):
  env = gymnasium.make(name, disable_env_checker=True)
  random, space = np.random.default_rng(2), env.action_space
  if isinstance(space, gymnasium.spaces.Discrete):
    actions = random.integers(space.n, size=STEPS_BETWEEN_CLOCKS).tolist()
  else:
    actions = list(random.uniform(space.low, space.high, (STEPS_BETWEEN_CLOCKS, *space.shape)).astype(np.float32))
  env.reset(seed=1)

  def play(chosen):
    for action in chosen:
      _, _, terminated, truncated, _ = env.step(action)
      if terminated or truncated:
        env.reset()

  play(actions[:WARM_UP_STEPS])
  steps, start = 0, time.perf_counter()
  while time.perf_counter() - start < SECONDS:
    play(actions)
    steps += STEPS_BETWEEN_CLOCKS
  return steps / (time.perf_counter() - start)


def main():
  for name in NAMES:
    print(json.dumps({'name': f'{name}_1_thread', 'value': steps_per_second(name), 'unit': 'steps/s',
                      'version': importlib.metadata.version('gymnasium')}))


if __name__ == '__main__':
  main()
