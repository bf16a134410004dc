"""An engine of one folder, as an example of how to bring one: each job is a file, which says what is required and what runs."""

from dataclasses import dataclass

from surescale.contracts.settings import Settings
from surescale.engines.registry import NO_ACTUATOR, ActuatorKind, Engine, SourceKind


@dataclass(frozen=True, slots=True)
class TinySettings(Settings):
    """Of the engine tiny."""

    tiny_folder: str = ""
    """Folder with a file NAME.json for each job."""


ENGINE = Engine(
    sources={"tiny": SourceKind(make="tiny_engine.source:TinySource", checks="tiny_engine.jobs:checks", needs=("tiny_folder",))},
    actuators={"tiny": ActuatorKind(make="tiny_engine.actuator:TinyActuator", needs=("tiny_folder",)), "none": NO_ACTUATOR},
    settings=(TinySettings,),
)
