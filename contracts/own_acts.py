"""Acts that no policy decided: the rescaler starts them by itself, or because a person says so.

Their names take the place of a policy's in an act's id.
"""

from enum import StrEnum


class OwnAct(StrEnum):
    """An act that the rescaler starts by itself; the name takes the place of a policy's in the act's id."""

    RECOVERY = "recovery"
    """Start a job that waits without units."""
    DRAIN = "drain"
    """Move a job off hosts that will be removed."""
    BALANCE = "balance"
    """Move units after hosts came or went."""
    STANDBY = "standby"
    """Change only the copies of state."""
    TAKE_BACK = "take-back"
    """Stop the engine from wanting what a command that was given up had asked for."""
    INSIST = "insist"
    """Ask again for what somebody else has changed."""
    REAPPLY = "reapply"
    """Ask again for what was required before the job was submitted again."""
    SAFE = "safe"
    """Grow a job whose figures stay away."""
    REST = "rest"
    """Take a job that has nothing to do to no subtask at all."""
    WAKE = "wake"
    """Start a job that is at rest."""
    APPROVED = "approved"
    """Carry out advice that somebody has approved."""


WHY = {
    OwnAct.RECOVERY: "the job waits without parallel units: start it as wide as it was, or as wide as it can be",
    OwnAct.DRAIN: "the job is on a host that will be removed: move it, at the size it has",
    OwnAct.BALANCE: "hosts came or went, or cheaper ones are free: move units, at the size the job has",
    OwnAct.STANDBY: "copies of the units' state are started or dropped on other hosts; nothing else changes",
    OwnAct.TAKE_BACK: "a command was given up: stop the engine from wanting what it had asked for",
    OwnAct.INSIST: "somebody else changed the parallelism, and the settings say to insist on ours",
    OwnAct.REAPPLY: "the job was submitted again: ask for the parallelism that it had before",
    OwnAct.SAFE: "figures stayed away for longer than the settings allow: grow to the safe size; nothing becomes smaller",
    OwnAct.REST: "nothing came for as long as the settings say, nothing waits and all is committed: the job rests",
    OwnAct.WAKE: "the job was at rest: start it at the size that it last worked with",
    OwnAct.APPROVED: "somebody has approved the advice: carry out exactly what was advised",
}
"""Why each happens, for people."""


def own_act_of(act_id: str) -> OwnAct | None:
    """Return which act of the rescaler's own an id names, None if it names a policy's decision.

    >>> own_act_of("sim/clicks@60000/balance"), own_act_of("sim/clicks@60000/sure")
    (<OwnAct.BALANCE: 'balance'>, None)
    """
    _, _, name = (*act_id.split("/", 2), "", "")[:3]  # a job's id has one slash, and the name begins behind the second
    return OwnAct(name) if "@" in act_id and name in set(OwnAct) else None


def check_policy_name(name: str) -> None:
    """Refuse a policy with the name of an act of the rescaler's own: ids of its decisions would be ids of such acts.

    Raises:
        ValueError: it has such a name.
    """
    if name in set(OwnAct):
        raise ValueError(f"policy: {name!r} is the name of an act of the rescaler's own; give the policy another one")
