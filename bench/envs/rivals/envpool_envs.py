"""EnvPool stepping tasks of the Control Suite asynchronously on two threads with random actions: its fastest mode.

The best of several pool shapes counts, each timed in this same run, so that the figure is EnvPool tuned for the machine.
"""

import importlib.metadata
import json
import re
import time

import envpool
import numpy as np

THREADS = 2
SMALL = ((4, 2), (8, 4), (16, 8))  # (environments, batch size); an environment of the dog takes a second to make
SHAPES = {
    'CheetahRun-v1': ((16, 8), (64, 32), (64, 16), (128, 64), (256, 64)),
    'HumanoidRun-v1': SMALL + ((64, 32),),
    'DogRun-v1': SMALL,
    'QuadrupedRun-v1': SMALL + ((64, 32),),
}
SECONDS = 2.0
WARM_UP_BATCHES = 50


def steps_per_second(task, num_envs, batch_size):
  pool = envpool.make_dm(task, num_envs=num_envs, batch_size=batch_size, num_threads=THREADS, seed=1)
  random = np.random.default_rng(2)
  action = pool.action_spec()
  pool.async_reset()

  def play(batches):
    for _ in range(batches):
      ids = pool.recv().observation.env_id
      pool.send(random.uniform(action.minimum, action.maximum, (len(ids), action.shape[-1])), ids)

  play(WARM_UP_BATCHES)
  steps, start = 0, time.perf_counter()
  while time.perf_counter() - start < SECONDS:
    play(8)
    steps += 8 * batch_size
  rate = steps / (time.perf_counter() - start)
  pool.close()
  return rate


def main():
  for task, shapes in SHAPES.items():
    rate = max(steps_per_second(task, *shape) for shape in shapes)
    row = re.sub('(?<=[a-z])([A-Z])', r'_\1', task.removesuffix('-v1')).lower()
    print(json.dumps({'name': f'{row}_2_threads', 'value': rate, 'unit': 'steps/s',
                      'version': importlib.metadata.version('envpool')}), flush=True)


if __name__ == '__main__':
  main()
