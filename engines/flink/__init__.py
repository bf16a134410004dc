"""Apache Flink by its REST API, versions 1.20 to 2.3.

client          asks: kept connections, deadlines, one error class per kind of answer
errors          those classes, and how an answer becomes one of them
answers         the parts of the answers that are used
graph           a job's details as tasks: inputs, tied tasks, slot sharing, limits
identity        which job it is: its name, its epoch, its attempt
requirements    what Flink is asked for: read, merge, check, compare
source          what the monitor reads; job, samples, backlog, rescales and events are its parts
actuator        carries commands out
doctor          checks of `surescale doctor`
"""

from surescale.engines.flink_operator import BY_OPERATOR
from surescale.engines.prometheus import PROMETHEUS
from surescale.engines.registry import NO_ACTUATOR, ActuatorKind, Engine, SourceKind

ENGINE = Engine(
    sources={
        "flink": SourceKind(make="surescale.engines.flink.source:FlinkSource", checks="surescale.engines.flink.doctor:flink"),
        "prometheus": PROMETHEUS,
    },
    actuators={
        "flink": ActuatorKind(make="surescale.engines.flink.actuator:FlinkEngine.of"),
        "kubernetes": BY_OPERATOR,
        "none": NO_ACTUATOR,
    },
)
"""Jobs of one Flink cluster."""
