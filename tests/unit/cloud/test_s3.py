"""Conditional writes to a bucket, and every way in which they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from actions.base.errors import AccessError, ConsoleError, FormatError, MissingError, UnreachableError
from actions.base.objects import PreconditionError
from actions.base.readonly import promise_readonly
from actions.cloud import s3
from actions.cloud.aws_session import AwsSession
from actions.cloud.s3 import S3Bucket
from tests.support.stores import BUCKET, BUSY, DENIED, EXPIRED, SKEWED, SLOW_DOWN, TAKEN, Fault, Proxy, a_home


@pytest.fixture(scope="module")
def served() -> Iterator[Proxy]:
    with a_home() as proxy:
        yield proxy


@pytest.fixture
def proxy(served: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    served.use(monkeypatch)
    return served


@pytest.fixture
def bucket(proxy: Proxy) -> Iterator[S3Bucket]:
    made = S3Bucket(BUCKET, AwsSession(threads=2))
    yield made
    made.close()


def done(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_an_object_is_created_once_and_replaced_by_who_has_read_it(proxy: Proxy, bucket: S3Bucket) -> None:
    async def work() -> None:
        assert await bucket.get("a/1") is None
        first = await bucket.put_if_absent("a/1", b"one")
        with pytest.raises(PreconditionError) as taken:
            await bucket.put_if_absent("a/1", b"two")
        assert taken.value.found is not None
        assert taken.value.found.body == b"one"
        second = await bucket.replace("a/1", b"three", etag=first.etag)
        with pytest.raises(PreconditionError):
            await bucket.replace("a/1", b"four", etag=first.etag)
        found = await bucket.get("a/1")
        assert found is not None
        assert (found.body, found.etag) == (b"three", second.etag)
        await bucket.delete("a/1")
        with pytest.raises(PreconditionError) as gone:
            await bucket.replace("a/1", b"five", etag=second.etag)
        assert gone.value.found is None

    done(work())
    assert all(line.split(" ")[1].startswith(f"/{BUCKET}") for line in proxy.requests), "path style"


def test_the_write_of_the_same_bytes_is_done_already(proxy: Proxy, bucket: S3Bucket) -> None:
    async def work() -> None:
        first = await bucket.put_if_absent("same", b"one")
        assert (await bucket.put_if_absent("same", b"one")).etag == first.etag
        assert (await bucket.replace("same", b"one", etag='"other"')).etag == first.etag

    done(work())


def test_a_lost_answer_to_a_write_that_took_is_no_failure(proxy: Proxy, bucket: S3Bucket) -> None:
    lost: list[str] = []

    def first_put(method: str, _path: str) -> bool:
        if method == "PUT":
            lost.append(method)
        return method == "PUT" and len(lost) == 1

    proxy.loses_answers, proxy.applies = True, first_put
    receipt = done(bucket.put_if_absent("lost", b"taken"))
    assert len(proxy.puts("lost")) == 2
    lost.clear()
    assert done(bucket.replace("lost", b"taken again", etag=receipt.etag)).etag != receipt.etag
    assert done(bucket.get("lost")).body == b"taken again"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (SLOW_DOWN, UnreachableError),
        (Fault(500, "InternalError"), UnreachableError),
        (EXPIRED, AccessError),
        (SKEWED, AccessError),
        (DENIED, AccessError),
        (BUSY, UnreachableError),
    ],
)
def test_each_refusal_is_an_error_of_its_own(
    proxy: Proxy, bucket: S3Bucket, fault: Fault, kind: type[ConsoleError]
) -> None:
    proxy.fault, proxy.applies = fault, lambda method, _path: method == "PUT"
    with pytest.raises(kind):
        done(bucket.put_if_absent(f"refused/{fault.code}", b"x"))


def test_a_refused_condition_is_a_conflict(proxy: Proxy, bucket: S3Bucket) -> None:
    proxy.fault, proxy.applies = TAKEN, lambda method, _path: method == "PUT"
    with pytest.raises(PreconditionError):
        done(bucket.put_if_absent("refused/412", b"x"))


def test_no_answer_is_no_statement(proxy: Proxy, bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy.is_away = True
    with pytest.raises(UnreachableError):
        done(bucket.get("anything"))
    proxy.mend()
    monkeypatch.setattr(s3, "_READ_SECONDS", 0.2)
    proxy.delay_seconds = 1.0
    slow = S3Bucket(BUCKET, AwsSession(threads=1))
    with pytest.raises(UnreachableError):
        done(slow.get("anything"))
    slow.close()


def test_a_missing_bucket_is_named(proxy: Proxy) -> None:
    missing = S3Bucket("no-such-bucket-here", AwsSession(threads=1))
    for work in (missing.get("a"), missing.put_if_absent("a", b""), missing.objects("a"), missing.folders("a/")):
        with pytest.raises(MissingError, match="There is no bucket no-such-bucket-here"):
            done(work)
    missing.close()


def test_the_age_is_of_the_stores_clock(proxy: Proxy, bucket: S3Bucket) -> None:
    done(bucket.put_if_absent("age", b"x"))
    assert done(bucket.get("age")).age_seconds < 600
    proxy.clock_offset_seconds = 3600
    assert done(bucket.get("age")).age_seconds == pytest.approx(3600, abs=600)


def test_lists_are_complete_and_begin_where_they_are_told(proxy: Proxy, bucket: S3Bucket) -> None:
    names = [f"many/{folder}/{number}" for folder in "ab" for number in range(3)]

    async def work() -> None:
        for name in names:
            await bucket.put_if_absent(name, b"x")
        assert [item.key for item in await bucket.objects("many/")] == names
        assert await bucket.folders("many/") == ["a", "b"]

    done(work())


def test_what_is_larger_than_expected_is_refused(proxy: Proxy, bucket: S3Bucket) -> None:
    done(bucket.put_if_absent("large", b"x" * 100))
    with pytest.raises(FormatError, match="more than 99 bytes"):
        done(bucket.get("large", limit_bytes=99))


def test_a_readonly_process_writes_nothing(proxy: Proxy, bucket: S3Bucket) -> None:
    promise_readonly()
    for work in (bucket.put_if_absent("a", b""), bucket.replace("a", b"", etag=""), bucket.delete("a")):
        with pytest.raises(ConsoleError, match="read-only"):
            done(work)
    assert not proxy.puts()
