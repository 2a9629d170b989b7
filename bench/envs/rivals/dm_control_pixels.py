"""dm_control's pixels.Wrapper with a numpy stack of three frames, stepped with random actions in a plain loop."""

import collections
import importlib.metadata
import json
import os
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


def main():
  for name, task in ROWS.items():
    print(json.dumps({'name': name, 'value': measure(*task), 'unit': 'steps/s',
                      'version': importlib.metadata.version('dm-control')}))


if __name__ == '__main__':
  main()
