"""The simple baselines: Flink's default (a free slot at random), round robin, first fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .columns import Columns
from .model import Sub
from .problem import Problem
from .room import FirstFit, Room, place_first_fit

_MASK = 2**64 - 1


def split_mix_64(seed: int) -> Iterator[int]:
    """Yield SplitMix64's 64-bit numbers (Steele, Lea, Flood 2014); seed 0 starts with e220a8397b1dcdaf."""
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        yield mixed ^ (mixed >> 31)


def default(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place like Flink's default: draw one slot evenly from the free slots of all hosts that fit, once per subtask."""
    draws = split_mix_64(problem.request.seed)
    columns = Columns(room, range(len(problem.hosts)))
    placed: dict[Sub, int] = {}
    for sub in todo:
        upto = np.cumsum(np.where(columns.fitting(sub.task), columns.slots, 0))
        total = int(upto[-1]) if len(upto) else 0
        if total:
            slot = next(draws) % total
            placed[sub] = columns.take(int(np.searchsorted(upto, slot, side="right")), sub.task)
    return placed


def round_robin(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place each subtask on the first fitting host from a pointer on, cyclically; the pointer then moves past it."""
    hosts = len(problem.hosts)
    tree = FirstFit(room, range(hosts))
    placed: dict[Sub, int] = {}
    pointer = 0
    for sub in todo:
        host = tree.first(sub.task, pointer)
        if host is None:
            host = tree.first(sub.task)
        if host is not None:
            room.take(host, sub.task)
            tree.refresh(host)
            placed[sub] = host
            pointer = (host + 1) % hosts
    return placed


def first_fit(problem: Problem, room: Room, todo: Sequence[Sub]) -> dict[Sub, int]:
    """Place each subtask on the first fitting host in the request's order."""
    return place_first_fit(room, todo, range(len(problem.hosts)))
