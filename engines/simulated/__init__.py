"""The simulated engine, as monitor, rescaler and doctor see it over HTTP."""

from surescale.engines.registry import NO_ACTUATOR, ActuatorKind, Engine, SourceKind

ENGINE = Engine(
    sources={
        "simulated": SourceKind(
            make="surescale.engines.simulated.source:EngineSource.of",
            checks="surescale.engines.simulated.doctor:simulated",
            follows_clock=True,
        )
    },
    actuators={"simulated": ActuatorKind(make="surescale.engines.simulated.actuator:EngineHttp.of"), "none": NO_ACTUATOR},
    is_secured=False,
)
"""`surescale run engine`."""
