"""Where models are learned and exported. The only room that imports torch; nothing here is needed at run time."""
