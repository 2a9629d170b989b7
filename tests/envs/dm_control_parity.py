"""Compares Troupe's environments with dm_control step by step.

  dm_control_parity.py states ENV_TRACE NAME   two episodes for each of several seeds
  dm_control_parity.py pixels ENV_TRACE NAME   frames of 84 x 84

Both sides play the same actions, some of them beyond the bounds. State (qpos, qvel), step types and discounts have to
agree to the bit, rewards to 1e-15. Observations have to agree to the bit except for the columns in OBSERVATION_ULPS.
"""

import os
import subprocess
import sys

os.environ.setdefault('MUJOCO_GL', 'egl')

from dm_control import suite  # pylint: disable=g-import-not-at-top
import numpy as np

SEEDS = (0, 1, 42, 4294967295)
STEPS = 2001  # two episodes of 1,000 and the reset between them
FRAME = (84, 84)
FRAMES = 6
REWARD_TOLERANCE = 1e-15
# numpy computes log1p with its own vector code where the CPU allows, which differs from the C library's in the last
# bit; finger's touch is log1p(sensor). All other columns are exact.
OBSERVATION_ULPS = {('finger-spin', 'touch'): 2}


def load(name, seed):
  domain, task = name.split('-')
  return suite.load(domain, task, task_kwargs={'random': seed})


def play(name, seed, steps, frame=None):
  """Plays random actions; returns (columns of the observation, rows as env_trace dumps them, actions, frames)."""
  env = load(name, seed)
  spec = env.action_spec()
  actions = np.random.RandomState(seed).uniform(1.2 * spec.minimum, 1.2 * spec.maximum, (steps,) + spec.shape)
  rows, frames, columns = [], [], None
  for index in range(-1, steps):
    if index >= 0 and name == 'pendulum-swingup':
      # Random torques hardly ever bring it up, where its rewards are; the full torque along the motion does.
      actions[index] = np.copysign(1, env.physics.data.qvel)
    step = env.reset() if index < 0 else env.step(actions[index])
    columns = [key for key, value in step.observation.items() for _ in range(np.size(value))]
    data = env.physics.data
    rows.append(np.concatenate([
        [float(step.step_type), 0.0 if step.first() else step.reward, 1.0 if step.first() else step.discount],
        *[np.ravel(value) for value in step.observation.values()], data.qpos, data.qvel]))
    if frame:
      frames.append(env.physics.render(*frame, camera_id=0))
  return columns, np.array(rows), actions, np.array(frames)


def trace(program, name, seed, actions, width, frame=()):
  """Runs env_trace; returns (rows of `width` numbers, frames)."""
  result = subprocess.run([program, name, str(seed), *map(str, frame)], input=actions.tobytes(), capture_output=True,
                          timeout=300, check=False)
  if result.returncode != 0:
    sys.exit(f'{name}: {result.stderr.decode()}')
  pixel_bytes = frame[0] * frame[1] * 3 if frame else 0
  table = np.frombuffer(result.stdout, np.uint8).reshape(len(actions) + 1, width * 8 + pixel_bytes)
  rows = np.frombuffer(table[:, :width * 8].tobytes(), np.float64).reshape(-1, width)
  return rows, table[:, width * 8:].reshape(-1, *frame, 3) if frame else None


def compare_states(program, name, seed):
  columns, expected, actions, _ = play(name, seed, STEPS)
  got, _ = trace(program, name, seed, actions, expected.shape[1])
  labels = ['step type', 'reward', 'discount', *columns]
  labels += ['state'] * (expected.shape[1] - len(labels))
  failures = []
  for index, label in enumerate(labels):
    a, b = got[:, index], expected[:, index]
    if label == 'reward':
      agree = np.abs(a - b) <= REWARD_TOLERANCE
    elif (name, label) in OBSERVATION_ULPS:
      agree = np.abs(a - b) <= OBSERVATION_ULPS[name, label] * np.spacing(np.abs(b))
    else:
      agree = a.view(np.uint64) == b.view(np.uint64)
    if not agree.all():
      row = int(np.argmin(agree))
      failures.append(f'{name}, seed {seed}: {label} (column {index}): {np.sum(~agree)} of {len(agree)} rows differ, '
                      f'first in row {row}: got {a[row]!r}, expected {b[row]!r}')
  episodes = int(np.sum(expected[:, 0] == 0))
  inexact = [label for index, label in enumerate(labels) if (got[:, index] != expected[:, index]).any()]
  worst = np.max(np.abs(got - expected))
  print(f'{name}, seed {seed}: {len(expected)} rows, {episodes} episodes, reward sum {np.sum(expected[:, 1]):.6g}, '
        f'largest difference {worst:.3g} in {sorted(set(inexact)) or "nothing"}')
  return failures


def compare_pixels(program, name, seed):
  _, rows, actions, expected = play(name, seed, FRAMES - 1, FRAME)
  _, got = trace(program, name, seed, actions, rows.shape[1], FRAME)
  if len(np.unique(expected)) < 8:
    return [f'{name}, seed {seed}: dm_control rendered a blank frame']
  different = int(np.sum(got != expected))
  print(f'{name}, seed {seed}: {len(expected)} frames, {different} of {expected.size} bytes differ')
  return [f'{name}, seed {seed}: {different} bytes differ'] if different else []


def main():
  kind, program, name = sys.argv[1:]
  compare = {'states': compare_states, 'pixels': compare_pixels}[kind]
  failures = [failure for seed in (SEEDS if kind == 'states' else SEEDS[:2]) for failure in compare(program, name, seed)]
  sys.exit('\n'.join(failures) if failures else 0)


if __name__ == '__main__':
  main()
