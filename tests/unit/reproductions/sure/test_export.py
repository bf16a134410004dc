"""Packages of the paper's policies: ONNX answers as torch does for any number of tasks, and what is damaged is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="export needs torch: make install-train")

import hashlib  # noqa: E402

from reproductions.sure.environment import PaperMode  # noqa: E402
from reproductions.sure.export import card_of, export_graphs, slug  # noqa: E402
from reproductions.sure.layers import State  # noqa: E402
from reproductions.sure.settings import PaperSettings  # noqa: E402
from reproductions.sure.train import begin  # noqa: E402
from surescale.model_export.export import write_card  # noqa: E402
from surescale.policies.package import PackageRejected  # noqa: E402
from surescale.policies.paper.card import read_paper_package  # noqa: E402
from surescale.policies.paper.models import open_model  # noqa: E402
from surescale.policies.registry import Unavailable, load_policy  # noqa: E402
from tests.unit.reproductions.sure.cases import STATISTICS, layered, states  # noqa: E402

SIZES = (3, 6, 16, 25, 32, 40, 46, 100)
KINDS = {"SURE": "subgraph", "w/o NVSS": "subgraph", "ASTGCN": "whole", "DREAM": "sequential", "CCRNN": "recurrent"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a package of every kind, of small untrained networks that act."""
    import logging

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    root = tmp_path_factory.mktemp("packages")
    for method in KINDS:
        run = begin(PaperSettings(method, ("j_2521346",), hidden=8, anchors=5), STATISTICS)
        for part in run.model.modules():
            if isinstance(getattr(part, "out", None), torch.nn.Linear):
                torch.nn.init.orthogonal_(part.out.weight)
        (root / slug(method)).mkdir()
        export_graphs(run.model, root / slug(method), 60)
        write_card(card_of(run, run.model, root / slug(method), slug(method)), root / slug(method))
        torch.save(run.model.state_dict(), root / slug(method) / "weights.pt")
    return root


@pytest.mark.parametrize("method", KINDS)
def test_onnx_acts_as_torch_does_for_any_number_of_tasks(folder: Path, method: str) -> None:
    """Actions agree to 1e-5 in batches of one and of three, with a tenth of the task-minutes unreported."""
    package = read_paper_package(folder / slug(method))
    assert package.card.kind == KINDS[method]
    served, _ = open_model(package)
    model = begin(PaperSettings(method, ("j_2521346",), hidden=8, anchors=5), STATISTICS).model
    model.load_state_dict(torch.load(folder / slug(method) / "weights.pt", weights_only=True))
    for tasks in SIZES:
        graph, rows = layered(tasks), 1 if tasks == 100 else 3
        encoded = states(rows, tasks, seed=tasks)
        encoded.mask[:, :50][np.random.default_rng(1).random((rows, 50, tasks)) < 0.1] = False
        encoded.x[~encoded.mask] = 0.0
        with torch.no_grad():
            wanted = model.mean_action(State.of(encoded, graph), range(rows)).numpy()
        np.testing.assert_allclose(served.act(encoded, graph, range(rows)).action, wanted, atol=1e-5)


def test_a_package_is_a_policy_like_any_other(folder: Path) -> None:
    """By name from a folder; it decides every hour."""
    policy = load_policy("sure", str(folder))
    assert policy.name == "sure"
    assert policy.span_minutes == 60
    assert len(policy.sha256) == 64


@pytest.mark.parametrize(("mode", "rules"), [("clean", (1.0, "half-up")), ("compat", (0.9, "towards-zero"))])
def test_a_card_says_what_its_mode_makes_of_an_action(tmp_path: Path, mode: PaperMode, rules: tuple[float, str]) -> None:
    """Serving has no modes: without these numbers a ``compat`` run would be served like a ``clean`` one."""
    run = begin(PaperSettings("ASTGCN", ("j_2521346",), mode=mode, hidden=8), STATISTICS)
    card = card_of(run, run.model, tmp_path, "astgcn")
    assert (card.reach, card.rounding) == rules


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("feature_version", 99, "feature version 99"),
        ("paper_format", 9, "format 9"),
        ("kind", "oracle", "not a valid card"),
        ("files", {}, "damaged"),
    ],
)
def test_a_foreign_card_is_refused_by_what_is_wrong_with_it(
    folder: Path, tmp_path: Path, field: str, value: object, words: str
) -> None:
    """The policy of that name says so at every window."""
    copied = tmp_path / "sure"
    copied.mkdir()
    for path in (folder / "sure").iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    card = json.loads((copied / "card.json").read_bytes())
    (copied / "card.json").write_text(json.dumps({**card, field: value}))
    with pytest.raises(PackageRejected, match=words):
        read_paper_package(copied)
    assert isinstance(load_policy("sure", str(tmp_path)), Unavailable)


def test_a_truncated_graph_is_refused_even_with_its_own_checksum(folder: Path, tmp_path: Path) -> None:
    """The error of onnxruntime becomes one line that names the package."""
    copied = tmp_path / "sure"
    copied.mkdir()
    for path in (folder / "sure").iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    cut = (copied / "policy.onnx").read_bytes()[:500]
    (copied / "policy.onnx").write_bytes(cut)
    card = json.loads((copied / "card.json").read_bytes())
    card["files"]["policy.onnx"] = hashlib.sha256(cut).hexdigest()
    (copied / "card.json").write_text(json.dumps(card))
    found = load_policy("sure", str(tmp_path))
    assert isinstance(found, Unavailable)
    assert "sure" in found.reason
