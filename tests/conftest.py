pytest_plugins = ["tests.postgres_fixture", "tests.valkey_fixture"]
