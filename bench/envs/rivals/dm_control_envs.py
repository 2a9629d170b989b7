"""dm_control stepping tasks of the Control Suite with random actions in a plain loop: one thread."""

import importlib.metadata
import json
import os
import time

os.environ['MUJOCO_GL'] = 'disable'  # nothing is drawn

from dm_control import suite  # pylint: disable=g-import-not-at-top
import numpy as np

TASKS = ('cheetah-run', 'humanoid-run', 'dog-run', 'quadruped-run')
SECONDS = 4
WARM_UP_STEPS = 500
STEPS_BETWEEN_CLOCKS = 100


def steps_per_second(task):
  env = suite.load(*task.split('-'), task_kwargs={'random': 1})
  spec = env.action_spec()
  random = np.random.RandomState(2)

  def play(steps):
    for _ in range(steps):
      env.step(random.uniform(spec.minimum, spec.maximum))  # starts the next episode by itself

  play(WARM_UP_STEPS)
  steps, start = 0, time.perf_counter()
  while time.perf_counter() - start < SECONDS:
    play(STEPS_BETWEEN_CLOCKS)
    steps += STEPS_BETWEEN_CLOCKS
  return steps / (time.perf_counter() - start)


def main():
  for task in TASKS:
    print(json.dumps({'name': f"{task.replace('-', '_')}_1_thread", 'value': steps_per_second(task), 'unit': 'steps/s',
                      'version': importlib.metadata.version('dm-control')}), flush=True)


if __name__ == '__main__':
  main()
