"""What a controller has said so far, for worlds that feed one and keep its effects."""

from surescale.contracts.commands import Balance, Outcome, RescheduleCommand
from surescale.rescaler.control.effects import Effects


class KeepsEffects:
    """A world with one controller; ``effects`` in their order."""

    effects: list[Effects]

    @property
    def looks(self) -> list[Balance]:
        """Every look at the hosts."""
        return [look for effects in self.effects for look in effects.balances]

    @property
    def outcomes(self) -> list[Outcome]:
        """Everything said about decisions."""
        return [outcome for effects in self.effects for outcome in effects.outcomes]

    @property
    def commands(self) -> list[RescheduleCommand]:
        """Every command."""
        return [command for effects in self.effects for command in effects.commands]
