"""Which mode a job is in: the one answer for rescaler, state view and command line. Pure.

Its settings decide, then its own label, then what its engine is: a simulated engine is acted on, a real one only observed until
somebody says otherwise.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.job_settings import JobSettings, Mode
from surescale.contracts.messages import JobTopology

LABEL_PREFIX = "surescale."
"""Of the parameters of a job that are read as its labels; the others may hold secrets."""
MODE_LABEL = "surescale.mode"
"""A label that the job's author sets: ``act``, ``advise`` or ``observe``."""
AMBIGUOUS_LABEL = "surescale.ambiguous"
"""A label that the monitor sets on a job whose name it cannot tell from another job's."""

Source = Literal["settings", "label", "default", "engine", "name"]


@dataclass(frozen=True, slots=True)
class ModeInForce:
    """A mode and what decided it."""

    mode: Mode
    source: Source

    def __str__(self) -> str:
        """Return both, for people."""
        return f"{self.mode} ({_REASONS[self.source]})"


_REASONS: dict[Source, str] = {
    "settings": "by its settings",
    "label": f"by its label {MODE_LABEL}",
    "default": "by default",
    "engine": "its engine cannot be acted on",
    "name": "another job has its name",
}


def mode_in_force(settings: JobSettings | None, topology: JobTopology | None, engine: Capabilities | None) -> ModeInForce:
    """Return a job's mode.

    A label with an unknown value counts as none. An engine that takes no commands, or that is not known yet, is at most advised
    about. Of two jobs with one name neither can be told apart, so both are only observed.

    Args:
        settings: the job's; None: nobody has set any.
        topology: the job's; None: not known yet.
        engine: what the job's engine can do; None: not known yet.
    """
    labels = topology.labels if topology is not None else {}
    if AMBIGUOUS_LABEL in labels:
        return ModeInForce("observe", "name")
    wanted = _wanted(settings, labels.get(MODE_LABEL, ""), engine)
    if wanted.mode == "act" and (engine is None or engine.acts == "none"):
        return ModeInForce("advise", "engine")
    return wanted


def _wanted(settings: JobSettings | None, label: str, engine: Capabilities | None) -> ModeInForce:
    if settings is not None and settings.mode is not None:
        return ModeInForce(settings.mode, "settings")
    for mode in get_args(Mode):
        if label.strip().lower() == mode:
            return ModeInForce(mode, "label")
    return ModeInForce("act" if engine is not None and engine.is_simulated else "observe", "default")
