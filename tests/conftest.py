"""What all tests share. No property has a deadline: on a busy machine it would fail for being slow."""

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

pytest_plugins = [
    "tests.postgres_fixture",
    "tests.valkey_fixture",
    "tests.cluster_fixture",
    "tests.service_fixture",
]
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """Programs that tests start are told to end by SIGINT and SIGHUP too, which `&` and nohup have them ignore."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


@pytest.fixture(autouse=True)
def held_back() -> Iterator[None]:
    """A test leaves no signal held back: what later tests start would not hear it, and seven of them failed by it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    assert signal.pthread_sigmask(signal.SIG_SETMASK, before) == before


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long ones are only asked for by name, so that all the others take less than a quarter of an hour."""
    if "long" in (config.option.markexpr or ""):
        return
    passed_over = pytest.mark.skip(reason="takes long; make test-long")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(passed_over)


def pytest_collection_finish() -> None:
    """What was loaded and collected stays until the end: the collector need not look at it again and again (5 %)."""
    gc.collect()
    gc.freeze()
