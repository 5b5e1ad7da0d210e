"""What all tests share. No property has a deadline: on a busy machine it would fail for being slow."""

import signal

import pytest
from hypothesis import settings

pytest_plugins = ["tests.postgres_fixture", "tests.valkey_fixture", "tests.service_fixture"]
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """Programs that tests start are told to end by SIGINT too, which a shell's `&` has all of them ignore."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


SHARED_SERVICES = ("service", "keyed_service", "scripted_session")
"""Fixtures that are set up once a process: all tests with one of them go to one process."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What several processes share out among themselves, and what they pass over.

    A service costs 11 s of processor time to start and stop: tests that share one go to one process, and those of a
    file, whose fixtures are costly too, stay together. The long ones are only asked for by name, so that all the others
    take less than a quarter of an hour.
    """
    passed_over = pytest.mark.skip(reason="takes long; make test-long")
    only_named = "long" not in (config.option.markexpr or "")
    for item in items:
        shared = [name for name in SHARED_SERVICES if name in getattr(item, "fixturenames", ())]
        item.add_marker(pytest.mark.xdist_group(shared[0] if shared else item.nodeid.partition("::")[0]))
        if only_named and item.get_closest_marker("long"):
            item.add_marker(passed_over)
