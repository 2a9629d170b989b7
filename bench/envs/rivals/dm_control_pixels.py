"""dm_control's pixels.Wrapper with a numpy stack of three frames, stepped with random actions in plain loops.

Rows of one environment: one process. Rows of two threads: two processes, with all of Mesa's threads or with none beside
their own; the better of the two counts.
"""

import collections
import importlib.metadata
import json
import os
import subprocess
import sys
import time

os.environ['MUJOCO_GL'] = 'egl'  # as Troupe draws

from dm_control import suite  # pylint: disable=g-import-not-at-top
from dm_control.suite.wrappers import pixels
import numpy as np

ROWS = {'cheetah_run': ('cheetah', 'run'), 'cartpole_swingup': ('cartpole', 'swingup')}
FRAMES = 3
SECONDS = 4
WARM_UP_STEPS = 20
STEPS_BETWEEN_CLOCKS = 5


class Stacked:
  """The last frames along the channels, as in DrQ-v2's FrameStackWrapper."""

  def __init__(self, env):
    self._env = env
    self._frames = collections.deque(maxlen=FRAMES)

  def step(self, action):
    """Starts the next episode by itself, as dm_env does."""
    step = self._env.step(action)
    frame = step.observation['pixels']
    self._frames.extend([frame] * FRAMES if step.first() else [frame])
    return np.concatenate(self._frames, axis=2)


def measure(domain, task):
  """Steps per second of one environment."""
  env = suite.load(domain, task, task_kwargs={'random': 1})
  spec = env.action_spec()
  stacked = Stacked(pixels.Wrapper(env, render_kwargs={'height': 84, 'width': 84, 'camera_id': 0}))
  random = np.random.RandomState(2)

  def play(steps):
    for _ in range(steps):
      observation = stacked.step(random.uniform(spec.minimum, spec.maximum))
    assert observation.shape == (84, 84, 3 * FRAMES), observation.shape

  play(WARM_UP_STEPS)
  steps, start = 0, time.perf_counter()
  while time.perf_counter() - start < SECONDS:
    play(STEPS_BETWEEN_CLOCKS)
    steps += STEPS_BETWEEN_CLOCKS
  return steps / (time.perf_counter() - start)


def measure_together(processes, task, environment):
  """Steps per second of as many environments, each in a process of its own."""
  running = [subprocess.Popen([sys.executable, __file__, *task], env=os.environ | environment, stdout=subprocess.PIPE)
             for _ in range(processes)]
  said = [process.communicate()[0] for process in running]
  if any(process.returncode != 0 for process in running):
    sys.exit(f'{task}: a process of {processes} failed')
  return sum(float(text.splitlines()[-1]) for text in said)


def main():
  if sys.argv[1:]:
    print(measure(*sys.argv[1:]))
    return
  version = importlib.metadata.version('dm-control')
  for name, task in ROWS.items():
    rates = {name: measure_together(1, task, {}),
             f'{name}_2_threads': max(measure_together(2, task, own) for own in ({}, {'LP_NUM_THREADS': '0'}))}
    for row, rate in rates.items():
      print(json.dumps({'name': row, 'value': rate, 'unit': 'steps/s', 'version': version}))


if __name__ == '__main__':
  main()
