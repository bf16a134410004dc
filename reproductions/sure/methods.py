"""From a method's name to its untrained network, and what its training does differently."""

from collections.abc import Callable
from dataclasses import replace

from reproductions.sure.astgcn import Astgcn
from reproductions.sure.ccrnn import Ccrnn
from reproductions.sure.deepweave import DeepWeave
from reproductions.sure.dream import Dream
from reproductions.sure.layers import Method
from reproductions.sure.statistics import Statistics
from reproductions.sure.sure import PaperSure, SureOptions
from reproductions.sure.tvw_rl import TvwRl

LEARNED = ("DeepWeave", "DREAM", "TVW-RL", "ASTGCN", "CCRNN", "SURE", "w/o NVSS", "w/o MI")

Builder = Callable[[Statistics, int], Method]
_RIVALS: dict[str, Builder] = {
    "DeepWeave": DeepWeave,
    "DREAM": Dream,
    "TVW-RL": TvwRl,
    "ASTGCN": Astgcn,
    "CCRNN": Ccrnn,
}


def ablated(method: str, options: SureOptions) -> SureOptions:
    """Return SURE's options as the method uses them: an ablation lacks what its name says, SURE lacks nothing."""
    if method == "w/o NVSS":
        return replace(options, uniform=True)
    if method == "w/o MI":
        return replace(options, weights=replace(options.weights, information=0.0))
    return options


def build(method: str, statistics: Statistics, hidden: int, options: SureOptions | None = None) -> Method:
    """Return an untrained network. Only SURE and its ablations look at ``options``.

    Raises:
        KeyError: there is no such method.

    >>> build("Tarot", Statistics(mean=(), std=()), 8)
    Traceback (most recent call last):
        ...
    KeyError: 'Tarot'
    """
    if method in _RIVALS:
        return _RIVALS[method](statistics, hidden)
    if method not in LEARNED:
        raise KeyError(method)
    return PaperSure(statistics, hidden, ablated(method, options or SureOptions()))
