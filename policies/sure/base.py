"""Everything that is fitted: the outlook, the plan's constants, and those of the rule ``forecast``."""

import msgspec

from surescale.policies.forecast import Forecast
from surescale.policies.sizing import Sizing
from surescale.policies.sure.outlook import Outlook
from surescale.policies.sure.planning_input import Planning


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """``outlook`` and ``planning`` decide; ``forecast`` and ``sizing`` make the rule."""

    forecast: Forecast
    sizing: Sizing
    outlook: Outlook
    planning: Planning
