"""Compares Troupe's classic control with Gymnasium's, to the bit.

  gymnasium_parity.py states ENV_TRACE NAME...   four episodes and 20 starts for each of eight seeds
  gymnasium_parity.py whole ENV_TRACE NAME...    twelve episodes and 20 starts for each of sixty seeds

NAME is Gymnasium's ("CartPole-v1"). Both sides play the same actions; the episodes of a seed are of one random stream,
whose last ones come after reset(seed=...) in its middle. Actions are random in one episode, pump energy into the system
in the next, and are at, beyond and next to the bounds in a third, so that there are rewards, walls and goals. States,
observations, rewards, terminated (a discount of 0) and truncated have to agree in every bit, and what an environment
has of ends has to come up.

Gymnasium is played with numpy's portable code, which is the C library's functions. With the vector code that numpy
chooses by itself for this processor, Gymnasium's own numbers may differ in the last bits: docs/environments.md.
"""

import os
import subprocess
import sys

if os.environ.get('TROUPE_PARITY_NUMPY') != 'vector':  # for those who want to see that difference
  os.environ['NPY_DISABLE_CPU_FEATURES'] = 'X86_V3 X86_V4 AVX512_ICL AVX512_SPR'

import gymnasium  # pylint: disable=g-import-not-at-top
import numpy as np

SEEDS = (0, 1, 42, 4294967295, 4294967296, 0x123456789abcdef0, 2**63, 2**64 - 1)
STEP, RESET, RESEED = 0, 1, 3  # env_trace's commands
FIRST, MID, LAST = 0, 1, 2
STARTS = 20
STATE = 4  # numbers that env_trace shows of a state
ENDS = {  # which ends an episode may have: terminated, truncated
    'Acrobot-v1': (True, True), 'CartPole-v1': (True, True), 'MountainCar-v0': (True, True),
    'MountainCarContinuous-v0': (True, True), 'Pendulum-v1': (False, True)}


def pumping(name, state):
  """An action, in shares of the bounds, that pumps energy in; a pole stays up under it."""
  if name == 'CartPole-v1':
    return np.sign(state[2] + .5 * state[3] + .02 * state[0] + .1 * state[1])
  return np.sign(state[3 if name == 'Acrobot-v1' else 1]) or 1


class Played:
  """What Gymnasium did, and the commands that let env_trace do the same."""

  def __init__(self, name, seed):
    self.env = gymnasium.make(name)
    self.name, self.seed = name, seed
    self.rows, self.commands = [], []
    self.actions = np.random.default_rng(seed)
    self.ends = {'terminated': 0, 'truncated': 0}
    self._record(FIRST, 0, 1, self.env.reset(seed=seed)[0])

  def _record(self, kind, reward, discount, observation):
    space = self.env.observation_space
    if observation.dtype != space.dtype or observation.shape != space.shape:
      sys.exit(f'{self.name}: got an observation {observation.dtype}{observation.shape}, expected {space}')
    state = np.asarray(self.env.unwrapped.state, np.float64)
    self.rows.append(np.concatenate([[kind, reward, discount], observation, state, np.zeros(STATE - len(state))]))

  def _command(self, kind, *numbers):
    self.commands.append(np.concatenate([[kind], numbers, np.zeros(STATE - len(numbers))]))

  def reset(self):
    self._command(RESET)
    self._record(FIRST, 0, 1, self.env.reset()[0])

  def reseed(self, seed):
    self._command(RESEED, seed % 2**32, seed >> 32)
    self._record(FIRST, 0, 1, self.env.reset(seed=seed)[0])

  def action(self, kind):
    """The next action of an episode of this kind: 0 random, 1 pumping, 2 at its limits."""
    space = self.env.action_space
    push = pumping(self.name, self.env.unwrapped.state) if kind else self.actions.uniform(-1.5, 1.5)
    if isinstance(space, gymnasium.spaces.Discrete):
      if kind != 1 and self.actions.random() < (1 if kind == 0 else .2):
        return int(self.actions.integers(space.n))
      return int((push + 1) / 2 * (space.n - 1))
    bound = space.high[0]
    if kind == 2:
      beyond = np.nextafter(bound, np.float32(np.inf), dtype=np.float32)
      within = np.nextafter(bound, np.float32(0), dtype=np.float32)
      limits = np.array([bound, beyond, within, 0, 1e-30, 1e6, 1e30], np.float32)
      return np.array([push * self.actions.choice(limits)], np.float32)
    return np.array([push * bound * (1 if kind == 0 else self.actions.uniform(.5, 1.2))], np.float32)

  def episode(self, kind):
    last = False
    while not last:
      action = self.action(kind)
      self._command(STEP, *np.atleast_1d(action))
      observation, reward, terminated, truncated, _ = self.env.step(action)
      last = terminated or truncated
      self.ends['terminated'] += terminated
      self.ends['truncated'] += truncated
      self._record(LAST if last else MID, reward, 0 if terminated else 1, observation)

  def trace(self, program):
    """Runs env_trace; returns its rows."""
    result = subprocess.run([program, self.name, str(self.seed)], input=np.array(self.commands).tobytes(),
                            capture_output=True, timeout=600, check=False)
    if result.returncode != 0:
      sys.exit(f'{self.name}: {result.stderr.decode()}')
    return np.frombuffer(result.stdout, np.float64).reshape(len(self.rows), len(self.rows[0]))


def compare_seed(program, name, seed, episodes):
  """Plays that many episodes, half of them after a reset with another seed. Returns (failures, ends)."""
  played = Played(name, seed)
  for index in range(episodes):
    if index == episodes // 2:
      played.reseed(seed ^ 0x5000000007)
    elif index > 0:
      played.reset()
    played.episode(index % 3)
  for _ in range(STARTS):
    played.reset()
  expected = np.array(played.rows)
  got = played.trace(program)
  sizes = {'observation': expected.shape[1] - 3 - STATE, 'state': STATE}
  labels = ['step type', 'reward', 'discount', *(f'{of}[{i}]' for of, size in sizes.items() for i in range(size))]
  failures = []
  for index, label in enumerate(labels):
    a, b = got[:, index], expected[:, index]
    agree = a.view(np.uint64) == b.view(np.uint64)
    if not agree.all():
      row = int(np.argmin(agree))
      failures.append(f'{name}, seed {seed}: {label}: {np.sum(~agree)} of {len(agree)} rows differ, first in row {row}: '
                      f'got {a[row]!r}, expected {b[row]!r}')
  print(f'{name}, seed {seed}: {len(expected)} rows, {played.ends}, reward sum {np.sum(expected[:, 1]):.6g}, '
        f'{len(failures)} columns differ')
  return failures, played.ends


def compare_spec(program, name):
  """The observation's column, the length of an episode, and what an action is."""
  env = gymnasium.make(name)
  space = env.action_space
  expected = [f'observation {env.observation_space.shape[0]}']
  seconds = getattr(env.unwrapped, 'tau', getattr(env.unwrapped, 'dt', 1))
  expected += [f'{seconds:.17g} {env.spec.max_episode_steps}']
  if isinstance(space, gymnasium.spaces.Discrete):
    expected += [f'{space.n} choices']
  else:
    expected += [''.join(f'{bound:.17g} ' for bound in bounds) for bounds in (space.low, space.high)]
  got = subprocess.run([program, name], capture_output=True, text=True, timeout=600, check=True).stdout.splitlines()
  return [] if got == expected else [f'{name}: is {got}, expected {expected}']


def compare(program, name, seeds, episodes):
  failures = compare_spec(program, name)
  ends = []
  for seed in seeds:
    found, ended = compare_seed(program, name, seed, episodes)
    failures += found
    ends.append(ended)
  for end, may_be in zip(('terminated', 'truncated'), ENDS[name]):
    if any(ended[end] for ended in ends) != may_be:
      failures.append(f'{name}: {end} came up {sum(ended[end] for ended in ends)} times')
  return failures


def main():
  kind, program, *names = sys.argv[1:]
  seeds, episodes = (SEEDS, 4) if kind == 'states' else ((*SEEDS, *range(1000, 1052)), 12)
  failures = []
  for name in names or ENDS:
    failures += compare(program, name, seeds, episodes)
    sys.stdout.flush()
  sys.exit('\n'.join(failures) if failures else 0)


if __name__ == '__main__':
  main()
