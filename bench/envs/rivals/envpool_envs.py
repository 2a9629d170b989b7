"""EnvPool stepping CheetahRun asynchronously on two threads with random actions: its fastest mode.

The best of several pool shapes counts, each timed in this same run, so that the figure is EnvPool tuned for the machine.
"""

import importlib.metadata
import json
import time

import envpool
import numpy as np

THREADS = 2
SHAPES = ((16, 8), (64, 32), (64, 16), (128, 64), (256, 64))  # (environments, batch size)
SECONDS = 2.5
WARM_UP_BATCHES = 50


def steps_per_second(num_envs, batch_size):
  pool = envpool.make_dm('CheetahRun-v1', num_envs=num_envs, batch_size=batch_size, num_threads=THREADS, seed=1)
  random = np.random.default_rng(2)
  size = pool.action_spec().shape[-1]
  pool.async_reset()

  def play(batches):
    for _ in range(batches):
      ids = pool.recv().observation.env_id
      pool.send(random.uniform(-1, 1, (len(ids), size)), ids)

  play(WARM_UP_BATCHES)
  steps, start = 0, time.perf_counter()
  while time.perf_counter() - start < SECONDS:
    play(8)
    steps += 8 * batch_size
  rate = steps / (time.perf_counter() - start)
  pool.close()
  return rate


def main():
  rate = max(steps_per_second(*shape) for shape in SHAPES)
  print(json.dumps({'name': 'cheetah_run_2_threads', 'value': rate, 'unit': 'steps/s',
                    'version': importlib.metadata.version('envpool')}))


if __name__ == '__main__':
  main()
