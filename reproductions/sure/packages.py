"""Open packages as they are served: onnxruntime on one thread and the shared encoder, without torch."""

from dataclasses import dataclass
from pathlib import Path

from reproductions.sure.environment import View, sizes_of
from surescale.policies.graph import Int64
from surescale.policies.paper.card import PaperCard, is_paper_package, read_paper_package
from surescale.policies.paper.models import PaperModel, open_model

SHIPPED = Path(__file__).parent / "models"
"""Small models of the learned variants for the short form, one folder per job."""


@dataclass(frozen=True, slots=True)
class Served:
    """An opened package as a policy that sizes rows."""

    card: PaperCard
    model: PaperModel

    def sizes(self, view: View) -> Int64:
        """Return wanted parallelism [B, N]."""
        action = self.model.act(view.encoded, view.graph, view.seeds).action.astype("float64")
        return sizes_of(action, view.observed.current, view.job, view.terms)


def served(folder: Path) -> Served:
    """Open a package.

    Raises:
        PackageRejected: it is missing, damaged or foreign, or onnxruntime is not installed.
    """
    package = read_paper_package(folder)
    model, _ = open_model(package)
    return Served(package.card, model)


def shipped(job: str) -> dict[str, Served]:
    """Return the shipped packages of a job, by method."""
    folders = sorted(path.parent for path in (SHIPPED / job).glob("*/card.json"))
    opened = [served(folder) for folder in folders if is_paper_package(folder)]
    return {package.card.method: package for package in opened}
