"""Lists every Python distribution of this environment with its version and licence, one a line, sorted."""

from importlib.metadata import Distribution, distributions

_PREFIX = "License :: "


def licence_of(found: Distribution) -> str:
    """Return the licence expression, else the classifiers, else the first line of the licence field."""
    metadata = found.metadata
    classifiers = [text for text in metadata.get_all("Classifier") or [] if text.startswith(_PREFIX)]
    named = [text.rpartition(" :: ")[2] for text in classifiers if text != f"{_PREFIX}OSI Approved"]
    plain = (metadata["License"] or "").strip().splitlines()
    return metadata["License-Expression"] or "; ".join(named) or (plain[0] if plain else "see its files")


def main() -> None:
    """Print the list."""
    for line in sorted({f"{found.metadata['Name']} {found.version}: {licence_of(found)}" for found in distributions()}):
        print(line)


if __name__ == "__main__":
    main()
