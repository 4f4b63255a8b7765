"""Which lock: Hudi's names and ours, and what is refused before anything happens."""

from __future__ import annotations

import pickle

import pytest

from workers.errors import InvalidInput
from workers.options.lock_options import (
    URL_VARIABLE,
    LockProvider,
    LockSettings,
    LockUrl,
)
from workers.options.node_options import reject_connection_options
from workers.options.write_options import write_options

HUDI = "org.apache.hudi.client.transaction.lock."
SECRET = "s3cr3t/with@signs"
REDIS = "redis://:s3cr3t%2Fwith%40signs@cache:6379/0"


@pytest.fixture(autouse=True)
def _no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL_VARIABLE, raising=False)


def lock(**given: str) -> LockSettings:
    names = {
        "provider": "hoodie.write.lock.provider",
        "path": "hoodie.write.lock.filesystem.path",
        "expire": "hoodie.write.lock.filesystem.expire",
        "url": "sluice.lock.url",
    }
    return write_options({names[name]: value for name, value in given.items()}).lock


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        (f"{HUDI}StorageBasedLockProvider", LockProvider.STORAGE),
        (f"{HUDI}FileSystemBasedLockProvider", LockProvider.FILESYSTEM),
        (f"{HUDI}InProcessLockProvider", LockProvider.IN_PROCESS),
        ("FileSystemBasedLockProvider", LockProvider.FILESYSTEM),
        ("storage", LockProvider.STORAGE),
        ("in_process", LockProvider.IN_PROCESS),
    ],
)
def test_hudis_names_and_ours_are_understood(name: str, provider: LockProvider) -> None:
    assert lock(provider=name).provider is provider


def test_nothing_is_named_by_default() -> None:
    assert write_options({}).lock.provider is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"provider": f"{HUDI}ZookeeperBasedLockProvider"}, "FileSystemBasedLockProvider on both"),
        (
            {"provider": "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"},
            "DynamoDBBasedLockProvider",
        ),
        (
            {"provider": "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"},
            "HiveMetastoreBasedLockProvider",
        ),
        ({"provider": f"{HUDI}NoopLockProvider"}, "NoopLockProvider"),
        ({"provider": "postgres"}, "known=storage, filesystem, database, redis, in_process"),
        ({"provider": "com.example.Mine"}, "known=storage"),
        ({"provider": "database"}, "set sluice.lock.url, or SLUICE_LOCK_URL"),
        ({"provider": "redis"}, "for_example=redis://"),
        ({"provider": "redis", "url": "postgresql://db/x"}, "scheme=postgresql"),
        ({"provider": "database", "url": "redis://cache"}, "scheme=redis"),
        ({"provider": "database", "url": "postgresql://[db/x"}, "must be a URL"),
        ({"provider": "storage", "url": REDIS}, "belongs to the lock providers database and redis"),
        ({"url": REDIS}, "write=database or redis"),
        ({"path": "/locks"}, "write=hoodie.write.lock.provider=filesystem"),
        ({"provider": "filesystem", "path": "locks"}, "absolute path"),
        ({"provider": "filesystem", "path": "s3://bucket/locks"}, "absolute path"),
        ({"provider": "filesystem", "expire": "-1"}, "whole number"),
        ({"provider": "filesystem", "expire": "soon"}, "whole number"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        lock(**given)

    assert said in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


def test_misspelt_keys_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"did_you_mean=hoodie\.write\.lock\.provider"):
        write_options({"hoodie.write.lock.providers": "storage"})


def test_lock_directory_may_be_a_uri_as_hudi_writes_it() -> None:
    assert lock(provider="filesystem", path="file:///var/locks/").directory == "/var/locks"


def test_password_is_in_no_text_of_the_options() -> None:
    options = write_options({"hoodie.write.lock.provider": "redis", "sluice.lock.url": REDIS})

    for text in (repr(options), str(options), repr(options.lock.url), str(options.lock.url)):
        assert "s3cr3t" not in text
        assert "cache:6379" in text
    assert options.lock.url is not None
    assert options.lock.url.full == REDIS
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("full", "shown"),
    [
        (REDIS, "redis://cache:6379/0"),
        ("postgresql://ada:pw@db:5432/locks?sslmode=require", "postgresql://ada@db:5432/locks"),
        ("postgresql://db/locks?user=ada&password=pw", "postgresql://db/locks"),
        ("sqlite:////var/locks.db", "sqlite:////var/locks.db"),
        ("unix://:pw@/run/redis.sock?db=1", "unix:///run/redis.sock"),
    ],
)
def test_what_is_shown_of_an_address_names_the_server_only(full: str, shown: str) -> None:
    assert LockUrl(full).redacted == shown


def test_drivers_message_that_quotes_a_password_is_cleaned() -> None:
    said = LockUrl(REDIS).redact(f"bad password {SECRET} in {REDIS}")

    assert said == "bad password ... in ..."


def test_address_without_password_takes_it_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(URL_VARIABLE, REDIS)

    named = lock(provider="redis", url="redis://cache:6379/0").url
    other = lock(provider="redis", url="redis://elsewhere:6379/0").url

    assert named == LockUrl(REDIS)
    assert other == LockUrl("redis://elsewhere:6379/0")
    assert lock(provider="redis").url == LockUrl(REDIS)


def test_options_of_a_request_name_no_address_and_none_is_repeated() -> None:
    reject_connection_options({"hoodie.write.lock.provider": "redis"})

    with pytest.raises(InvalidInput, match="SLUICE_LOCK_URL") as refused:
        reject_connection_options({"sluice.lock.url": REDIS})
    assert "s3cr3t" not in str(refused.value)
