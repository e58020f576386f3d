"""A world in which searches train nothing."""

import pytest

from tests.searches import fake_runs


@pytest.fixture
def world(monkeypatch):
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    return world
