pytest_plugins = ["tests.postgres_fixture", "tests.valkey_fixture", "tests.service_fixture"]
