"""dm_control stepping cheetah-run with random actions in a plain loop: one thread."""

import importlib.metadata
import json
import os
import time

os.environ['MUJOCO_GL'] = 'disable'  # nothing is drawn

from dm_control import suite  # pylint: disable=g-import-not-at-top
import numpy as np

SECONDS = 4
WARM_UP_STEPS = 500
STEPS_BETWEEN_CLOCKS = 100


def main():
  env = suite.load('cheetah', 'run', task_kwargs={'random': 1})
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
  rate = steps / (time.perf_counter() - start)
  print(json.dumps({'name': 'cheetah_run_1_thread', 'value': rate, 'unit': 'steps/s',
                    'version': importlib.metadata.version('dm-control')}))


if __name__ == '__main__':
  main()
