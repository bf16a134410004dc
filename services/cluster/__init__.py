"""Shows a cluster as its scheduler sees it. Reads the view only."""
