"""Checkpoints of training runs: what is damaged or foreign is refused by name, and a full disk keeps the one before."""

import resource
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from reproductions.sure import checkpoints  # noqa: E402
from reproductions.sure.checkpoints import CHECKPOINT, CheckpointNotWritten, CheckpointRejected, restored  # noqa: E402


@pytest.mark.parametrize("share", [0.0, 0.4, 0.99])
def test_a_checkpoint_cut_short_is_refused_by_name(share: float, tmp_path: Path) -> None:
    """Whatever torch makes of half a file."""
    checkpoints.write({"weights": torch.zeros(1_000)}, tmp_path)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(CheckpointRejected, match=r"checkpoint\.pt is damaged"):
        restored(tmp_path, lambda document: document["weights"])


@pytest.mark.parametrize("document", [[1], {"settings": "{}"}])
def test_a_checkpoint_of_something_else_is_refused_by_name(document: object, tmp_path: Path) -> None:
    """A list, and a run without most of its parts."""
    torch.save(document, tmp_path / CHECKPOINT)
    with pytest.raises(CheckpointRejected, match=r"checkpoint\.pt does not hold a run"):
        restored(tmp_path, lambda document: document["weights"])


def test_a_checkpoint_of_other_features_is_refused(tmp_path: Path) -> None:
    """Weights mean nothing without the slots that they were learned on."""
    torch.save({"slots_sha256": "of another version"}, tmp_path / CHECKPOINT)
    with pytest.raises(CheckpointRejected, match="trained on other features"):
        restored(tmp_path, lambda document: document["weights"])


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    """A file that may not grow beyond a kilobyte stands for the disk: one line, no partial file, the old bytes."""
    (tmp_path / CHECKPOINT).write_bytes(b"before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(CheckpointNotWritten, match=r"checkpoint\.pt cannot be written \(file too large\)"):
            checkpoints.write({"weights": torch.zeros(10_000)}, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(CHECKPOINT, b"before")]
