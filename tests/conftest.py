"""What all tests share. A property has no deadline: on a busy machine it fails for being slow, which is no test of it."""

from hypothesis import settings

pytest_plugins = ["tests.postgres_fixture", "tests.valkey_fixture", "tests.service_fixture"]
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
