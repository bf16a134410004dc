"""Shows a cluster as its scheduler sees it. Reads only the view."""
