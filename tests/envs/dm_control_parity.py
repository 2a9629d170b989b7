"""Compares Troupe's environments with dm_control step by step.

  dm_control_parity.py states ENV_TRACE NAME...   a few hundred steps and five starts for each of two seeds
  dm_control_parity.py whole ENV_TRACE NAME...    two whole episodes and twenty starts for each of four seeds
  dm_control_parity.py pixels ENV_TRACE NAME...   frames of 84 x 84 of every camera, the free one among them

NAME is a domain as dm_control calls it, which means all its tasks, or a task ("cartpole-swingup"). Both sides play the same actions, some of
them beyond the bounds, and then a few steps from a state in which the task has a reward. States (qpos, qvel), step
types, discounts and observations have to agree to the bit, rewards to 1e-15, and each task has to give a reward at
some time.

dm_control is played with numpy's portable code, which is the C library's functions and sums without fused
multiply-adds. With the vector code that numpy chooses by itself for this processor, dm_control's own numbers differ
from those in the last bits: docs/environments.md says which.
"""

import os
import subprocess
import sys

if os.environ.get('TROUPE_PARITY_NUMPY') != 'vector':  # for those who want to see that difference
  os.environ['NPY_DISABLE_CPU_FEATURES'] = 'X86_V3 X86_V4 AVX512_ICL AVX512_SPR'
  os.environ['OPENBLAS_CORETYPE'] = 'Nehalem'
PIXELS = sys.argv[1:2] == ['pixels']
DRAWS = PIXELS or any(name.startswith('quadruped') for name in sys.argv[3:])  # dm_control draws to begin quadruped-escape
if DRAWS:  # on a machine that cannot, dm_control would not even be imported
  frame = subprocess.run([sys.argv[2], 'pendulum-swingup', '0', '1', '1', '0'], input=b'', capture_output=True, check=False)
  DRAWS = frame.returncode == 0 or b'no EGL device' not in frame.stderr
  if PIXELS and not DRAWS:
    print('skipped:', frame.stderr.decode())
    sys.exit(77)
os.environ.setdefault('MUJOCO_GL', 'egl' if DRAWS else 'disable')

from dm_control import suite  # pylint: disable=g-import-not-at-top
import numpy as np

SEEDS = (0, 1, 42, 4294967295)
EPISODE = 1000  # steps
STEP, RESET, STATE = 0, 1, 2  # env_trace's commands
FRAME = (84, 84)
FRAMES = 6
REWARD_TOLERANCE = 1e-15


def load(name, seed):
  domain, task = name.split('-')
  # lqr's episodes have no limit in dm_control; here each has 1,000 steps.
  limit = {'time_limit': 30} if domain == 'lqr' else {}
  return suite.load(domain, task, task_kwargs={'random': seed, **limit})


def tasks(name):
  return [name] if '-' in name else [f'{name}-{task}' for task in suite.TASKS_BY_DOMAIN[name]]


def troupe_name(name):
  """Of a configuration, where names are lower-case: humanoid_cmu-walk."""
  return name.lower()


def rewarded_state(name, env):
  """A state (qpos, qvel) in which the task gives a reward: the model's own pose, or that with changes."""
  model = env.physics.named.model
  qpos, qvel = env.physics.model.qpos0.copy(), np.zeros(env.physics.model.nv)
  if name == 'ball_in_cup-catch':  # the ball in the cup
    qpos[2:4] = (model.body_pos['cup'] + model.site_pos['target'] - model.body_pos['ball'])[[0, 2]]
  elif name.startswith('finger'):  # folded, away from the body, which turns fast or points to the target
    qpos[1] = -1.8
    qvel[2] = -20 if name == 'finger-spin' else 0
    if name != 'finger-spin':
      to_target = model.site_pos['target'] - model.body_pos['spinner']
      qpos[2] = np.arctan2(-to_target[0], to_target[2])
  elif name == 'dog-fetch':  # the ball at its target, under the dog
    qpos[env.physics.model.jnt_qposadr[env.physics.model.name2id('ball_root', 'joint')]] = .05
  elif name.startswith('lqr'):  # all but at rest, which ends the episode
    qpos += 1e-8
  elif name.startswith('manipulator'):  # the thing at its target
    thing = 'peg' if 'peg' in name else 'ball'
    place, rotation = model.body_pos[f'target_{thing}'], model.body_quat[f'target_{thing}']
    angle = 2 * np.arctan2(rotation[2], rotation[0])
    for joint, number in zip('xzy', (place[0], place[2], angle)):
      qpos[env.physics.model.jnt_qposadr[env.physics.model.name2id(f'{thing}_{joint}', 'joint')]] = number
  return qpos, qvel


class Played:
  """What dm_control did, and the commands that let env_trace do the same."""

  def __init__(self, name, seed, frame=None):
    self.env = load(name, seed)
    self.name, self.seed, self.frame = name, seed, frame
    self.columns, self.rows, self.frames, self.commands = [], [], [], []
    spec = self.env.action_spec()
    self.actions = np.random.RandomState(seed)
    if name.startswith('lqr'):  # whose bounds are 1e10
      self.low, self.high = -np.ones(spec.shape), np.ones(spec.shape)
    else:
      self.low, self.high = 1.2 * spec.minimum, 1.2 * spec.maximum
    model = self.env.physics.model
    self.width = 1 + max(model.nu, model.nq + model.nv)
    self.cameras = {}  # Troupe's name, or index where there is none -> dm_control's index
    if frame:
      self.cameras = {model.id2name(index, 'camera') or str(index): index for index in range(model.ncam)}
      self.cameras['free'] = -1
    self._record(self.env.reset())

  def _record(self, step):
    self.columns = [key for key, value in step.observation.items() for _ in range(np.size(value))]
    data = self.env.physics.data
    self.rows.append(np.concatenate([
        [float(step.step_type), 0.0 if step.first() else step.reward, 1.0 if step.first() else step.discount],
        *[np.ravel(value) for value in step.observation.values()], data.qpos, data.qvel]))
    self.frames.append([self.env.physics.render(*self.frame, camera_id=index) for index in self.cameras.values()])

  def _command(self, kind, numbers=()):
    self.commands.append(np.concatenate([[kind], numbers, np.zeros(self.width - 1 - len(numbers))]))

  def reset(self):
    self._command(RESET)
    self._record(self.env.reset())

  def put(self, qpos, qvel):
    self._command(STATE, np.concatenate([qpos, qvel]))
    with self.env.physics.reset_context():
      self.env.physics.data.qpos[:], self.env.physics.data.qvel[:] = qpos, qvel

  def step(self, scale=1.0):
    action = scale * self.actions.uniform(self.low, self.high)
    if self.name == 'pendulum-swingup':
      # Random torques hardly ever bring it up, where its rewards are; the full torque along the motion does.
      action = np.copysign(1, self.env.physics.data.qvel)
    self._command(STEP, action)
    self._record(self.env.step(action))

  def trace(self, program):
    """Runs env_trace; returns its rows and frames."""
    width = len(self.rows[0])
    result = subprocess.run([program, troupe_name(self.name), str(self.seed), *map(str, self.frame or ()), *self.cameras],
                            input=np.array(self.commands).tobytes(), capture_output=True, timeout=600, check=False)
    if result.returncode != 0:
      sys.exit(f'{self.name}: {result.stderr.decode()}')
    pixel_bytes = len(self.cameras) * self.frame[0] * self.frame[1] * 3 if self.frame else 0
    table = np.frombuffer(result.stdout, np.uint8).reshape(len(self.rows), width * 8 + pixel_bytes)
    rows = np.frombuffer(table[:, :width * 8].tobytes(), np.float64).reshape(-1, width)
    return rows, table[:, width * 8:].reshape(-1, len(self.cameras), *self.frame, 3) if self.frame else None


def compare_states(program, name, seed, steps, starts):
  """Plays two times `steps` steps, some starts alone, and 30 steps from a rewarded state.

  Returns (failures, whether there was a reward).
  """
  played = Played(name, seed)
  for _ in range(steps):
    played.step()
  played.reset() if steps < EPISODE else played.step()  # which begins the next episode
  for _ in range(steps):
    played.step()
  for _ in range(starts):
    played.reset()
  played.put(*rewarded_state(name, played.env))
  for _ in range(30):
    played.step(scale=0 if name.startswith('lqr') else .1)  # so that lqr ends its episode
  expected = np.array(played.rows)
  got, _ = played.trace(program)
  labels = ['step type', 'reward', 'discount', *played.columns]
  labels += ['state'] * (expected.shape[1] - len(labels))
  failures = []
  for index, label in enumerate(labels):
    a, b = got[:, index], expected[:, index]
    agree = np.abs(a - b) <= REWARD_TOLERANCE if label == 'reward' else a.view(np.uint64) == b.view(np.uint64)
    if not agree.all():
      row = int(np.argmin(agree))
      failures.append(f'{name}, seed {seed}: {label} (column {index}): {np.sum(~agree)} of {len(agree)} rows differ, '
                      f'first in row {row}: got {a[row]!r}, expected {b[row]!r}')
  episodes = int(np.sum(expected[:, 0] == 0))
  inexact = [label for index, label in enumerate(labels) if (got[:, index] != expected[:, index]).any()]
  worst = np.max(np.abs(got - expected))
  print(f'{name}, seed {seed}: {len(expected)} rows, {episodes} episodes, reward sum {np.sum(expected[:, 1]):.6g}, '
        f'largest difference {worst:.3g} in {sorted(set(inexact)) or "nothing"}')
  return failures, bool(expected[:, 1].any())


def compare_spec(program, name):
  """Names and shapes of the observation's columns, control step, length of an episode, bounds of an action."""
  env = load(name, 0)
  observation, action = env.observation_spec(), env.action_spec()
  expected = [' '.join(map(str, (key, *spec.shape))) for key, spec in observation.items()]
  expected += [f'{env.control_timestep():.17g} {EPISODE}']
  expected += [''.join(f'{bound:.17g} ' for bound in bounds) for bounds in (action.minimum, action.maximum)]
  got = subprocess.run([program, troupe_name(name)], capture_output=True, text=True, timeout=600, check=True).stdout.splitlines()
  return [] if got == expected else [f'{name}: is {got}, expected {expected}']


def compare_task(program, name, seeds, steps, starts):
  results = [compare_states(program, name, seed, steps, starts) for seed in seeds]
  failures = compare_spec(program, name) + [failure for found, _ in results for failure in found]
  if not any(rewarded for _, rewarded in results):
    failures.append(f'{name}: no step had a reward, so nothing is known of them')
  return failures


def compare_pixels(program, name, seed):
  played = Played(name, seed, FRAME)
  for index in range(FRAMES - 1):
    played.reset() if index == FRAMES // 2 else played.step()  # what changes between episodes is drawn too
  all_expected = np.array(played.frames)
  _, all_got = played.trace(program)
  failures = []
  for index, camera in enumerate(played.cameras):
    expected, got = all_expected[:, index], all_got[:, index]
    about = f'{name}, seed {seed}, camera {camera}'
    if len(np.unique(expected)) < 8:
      failures.append(f'{about}: dm_control rendered a blank frame')
    different = int(np.sum(got != expected))
    print(f'{about}: {len(expected)} frames, {different} of {expected.size} bytes differ')
    if different:
      failures.append(f'{about}: {different} bytes differ')
  return failures


def main():
  kind, program, *names = sys.argv[1:]
  failures = []
  for name in (task for given in names for task in tasks(given)):
    if name == 'quadruped-escape' and not DRAWS:
      print(f'{name}: left out, since dm_control cannot draw here')
      continue
    if kind == 'pixels':
      failures += [failure for seed in SEEDS[:2] for failure in compare_pixels(program, name, seed)]
    elif kind == 'whole':
      failures += compare_task(program, name, SEEDS, EPISODE, starts=20)
    else:
      failures += compare_task(program, name, SEEDS[1::2], 150, starts=5)
    sys.stdout.flush()
  sys.exit('\n'.join(failures) if failures else 0)


if __name__ == '__main__':
  main()
