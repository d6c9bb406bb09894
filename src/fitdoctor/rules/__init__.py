"""Root causes: one module each, found by walking this package."""
