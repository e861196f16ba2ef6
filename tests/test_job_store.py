"""Jobs in an object store: processes of the command on a server of S3, which kills, loses and lies.

`make store` builds the command with the feature `store`, installs the server and runs these tests.
"""

import datetime
import email.utils
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest

COMMAND = pathlib.Path(__file__).parent.parent / "target" / "becalm-store"
pytestmark = pytest.mark.skipif(
    not COMMAND.exists(), reason="the command has no object stores here: make store"
)
TABLE = "0,1,4,9,0,9,4,1,0,1,4,9,0,9,4,1"
LANES = 24
CHUNKS = 6
HOUR = datetime.timedelta(hours=1)


class Bucket:
    """A server of S3 with a bucket, a user, and hooks on its requests."""

    def __init__(self):
        boto3 = pytest.importorskip("boto3", reason="make store")
        pytest.importorskip("moto", reason="make store")
        from moto import settings
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            protocol_version = "HTTP/1.1"

            def log(self, *_):
                pass

        self.app = DomainDispatcherApplication(create_backend_app)
        # A condition and its write are one step in a store. This server has threads between them.
        self.lock = threading.Lock()
        self.hooks, self.later = [], datetime.timedelta(0)
        server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=Quiet)
        self.server, self.settings = server, settings
        self.usual = settings.INITIAL_NO_AUTH_ACTION_COUNT
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{server.port}"
        options = {"endpoint_url": self.address, "region_name": "us-east-1"}
        options |= {"aws_access_key_id": "first", "aws_secret_access_key": "first"}
        self.s3, iam = boto3.client("s3", **options), boto3.client("iam", **options)
        # What another server of this process had is there too.
        reset = urllib.request.Request(f"{self.address}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset).close()
        self.s3.create_bucket(Bucket="bucket")
        iam.create_user(UserName="alice")
        key = iam.create_access_key(UserName="alice")["AccessKey"]
        allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        iam.put_user_policy(UserName="alice", PolicyName="all", PolicyDocument=policy)
        self.environment = os.environ | {
            "AWS_ENDPOINT": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }

    def __call__(self, environ, start):
        what = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']}"
        for hook in list(self.hooks):
            hook(what, "before")

        def started(status, headers, *rest):
            def shifted(name, value):
                if name.lower() not in ("date", "last-modified"):
                    return value
                time = email.utils.parsedate_to_datetime(value) + self.later
                return email.utils.format_datetime(time, usegmt=time.tzinfo == datetime.UTC)

            return start(status, [(n, shifted(n, v)) for n, v in headers], *rest)

        with self.lock:
            answer = list(self.app(environ, started))
        try:
            for hook in list(self.hooks):
                hook(what, "after")
        except ConnectionAbortedError:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise
        return answer

    def once(self, part, when, act):
        """Calls `act` at the first request that has a part."""

        def hook(what, moment):
            if moment == when and part in what and hook in self.hooks:
                self.hooks.remove(hook)
                act()

        self.hooks.append(hook)

    def names(self):
        listed = self.s3.list_objects_v2(Bucket="bucket").get("Contents", [])
        return [each["Key"] for each in listed]

    def read(self, name):
        return self.s3.get_object(Bucket="bucket", Key=name)["Body"].read()

    def require_credentials(self):
        self.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0

    def close(self):
        self.settings.INITIAL_NO_AUTH_ACTION_COUNT = self.usual
        self.server.shutdown()


class Work:
    """Keys, a batch, its results by one process, and a bucket."""

    def __init__(self, folder):
        self.folder, self.bucket = folder, Bucket()

    def prepare(self):
        """Keys, a batch and its results."""
        self.succeed("keygen --params toy_2_2_p --allow-insecure")
        values = ",".join(str(i % 16) for i in range(LANES))
        self.succeed(f"encrypt --values {values} -o x.becalm --allow-insecure")
        self.succeed(f"eval x.becalm --table {TABLE} -o whole.becalm --allow-insecure")

    def start(self, line, **environment):
        line = [str(COMMAND), *line.split()]
        pipe = subprocess.PIPE
        env = self.bucket.environment | environment
        return subprocess.Popen(line, cwd=self.folder, env=env, stdout=pipe, stderr=pipe, text=True)

    def run(self, line, **environment):
        process = self.start(line, **environment)
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    def succeed(self, line):
        status, out, err = self.run(line)
        assert status == 0, f"{line}: {err}"
        return out

    def make(self, name="job"):
        chunk = LANES // CHUNKS
        line = f"job make s3://bucket/{name} x.becalm --table {TABLE} --chunk {chunk}"
        return self.succeed(f"{line} --allow-insecure")

    def worker(self, name, lease="1"):
        line = f"job work s3://bucket/job --allow-insecure --threads 1 --lease {lease}"
        return self.start(f"{line} --name {name} --json")

    def require_whole(self):
        self.succeed("job collect s3://bucket/job -o y.becalm --force --allow-insecure")
        assert (self.folder / "y.becalm").read_bytes() == (
            self.folder / "whole.becalm"
        ).read_bytes()

    def records(self):
        names = [name for name in self.bucket.names() if name.endswith("done.json")]
        return {name: self.bucket.read(name) for name in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = Work(tmp_path_factory.mktemp("store"))
    made.prepare()
    made.bucket.close()
    return made.folder


@pytest.fixture
def work(folder):
    made = Work(folder)
    yield made
    made.bucket.close()


def ended(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out)


def test_two_workers_on_one_job_compute_each_chunk_once(work):
    work.make()
    found = [ended(each) for each in [work.worker("a", "60"), work.worker("b", "60")]]
    assert sum(each["finished"] for each in found) == CHUNKS, found
    assert all(each["dropped"] == each["taken_over"] == 0 for each in found), found
    work.require_whole()
    status = json.loads(work.succeed("job status s3://bucket/job --json"))
    assert (status["done"], status["left"], status["claimed"]) == (CHUNKS, 0, 0)
    assert not [name for name in work.bucket.names() if "/claims/" in name]
    said = json.loads(work.succeed("job verify s3://bucket/job --share 1 --allow-insecure --json"))
    assert said["equal"] == CHUNKS


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "part",
    [
        "PUT /bucket/job/claims/000002",
        "PUT /bucket/job/out/000002/0",
        "PUT /bucket/job/out/000002/done",
    ],
)
def test_a_worker_that_is_killed_loses_nothing(work, part, moment):
    work.make()
    first = work.worker("first", "60")
    dead = threading.Event()
    work.bucket.once(part, moment, lambda: (os.kill(first.pid, signal.SIGKILL), dead.set()))
    first.communicate(timeout=600)
    assert dead.is_set() and first.returncode == -signal.SIGKILL
    before = work.records()
    # The claim asks for 60 seconds. Now it asks for one, so that the test need not wait.
    name = "job/claims/000002"
    if name in work.bucket.names():
        text = work.bucket.read(name).replace(b'"lease_ms":60000', b'"lease_ms":1000')
        work.bucket.s3.put_object(Bucket="bucket", Key=name, Body=text)
    second = ended(work.worker("second"))
    assert second["finished"] == CHUNKS - len(before) and second["dropped"] == 0
    after = work.records()
    assert all(after[name] == record for name, record in before.items()), (
        "nothing is computed twice"
    )
    work.require_whole()


def test_a_claim_expires_by_its_bytes_and_not_by_clocks(work):
    work.make()
    work.bucket.later = HOUR
    text = b'{"nonce":"0","lease_ms":500,"counter":"00000000000000000000","worker":"dead"}\n'
    work.bucket.s3.put_object(Bucket="bucket", Key="job/claims/000001", Body=text)
    found = ended(work.worker("a"))
    assert (found["finished"], found["taken_over"]) == (CHUNKS, 1)
    work.require_whole()


def test_an_answer_that_is_lost_is_no_second_worker(work):
    work.make()

    def lose():
        raise ConnectionAbortedError("the answer is lost")

    for part in ["claims/000001", "out/000003/done", "out/000004/0"]:
        work.bucket.once(f"PUT /bucket/job/{part}", "after", lose)
    found = ended(work.worker("a"))
    assert (found["finished"], found["dropped"], found["taken_over"]) == (CHUNKS, 0, 0), found
    assert not work.bucket.hooks
    work.require_whole()


def test_an_upload_in_parts_that_is_killed_is_no_job(work):
    values = ",".join(["1"] * 12_000)
    work.succeed(f"encrypt --values {values} -o large.becalm --allow-insecure")
    assert (work.folder / "large.becalm").stat().st_size > 32 << 20, "it goes in parts"
    line = f"job make s3://bucket/job large.becalm --table {TABLE} --chunk 12000 --allow-insecure"
    maker = work.start(line)
    work.bucket.once("partNumber=2", "after", maker.kill)
    maker.communicate(timeout=600)
    assert not work.bucket.hooks, "an upload in parts had begun"
    assert maker.returncode == -signal.SIGKILL
    assert "job/job.json" not in work.bucket.names()
    status, _, said = work.run("job status s3://bucket/job")
    assert status == 4 and "nothing there" in said
    work.make()
    assert ended(work.worker("a"))["finished"] == CHUNKS
    work.require_whole()
    status, _, said = work.run(
        f"job make s3://bucket/job x.becalm --table {TABLE} --allow-insecure"
    )
    assert status == 4 and "exists" in said


def test_wrong_credentials_and_buckets_are_told_without_them(work):
    work.make()
    work.bucket.require_credentials()
    assert work.run("job status s3://bucket/job --json")[0] == 0
    for wrong in ({"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, {"AWS_ACCESS_KEY_ID": "wrong-name"}):
        status, out, said = work.run("job work s3://bucket/job --allow-insecure", **wrong)
        assert status == 4 and "access was refused" in said, said
        secrets = [*wrong.values(), work.bucket.environment["AWS_SECRET_ACCESS_KEY"]]
        assert not any(secret in out + said for secret in secrets), said
    for line in ("job status s3://other/job", "job work s3://other/job"):
        status, _, said = work.run(line)
        assert status == 4 and "NoSuchBucket" in said, said
    status, _, said = work.run("job status s3://user:secret@bucket/job")
    assert status == 3 and "secret" not in said.replace("credentials", ""), said
