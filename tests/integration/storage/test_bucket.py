"""What only a bucket has: manifests that are created once, and a server that may be away."""

from pathlib import Path

import pytest
from everstep_checkpoint.bucket import PART_BYTES, Bucket
from everstep_checkpoint.errors import StorageFullError, UnusableRootError
from everstep_checkpoint.media import Key, medium
from everstep_checkpoint.shards import verify_shard, write_shard
from everstep_checkpoint.storage import MANIFEST, Storage
from support.jobs import JOB
from support.s3 import S3, s3_server
from support.saved import LINEAGE, prepared

FINAL = Key("job/g1-s7-0")


def test_of_two_committers_the_first_one_counts(bucket_root: str) -> None:
    bucket = Bucket(bucket_root)
    for data in (b"first", b"second"):
        bucket.publish(FINAL, FINAL, (MANIFEST, data))
    with bucket.open(FINAL / MANIFEST) as file:
        assert file.readall() == b"first"


def test_s3_itself_refuses_a_second_manifest_however_late_it_was_looked_for(s3: S3) -> None:
    bucket = Bucket(s3.root("conditional"))
    bucket.publish(FINAL, FINAL, (MANIFEST, b"first"))
    with pytest.raises(OSError, match="pre-conditions"):
        bucket._fs.pipe_file(bucket._path(FINAL / MANIFEST), b"second", mode="create")


def test_of_two_saves_in_one_place_one_is_whole_and_the_other_is_gone(bucket_root: str) -> None:
    storage = Storage(bucket_root)
    first, second = prepared(storage), prepared(storage, writer="b")
    storage.commit(first)
    storage.commit(second)
    assert storage.manifests() == ([first], [])
    storage.verify(first)
    files = {shard.file for shard in first.shards}
    assert set(storage.medium.names(storage.folder(first))) == {*files, MANIFEST}


def test_a_shard_of_many_parts_is_whole(bucket_root: str) -> None:
    storage = Storage(bucket_root)
    key = storage.attempt(JOB, LINEAGE, 1, 7) / "0-a.safetensors"
    body = bytes(range(256)) * (1 << 15)
    shard = write_shard(storage.medium, key, [body] * (2 * PART_BYTES // len(body) + 1))
    assert storage.medium.size(key) == shard.total_bytes > 2 * PART_BYTES
    verify_shard(storage.medium, key, shard)


def test_a_deletion_that_a_crash_cut_short_is_an_attempt_that_is_collected(
    bucket_root: str,
) -> None:
    storage = Storage(bucket_root)
    manifest = prepared(storage)
    storage.commit(manifest)
    left = storage.set_aside(manifest)
    assert list(storage.leftovers()) == [left]
    storage.collect(storage.leftovers())
    assert storage.folders() == []


def test_a_bucket_that_is_not_there_is_not_an_empty_one(s3: S3) -> None:
    bucket = medium("s3://everstep-nowhere/checkpoints")
    with pytest.raises(FileNotFoundError):
        bucket.names(Key())
    with pytest.raises(OSError, match="s3://everstep-nowhere"):
        bucket.check()


def test_a_server_that_is_away_is_an_error_of_the_system_and_never_an_empty_answer(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server(tmp_path / "server.log") as other:
        monkeypatch.setenv("AWS_ENDPOINT_URL", other.url)
        storage = Storage(other.root("away"))
        manifest = prepared(storage)
        other.stop()
        asked = (
            storage.leftovers,
            lambda: storage.is_there(manifest),
            lambda: prepared(storage, 8),
        )
        for ask in asked:
            with pytest.raises(OSError, match="s3://") as caught:
                ask()
            assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("word", ["XMinioStorageFull", "QuotaExceeded"])
def test_a_store_that_is_full_says_so(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket("memory://full")

    def full(*_: object, **__: object) -> None:
        raise OSError(5, f"An error occurred ({word}) when calling the PutObject operation")

    monkeypatch.setattr(bucket._fs, "pipe_file", full)
    with pytest.raises(StorageFullError, match="memory://full/job/marks"):
        bucket.replace(Key("job/marks"), b"x")


@pytest.mark.parametrize("url", ["s4://bucket/x", "no-such-scheme://x"])
def test_a_url_that_nothing_here_reads_is_said_so(url: str) -> None:
    with pytest.raises(UnusableRootError, match=f"{url}: .*rotocol not known"):
        medium(url)
