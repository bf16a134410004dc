"""What the checker found: how much of each invariant it looked at, and where it does not hold."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where an invariant does not hold."""

    invariant: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.where}: {self.what}"


@dataclass(slots=True)
class Findings:
    """Violations, and by invariant the number of things that were compared: zero would prove nothing."""

    looked_at: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def expect(self, holds: bool, invariant: str, where: str, what: str) -> None:
        """Count one comparison, and keep it if it fails."""
        self.looked_at[invariant] += 1
        if not holds:
            self.violations.append(Violation(invariant, where, what))
