"""Troupe's environments as Gymnasium's: `import troupe.gym`, then

    gymnasium.make("troupe/cartpole-swingup")
    gymnasium.make_vec("troupe/cheetah-run", num_envs=256)

Observations of several columns are dictionaries of them, in the order of the C++ library (Gymnasium sorts the names of a
space, so what flattens by it has another); of one column it is an array.
Numbers have the types that they have there (float64 for the Control Suite, as in dm_control). An episode that ends
because its task is done is terminated (discount 0); one that ends at its time limit is truncated (discount 1).
"""

from __future__ import annotations

import os
import secrets

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from troupe import _core
from troupe.arrays import Views
from troupe.error import TroupeError

_RESET, _STEP = 1, 2
_LAST = 2


def _box(dtype, shape, low=-np.inf, high=np.inf):
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        low, high = info.min, info.max
    return gymnasium.spaces.Box(low, high, shape, dtype)


# Gymnasium 1.4's, of what is observed of its environments: those that are not symmetric have both.
_CART_POLE = np.array([4.8, np.inf, 24 * np.pi / 180, np.inf], np.float32)
_ACROBOT = np.array([1, 1, 1, 1, 4 * np.pi, 9 * np.pi], np.float32)
_CAR = np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32)
_PENDULUM = np.array([1, 1, 8], np.float32)
_BOUNDS = {"CartPole-v1": (-_CART_POLE, _CART_POLE), "Acrobot-v1": (-_ACROBOT, _ACROBOT), "MountainCar-v0": _CAR, "MountainCarContinuous-v0": _CAR,
           "Pendulum-v1": (-_PENDULUM, _PENDULUM)}


def spaces_of(views):
    """What one instance observes, and what it does."""
    spaces = {name: _box(dtype, shape, *_BOUNDS.get(views.core.name, ())) for name, dtype, shape in views.columns}
    observation_space = gymnasium.spaces.Dict(spaces) if views.is_dict else next(iter(spaces.values()))
    choices, dtype = views.core.action_choices, views.action_dtype.type
    if choices == 0:
        return observation_space, gymnasium.spaces.Box(*views.action_bounds(), dtype=dtype)
    if views.action_shape == ():
        return observation_space, gymnasium.spaces.Discrete(choices)
    return observation_space, gymnasium.spaces.MultiDiscrete(np.full(views.action_shape, choices), dtype=dtype)


def _metadata(core, render_mode):
    """render_mode: what was asked for."""
    modes = ["rgb_array"] if core.cameras else []
    if render_mode not in (None, *modes):
        raise TroupeError(f"{core.name}: render_mode is {render_mode!r}, expected None{' or ' * bool(modes)}{', '.join(modes)}", "invalid_argument")
    return {"render_modes": modes, "render_fps": max(1, round(1 / core.control_dt))}


def _heard(core, options):
    """Options that Gymnasium's own environment would hear are not passed over in silence."""
    if options and not core.cameras and options.keys() & {"low", "high"}:
        raise TroupeError(f"{core.name}: reset: options are {options}, expected no low and high: it starts as Gymnasium's does by default", "unimplemented")


def _one(observations, index):
    if isinstance(observations, dict):
        return {name: column[index] for name, column in observations.items()}
    return observations[index]


class Env(gymnasium.Env):
    """One instance. render_mode "rgb_array" draws it, `camera` is one of its cameras by name or index. Its first episode is a
    random one unless reset() is given a seed."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, name: str, *, render_mode: str | None = None, width: int = 320, height: int = 240, camera: str | int = 0) -> None:
        self._core = _core.VectorEnv(name, seed=secrets.randbits(63))
        self._views = Views(self._core)
        self.observation_space, self.action_space = spaces_of(self._views)
        self.render_mode = render_mode
        self.metadata = _metadata(self._core, render_mode)
        self._picture = (height, width, str(camera))
        self._moves = np.zeros(1, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        _heard(self._core, options)
        if seed is None:
            self._moves[0] = _RESET
            self._core.advance(self._moves, self._views.no_actions)
        else:
            self._core.reset(0, seed)
        return _one(self._views.observations(copy=True), 0), {}

    def step(self, action):
        self._moves[0] = _STEP
        self._core.advance(self._moves, self._views.action_bytes(np.asarray(action)[None]))
        last, discount = self._views.types[0] == _LAST, self._views.discounts[0]
        observation = _one(self._views.observations(copy=True), 0)
        return observation, float(self._views.rewards[0]), bool(last and discount == 0), bool(last and discount != 0), {}

    def render(self):
        if self.render_mode is None:
            return None
        height, width, camera = self._picture
        return self._core.render(0, height, width, camera)


class VectorEnv(gymnasium.vector.VectorEnv):
    """Many instances, stepped together by C++ threads (as many as there are processors unless `threads` says so).

    autoreset_mode: all of Gymnasium's. copy=False: observations are views that the next call writes over.
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, name: str, num_envs: int = 1, *, threads: int | None = None,
                 autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP, copy: bool = True,
                 render_mode: str | None = None, width: int = 320, height: int = 240, camera: str | int = 0) -> None:
        threads = threads or min(num_envs, len(os.sched_getaffinity(0)), 256)
        self._core = _core.VectorEnv(name, num_envs, threads, secrets.randbits(63))
        self._views = Views(self._core)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = spaces_of(self._views)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = _metadata(self._core, render_mode) | {"autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self._picture = (height, width, str(camera))
        self._copy = copy
        self._moves = np.zeros(num_envs, np.uint8)

    def _ended(self):
        return self._views.types == _LAST

    def _reset(self, which):
        np.multiply(which, _RESET, out=self._moves, casting="unsafe")  # the others rest
        self._core.advance(self._moves, self._views.no_actions)

    def reset(self, *, seed=None, options=None):
        """seed: of instance 0, the others have the numbers behind it; or a list, whose None keep their random stream.
        options["reset_mask"]: bool [num_envs], which are reset; the others stay as they are."""
        _heard(self._core, options)
        mask = np.ones(self.num_envs, bool)
        if options is not None and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"])
            if mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
                raise ValueError(f"reset_mask: expected bool [{self.num_envs}], of which one is set, got {mask!r}")
        if seed is None or isinstance(seed, (int, np.integer)):
            super().reset(seed=seed)
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise ValueError(f"seed: {len(seeds)} numbers, expected {self.num_envs}")
        seeded = np.array([each is not None for each in seeds]) & mask
        for index in np.flatnonzero(seeded):
            self._core.reset(int(index), seeds[index])
        self._reset(mask & ~seeded)
        return self._views.observations(self._copy), {}

    def step(self, actions):
        actions = self._views.action_bytes(actions)
        if self.autoreset_mode == AutoresetMode.NEXT_STEP:
            columns, *rest = self._core.step(actions)
            observations = self._views.named(columns) if self._copy else self._views.observations(copy=False)
            return observations, *rest, {}
        if self._ended().any():
            raise TroupeError(f"{self._core.name}: step: instances {np.flatnonzero(self._ended()).tolist()} have ended, and are to be "
                              "reset first", "unavailable")
        self._moves[:] = _STEP
        self._core.advance(self._moves, actions)
        rewards, last, infos = self._views.rewards.copy(), self._ended(), {}
        terminations = last & (self._views.discounts == 0)
        truncations = last & ~terminations
        if self.autoreset_mode == AutoresetMode.SAME_STEP and last.any():
            infos = self._final_infos(last)
            self._reset(last)
        return self._views.observations(self._copy), rewards, terminations, truncations, infos

    def _final_infos(self, last):
        observations = self._views.observations(copy=True)
        final = np.full(self.num_envs, None, object)
        for index in np.flatnonzero(last):
            final[index] = _one(observations, index)
        return {"final_obs": final, "_final_obs": last.copy(), "final_info": {}, "_final_info": last.copy()}

    def render(self):
        """A picture of each instance, or None without a render_mode."""
        if self.render_mode is None:
            return None
        height, width, camera = self._picture
        return tuple(self._core.render(index, height, width, camera) for index in range(self.num_envs))


for _name in _core.environment_names():
    gymnasium.register(
        f"troupe/{_name}",
        entry_point="troupe.gym:Env",
        vector_entry_point="troupe.gym:VectorEnv",
        kwargs={"name": _name},
    )
