"""Runs in a sandbox: cartpole.py WEIGHTS SEED prints the reward of that policy, the sum of its episodes,
and the seconds of processor that this took.

A pole on a cart, as in Barto, Sutton and Anderson (1983): pushed left or right fifty times a
second, it must not fall over, nor the cart leave its track.
"""
import json
import math
import random
import sys
import time

STEPS, EPISODES = 500, 3
GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


def step(state, right):
    x, speed, angle, turning = state
    sine, cosine = math.sin(angle), math.cos(angle)
    force = FORCE if right else -FORCE
    common = (force + POLE * HALF_LENGTH * turning ** 2 * sine) / (CART + POLE)
    turns = (GRAVITY * sine - cosine * common) / (
        HALF_LENGTH * (4 / 3 - POLE * cosine ** 2 / (CART + POLE)))
    pushes = common - POLE * HALF_LENGTH * turns * cosine / (CART + POLE)
    return (x + SECONDS * speed, speed + SECONDS * pushes,
            angle + SECONDS * turning, turning + SECONDS * turns)


def episode(weights, chance):
    """How many steps the pole stood."""
    state = tuple(chance.uniform(-0.05, 0.05) for _ in range(4))
    for steps in range(STEPS):
        state = step(state, sum(a * b for a, b in zip(weights, state)) > 0)
        if abs(state[0]) > 2.4 or abs(state[2]) > math.radians(12):
            return steps
    return STEPS


if __name__ == '__main__':
    seeded = random.Random(int(sys.argv[2]))
    print(sum(episode(json.loads(sys.argv[1]), seeded) for _ in range(EPISODES)), time.process_time())
