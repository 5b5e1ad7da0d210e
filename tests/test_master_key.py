"""The master key comes from a file or the environment, can change beside the one before, and is refused with why."""

from __future__ import annotations

import base64
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memory import master, on_disk
from memory.adapters.postgres import sealing
from memory.envelope import Bound, key_id_of
from memory.errors import EnvelopeUnreadable, StartFailed
from memory.ids import new_id
from memory.keys import KeyRing
from memory.master import ENVIRONMENT, LocalMaster, MasterKey, load_or_create_master_key, master_key
from tests.key_table import Table

SECRET = bytes(range(32))
GIVEN = base64.b64encode(SECRET).decode()
BINDING = sealing.of_turn(new_id(), new_id(), "key")


@pytest.mark.parametrize("around", ["", "\n", " "])  # a file that was read into the variable ends with a line's end
async def test_the_environment_comes_before_the_file(tmp_path: Path, around: str) -> None:
    given = master_key(tmp_path / "master.key", None, {ENVIRONMENT: GIVEN + around})
    assert await given.unwrap(BINDING, await LocalMaster(SECRET).wrap(BINDING, bytes(32))) == bytes(32)
    assert not (tmp_path / "master.key").exists()


@pytest.mark.parametrize("given", ["", "not base64!", base64.b64encode(bytes(31)).decode(), f"{GIVEN[:9]}!{GIVEN[9:]}"])
def test_a_bad_key_in_the_environment_stops_the_start_and_is_not_shown(tmp_path: Path, given: str) -> None:
    with pytest.raises(StartFailed, match="openssl rand -base64 32") as refused:
        master_key(tmp_path / "master.key", None, {ENVIRONMENT: given})
    assert not given or given not in str(refused.value)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_file_of_another_length_stops_the_start_and_stays(tmp_path: Path, size: int) -> None:
    (path := tmp_path / "master.key").write_bytes(bytes(size))
    path.chmod(0o600)
    with pytest.raises(StartFailed, match=f"has {size} bytes, not 32; restore it"):
        master_key(path, None, {})
    assert path.read_bytes() == bytes(size)


def test_of_two_that_start_at_once_the_key_of_the_first_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_or_create_master_key(tmp_path / "master.key")
    monkeypatch.setattr("memory.master.is_there", lambda path: False)  # the second looked before the first was done
    assert load_or_create_master_key(tmp_path / "master.key") == first
    assert list(tmp_path.iterdir()) == [tmp_path / "master.key"]


def test_a_key_whose_name_met_a_fault_is_on_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut would take it, and with it all that was sealed under it since."""
    faults, named, before = [OSError(errno.EIO, "Input/output error")], list[Path](), on_disk.synced

    def synced(path: Path) -> None:
        if faults:
            raise faults.pop()
        before(path)
        named.append(path)

    monkeypatch.setattr(master, "synced", synced)
    with pytest.raises(StartFailed, match=r"Input/output error"):
        load_or_create_master_key(tmp_path / "master.key")
    load_or_create_master_key(tmp_path / "master.key")
    assert named == [tmp_path]


async def test_what_the_previous_key_wrapped_opens_and_is_known_as_old(tmp_path: Path) -> None:
    old = await master_key(tmp_path / "old", None, {}).wrap(BINDING, SECRET)
    both = master_key(tmp_path / "new", tmp_path / "old", {})
    assert await both.unwrap(BINDING, old) == SECRET and not both.is_current(old)
    assert both.is_current(await both.wrap(BINDING, SECRET))
    with pytest.raises(EnvelopeUnreadable):
        await master_key(tmp_path / "new", None, {}).unwrap(BINDING, old)


async def test_what_follows_from_the_key_is_of_the_one_in_force_and_does_not_tell_it() -> None:
    both = LocalMaster(SECRET, (bytes(32),))
    assert await both.derived(b"receipts") == await LocalMaster(SECRET).derived(b"receipts")
    assert await both.derived(b"receipts") != await LocalMaster(bytes(32)).derived(b"receipts")
    assert len({SECRET, await both.derived(b"receipts"), await both.derived(b"names")}) == 3
    named = key_id_of(await both.wrap(BINDING, bytes(32))).bytes  # in clear in every envelope
    assert not any(named[at : at + 4] in SECRET for at in range(13))


async def test_a_wrapped_key_opens_for_its_own_row_only() -> None:
    wrapped = await LocalMaster(SECRET).wrap(BINDING, bytes(32))
    with pytest.raises(EnvelopeUnreadable):
        await LocalMaster(SECRET).unwrap(sealing.of_turn(new_id(), BINDING.row_id, "key"), wrapped)


def test_a_previous_key_that_is_not_there_is_never_made(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="take the setting out"):
        master_key(tmp_path / "new", tmp_path / "old", {})
    assert not (tmp_path / "old").exists()


class Counted:
    """A KMS somewhere else, that counts how often it is asked."""

    def __init__(self) -> None:
        self.inside, self.asked = LocalMaster(SECRET), 0

    async def wrap(self, binding: Bound, secret: bytes) -> bytes:
        self.asked += 1
        return await self.inside.wrap(binding, secret)

    async def unwrap(self, binding: Bound, wrapped: bytes) -> bytes:
        self.asked += 1
        return await self.inside.unwrap(binding, wrapped)

    def is_current(self, wrapped: bytes) -> bool:
        return self.inside.is_current(wrapped)

    async def derived(self, info: bytes) -> bytes:
        self.asked += 1
        return await self.inside.derived(info)


@pytest.mark.parametrize("place", ["a" * 300, "loop/key"])
def test_a_place_that_cannot_be_looked_into_stops_the_start_with_why(tmp_path: Path, place: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StartFailed, match="cannot be"):
        master_key(tmp_path / place, None, {})
    with pytest.raises(StartFailed, match=r"is not there|cannot be"):
        master_key(tmp_path / "new", tmp_path / place, {})


async def test_a_kms_is_plugged_in_and_asked_once_for_a_tenant() -> None:
    kms = Counted()
    plugged: MasterKey = kms
    ring, tenant = KeyRing(Table(), plugged), new_id()
    for user in ("ada", "bob", "ada"):
        await ring.subject_key(tenant, user)
    assert kms.asked == 2  # wrapped when it was made, unwrapped when it was read


def test_a_key_that_was_to_lie_elsewhere_names_that_place(tmp_path: Path) -> None:
    """`choose another --data-dir`, which changes nothing of it, was the remedy."""
    with pytest.raises(StartFailed, match=rf"see that {tmp_path}/none is there.* or encryption.master_key_file"):
        master_key(tmp_path / "none" / "key", None, {})


def test_a_disk_that_is_full_keeps_no_draft_of_the_key(tmp_path: Path) -> None:
    script = f"""
import pathlib, resource, signal
from memory.master import master_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
master_key(pathlib.Path({str(tmp_path / "master.key")!r}), None, {{}})
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "StartFailed" in ended.stderr and "choose another --data-dir" in ended.stderr, ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file away")
@pytest.mark.parametrize(("mode", "is_taken"), [(0o400, True), (0o440, True), (0o444, False), (0o460, False)])
def test_a_mounted_key_of_another_is_taken_where_its_group_alone_may_read_it(
    tmp_path: Path, mode: int, is_taken: bool
) -> None:
    path = tmp_path / "mounted"
    path.write_bytes(SECRET)
    os.chown(path, 65_534, os.getegid())
    path.chmod(mode)
    if is_taken:
        assert load_or_create_master_key(path) == SECRET
        return
    with pytest.raises(StartFailed, match="mount it with mode 0440"):
        load_or_create_master_key(path)


def test_a_key_whose_maker_was_killed_is_left_under_one_name(tmp_path: Path) -> None:
    """Who puts the key elsewhere afterwards, or keeps it apart from the copies, would leave it there all the same."""
    killed = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom memory.master import load_or_create_master_key\n"
        "link = os.link\n"
        "os.link = lambda *names: (link(*names), os.kill(os.getpid(), signal.SIGKILL))\n"
        "load_or_create_master_key(Path(sys.argv[1]))\n"
    )
    path = tmp_path / "master.key"
    ended = subprocess.run([sys.executable, "-c", killed, str(path)], timeout=60, check=False)
    made = path.read_bytes()
    (tmp_path / ".master.key.7.0badcafe").write_bytes(bytes(32))  # of another that makes one at this moment
    assert (ended.returncode, len(list(tmp_path.iterdir()))) == (-signal.SIGKILL, 3)
    assert load_or_create_master_key(path) == made
    assert sorted(one.name for one in tmp_path.iterdir()) == [".master.key.7.0badcafe", "master.key"]
