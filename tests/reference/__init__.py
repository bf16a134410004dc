"""Models that the product is compared with: slower or simpler than the real thing, and never imported by it."""
