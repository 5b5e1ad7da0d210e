"""What all tests share. No property has a deadline: on a busy machine it would fail for being slow."""

from hypothesis import settings

pytest_plugins = ["tests.postgres_fixture", "tests.valkey_fixture", "tests.service_fixture"]
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
