"""From a method's name to its untrained network, and what is particular to its training."""

from collections.abc import Callable

from model_export.objective import INFORMATION, Weights
from model_export.paper.astgcn import Astgcn
from model_export.paper.ccrnn import Ccrnn
from model_export.paper.deepweave import DeepWeave
from model_export.paper.dream import Dream
from model_export.paper.parts import Method
from model_export.paper.sure import PaperSure, SureOptions
from model_export.paper.tvw_rl import TvwRl
from policies.package import Statistics

LEARNED = ("DeepWeave", "DREAM", "TVW-RL", "ASTGCN", "CCRNN", "SURE", "w/o NVSS", "w/o MI")

Builder = Callable[[Statistics, int], Method]
_RIVALS: dict[str, Builder] = {
    "DeepWeave": DeepWeave,
    "DREAM": Dream,
    "TVW-RL": TvwRl,
    "ASTGCN": Astgcn,
    "CCRNN": Ccrnn,
}


def sure_options(method: str, information: float = INFORMATION, **others: object) -> SureOptions:
    """Return SURE's options for it or one of its ablations; ``information`` weighs the information term where there is one."""
    weights = Weights(information=0.0 if method == "w/o MI" else information)
    return SureOptions(uniform=method == "w/o NVSS", weights=weights, **others)  # type: ignore[arg-type]


def build(method: str, statistics: Statistics, hidden: int, **others: object) -> Method:
    """Return an untrained network; ``others`` are fields of ``SureOptions`` and matter to SURE and its ablations alone.

    >>> build("Tarot", Statistics(mean=(), std=()), 8)
    Traceback (most recent call last):
        ...
    KeyError: 'Tarot'
    """
    if method in _RIVALS:
        return _RIVALS[method](statistics, hidden)
    if method not in LEARNED:
        raise KeyError(method)
    return PaperSure(statistics, hidden, sure_options(method, **others))
