"""Says what is not known of a job's load and demand, and what would end that. Words for people; nothing is decided here."""

import numpy as np

from surescale.contracts.job_limits import has_members, is_simulated
from surescale.contracts.plurals import counted
from surescale.contracts.windows import FIGURE
from surescale.policies.graph import Bool
from surescale.policies.measure import NOTHING_MINUTES, mean_of_last
from surescale.policies.question import Question
from surescale.policies.trial import QUIET_MINUTES, Trial

_UNCOUNTED = "its records are not counted, so nobody knows what it needs"


def unknown_in_words(question: Question, restless: Bool, trial: Trial) -> str:
    """Return it in a few sentences, empty if all is known; ``restless``: bool [N], tasks that never rest."""
    topology, load = question.window.topology, question.measured.load
    if is_simulated(topology.engine):
        return ""
    known = np.flatnonzero(~np.isnan(load))
    age = len(load) - 1 - int(known[-1]) if len(known) else 0
    words = [question.window.unusable] if question.window.unusable else []
    words += [f"The newest known load is {'a minute' if age == 1 else f'{age} minutes'} old."] if age else []
    demand = question.measured.demand(np.array(1.0))  # of any load: only what a record costs, and how many come, is asked
    running = np.array([spec.state == "running" for spec in topology.tasks])
    unknown = np.isnan(demand) if len(known) else np.ones_like(running)
    blind = np.flatnonzero(unknown & running & question.graph.scalable).tolist()
    if blind:
        task = next((at for at in blind if restless[at]), blind[0])
        spec = topology.tasks[task]
        never = "it never rests, and " if restless[task] else ""
        others = f" The same goes for {counted(len(blind) - 1, 'more task')}." if len(blind) > 1 else ""
        words.append(f"{spec.label or spec.task}: {never}{_why(question, task)}.{others}")
    if (trial.fewer > 0).any():
        words.append(f"Fewer subtasks are tried, since nothing has waited for {QUIET_MINUTES} minutes.")
    for task in np.flatnonzero(trial.back > question.current).tolist()[:1]:
        spec = topology.tasks[task]
        words.append(
            f"{spec.label or spec.task} falls behind with {counted(spec.parallelism, 'subtask')} and gets its former size back."
        )
    for task in np.flatnonzero(question.understated > 1.0).tolist()[:1]:
        spec, share = topology.tasks[task], 1.0 / question.understated[task]
        words.append(f"{spec.label or spec.task}: busy {share:.0%} while records waited: the counter covers a part of the work.")
    return " ".join(words)


def _remedy(question: Question) -> str:
    """Return the setting that makes busy time known; empty where the engine has none."""
    if not has_members(question.window.topology.engine):
        return ""
    page = "; say in SURESCALE_GROUPS_FILE where its members show it: metrics alone for Java clients (poll idle ratio), "
    return page + "metrics and busy for a counter of seconds"


def _why(question: Question, task: int) -> str:
    """Return why the demand of a task is unknown."""
    mine = question.figures[:, task]
    if np.isnan(mine[:, FIGURE["coverage"]]).all():
        return "it has sent no figures, so nobody knows what it needs"
    counted = mine[:, [FIGURE["records_in"], FIGURE["records_out"]]]
    if np.isnan(counted).all():
        return _UNCOUNTED
    if not (counted > 0).any():
        worked = (mine[:, FIGURE["busy_ms"]] > 0).any()
        return _UNCOUNTED if worked else f"{NOTHING_MINUTES} known minutes are needed to tell what it needs"
    if np.isnan(mine[:, FIGURE["busy_ms"]]).all():
        return (
            f"its busy time is not reported and no queue keeps it at work, so nobody knows what a record costs{_remedy(question)}"
        )
    if np.isnan(mean_of_last(question.measured.load, len(mine))):
        return "what comes to its job is not known in any minute, so nobody knows what it needs"
    return "neither it nor the tasks before it say what reaches it"
