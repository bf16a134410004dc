"""Tests: unit mirrors the rooms, properties state laws, integration and e2e run the real parts."""

import pytest

# By itself pytest shows the compared values of a failed assert only in test modules.
pytest.register_assert_rewrite("tests.support", "tests.ports", "tests.wire")
