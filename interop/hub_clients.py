"""What users of huggingface_hub do, against one endpoint: HF_ENDPOINT is the only variable that is set.

Usage: hub_clients.py SCENARIO WRITE_TOKEN OTHER_TOKEN. A failed check raises; the last line of the output is JSON.
"""

import io
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import huggingface_hub
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi, HfFileSystem
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

scenario, token, other_token = sys.argv[1:]
repo = f"lab/{scenario}"
api = HfApi(token=token)
other = HfApi(token=other_token)
work = Path(tempfile.mkdtemp())
random.seed(1)


def raises(kind, call, status=None):
    """The error that `call` must end with."""
    try:
        result = call()
    except kind as error:
        if status is not None:
            assert error.response.status_code == status, error
        return error
    raise AssertionError(f"no {kind.__name__}: {result!r}")


def download(path, **options):
    return Path(api.hf_hub_download(repo, path, local_dir=tempfile.mkdtemp(dir=work), **options)).read_bytes()


def write(name, size):
    path = work / name
    path.write_bytes(random.randbytes(size))
    return path


def everyday():
    assert api.whoami()["name"] == "alice"
    raises(HfHubHTTPError, lambda: HfApi(token="hf_" + "x" * 30).whoami(), 401)

    for _ in range(2):
        url = api.create_repo(repo, repo_type="model", private=True, exist_ok=True)
        assert (str(url), url.repo_id) == (f"{api.endpoint}/{repo}", repo), url
    raises(HfHubHTTPError, lambda: api.create_repo(repo), 409)
    assert api.repo_exists(repo) and not api.repo_exists("lab/none")
    first = api.repo_info(repo)
    assert first.private and len(first.sha) == 40

    # By path, as bytes and as an open file: the last is the one that never goes to Xet.
    weights = write("weights.safetensors", 12 * 2**20 + 3)
    info = api.upload_file(path_or_fileobj=str(weights), path_in_repo="global/latest.safetensors", repo_id=repo)
    assert info.oid == api.repo_info(repo).sha and info.commit_url == f"{api.endpoint}/{repo}/commit/{info.oid}"
    api.upload_file(path_or_fileobj=b'{"step": 1}', path_in_repo="global/step_count.json", repo_id=repo)
    api.upload_file(path_or_fileobj=b"---\nlicense: mit\n---\n# card\n", path_in_repo="README.md", repo_id=repo)
    api.upload_file(path_or_fileobj=b"", path_in_repo="empty.bin", repo_id=repo)
    stream = random.randbytes(11 * 2**20)
    api.upload_file(path_or_fileobj=io.BytesIO(stream), path_in_repo="stream.bin", repo_id=repo)
    assert download("global/latest.safetensors") == weights.read_bytes()
    assert download("global/step_count.json") == b'{"step": 1}'
    assert download("empty.bin") == b""
    assert download("stream.bin") == stream

    names = ["README.md", "empty.bin", "global/latest.safetensors", "global/step_count.json", "stream.bin"]
    assert sorted(api.list_repo_files(repo)) == names
    top = {item.path: item for item in api.list_repo_tree(repo, expand=True)}
    assert sorted(top) == ["README.md", "empty.bin", "global", "stream.bin"]
    assert top["stream.bin"].lfs.size == len(stream) and top["stream.bin"].last_commit.title.startswith("Upload stream")
    (latest,) = api.get_paths_info(repo, ["global/latest.safetensors", "none"])
    assert latest.lfs.sha256 == CommitOperationAdd("x", str(weights)).upload_info.sha256.hex()
    detailed = api.repo_info(repo, files_metadata=True)
    assert {item.rfilename: item.size for item in detailed.siblings}["global/latest.safetensors"] == 12 * 2**20 + 3
    assert api.file_exists(repo, "README.md") and not api.file_exists(repo, "none")
    assert [branch.name for branch in api.list_repo_refs(repo).branches] == ["main"]
    assert [commit.authors for commit in api.list_repo_commits(repo)] == [["alice"]] * 6
    raises(EntryNotFoundError, lambda: download("none"), 404)
    raises(RevisionNotFoundError, lambda: download("README.md", revision="none"), 404)
    raises(RepositoryNotFoundError, lambda: api.repo_info("lab/none"), 404)
    snapshot = Path(api.snapshot_download(repo))
    assert snapshot.name == api.repo_info(repo).sha
    assert sorted(str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if p.is_file()) == names
    # By commit, an older state.
    assert api.list_repo_files(repo, revision=first.sha) == []


def compare_and_swap():
    api.create_repo(repo)
    old = api.repo_info(repo).sha

    def put(content, parent):
        return api.create_commit(
            repo,
            [CommitOperationAdd("state.json", content)],
            commit_message="publish",
            commit_description="with words",
            parent_commit=parent,
        ).oid

    new = put(b"1", old)
    raises(HfHubHTTPError, lambda: put(b"2", old), 412)
    # The same content does not make a stale parent a good one.
    raises(HfHubHTTPError, lambda: put(b"1", old), 412)
    assert api.repo_info(repo).sha == new and download("state.json") == b"1"
    assert put(b"1", new) != new
    assert api.list_repo_commits(repo)[0].message == "with words"


def folders():
    api.create_repo(repo)
    folder = work / "folder"
    for index in range(120):
        path = folder / f"nodes/n{index % 3}/delta_{index}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % index)
    (folder / "big.bin").write_bytes(random.randbytes(11 * 2**20))
    api.upload_folder(repo_id=repo, folder_path=folder)
    assert len(api.list_repo_files(repo)) == 121
    for path in (folder / "nodes/n0").iterdir():
        path.unlink()
    api.upload_folder(repo_id=repo, folder_path=folder, delete_patterns="nodes/n0/*")
    assert len(api.list_repo_files(repo)) == 81
    api.delete_folder("nodes/n1", repo)
    api.delete_file("nodes/n2/delta_2.bin", repo)
    assert len(api.list_repo_files(repo)) == 40
    error = raises(EntryNotFoundError, lambda: api.delete_file("none", repo), 404)
    assert "trailing '/'" in str(error), error
    api.create_commit(
        repo,
        [
            CommitOperationCopy("big.bin", "copy/big.bin"),
            CommitOperationCopy("nodes/n2/delta_5.bin", "copy/small.bin"),
            CommitOperationDelete("nodes/", is_folder=True),
        ],
        commit_message="move",
    )
    assert sorted(api.list_repo_files(repo)) == ["big.bin", "copy/big.bin", "copy/small.bin"]
    assert download("copy/big.bin") == (folder / "big.bin").read_bytes()
    assert download("copy/small.bin") == b"5"
    api.create_branch(repo, branch="trial")
    api.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id=repo, revision="trial")
    assert "x" in api.list_repo_files(repo, revision="trial") and "x" not in api.list_repo_files(repo)
    api.delete_branch(repo, branch="trial")
    api.super_squash_history(repo, commit_message="one commit")
    assert [commit.title for commit in api.list_repo_commits(repo)] == ["one commit"]
    assert sorted(api.list_repo_files(repo)) == ["big.bin", "copy/big.bin", "copy/small.bin"]
    raises(HfHubHTTPError, lambda: api.create_commit(repo, [CommitOperationAdd("a\\b", b"")], commit_message="x"), 400)
    api.delete_repo(repo)
    assert not api.repo_exists(repo)
    dataset = api.create_repo(repo, repo_type="dataset")
    assert str(dataset) == f"{api.endpoint}/datasets/{repo}"
    api.upload_file(path_or_fileobj=b"rows", path_in_repo="train.txt", repo_id=repo, repo_type="dataset")
    assert download("train.txt", repo_type="dataset") == b"rows"


def strangers():
    api.create_repo(repo, private=True)
    api.upload_file(path_or_fileobj=b"secret", path_in_repo="a", repo_id=repo)
    for stranger in (other, HfApi(token=False)):
        assert not stranger.repo_exists(repo)
        raises(RepositoryNotFoundError, lambda: stranger.repo_info(repo), 404)
        raises(RepositoryNotFoundError, lambda: stranger.list_repo_files(repo), 404)
        raises(RepositoryNotFoundError, lambda: stranger.hf_hub_download(repo, "a", local_dir=work / "s"), 404)
        raises(RepositoryNotFoundError, lambda: stranger.upload_file(path_or_fileobj=b"x", path_in_repo="b", repo_id=repo))
    raises(RepositoryNotFoundError, lambda: other.delete_repo(repo), 404)
    # Without a token nothing can be deleted, there or not.
    raises(HfHubHTTPError, lambda: HfApi(token=False).delete_repo(repo), 401)
    raises(HfHubHTTPError, lambda: other.create_repo("lab/foreign"), 403)
    raises(HfHubHTTPError, lambda: HfApi(token=False).create_repo("lab/foreign"), 401)
    assert api.list_repo_files(repo) == ["a"]


def resume():
    """The connection is cut once, after two whole pieces of 10 MiB."""
    api.create_repo(repo)
    path = write("large.bin", 25 * 2**20)
    api.upload_file(path_or_fileobj=str(path), path_in_repo="large.bin", repo_id=repo)
    assert download("large.bin") == path.read_bytes()


def ranges():
    """Parts of a large file, as who reads headers or single tensors does."""
    api.create_repo(repo)
    path = write("large.bin", 12 * 2**20 + 5)
    api.upload_file(path_or_fileobj=str(path), path_in_repo="large.bin", repo_id=repo)
    content = path.read_bytes()
    files = HfFileSystem(token=token)
    with files.open(f"{repo}/large.bin", "rb", block_size=2**16, cache_type="none") as opened:
        for start, size in [(0, 8), (5_000_001, 70_000), (len(content) - 3, 3)]:
            opened.seek(start)
            assert opened.read(size) == content[start : start + size], start


def bad_token():
    """A token that nobody has is refused by every call; nothing comes of it."""
    api.create_repo(repo)
    wrong = HfApi(token="hf_" + "x" * 30)
    raises(HfHubHTTPError, lambda: wrong.whoami(), 401)
    raises(HfHubHTTPError, lambda: wrong.create_repo("lab/wrong"), 401)
    raises(HfHubHTTPError, lambda: wrong.list_repo_files(repo), 401)
    raises(HfHubHTTPError, lambda: wrong.upload_file(path_or_fileobj=b"x", path_in_repo="a", repo_id=repo), 401)
    raises(HfHubHTTPError, lambda: wrong.delete_repo(repo), 401)
    assert api.list_repo_files(repo) == [] and not api.repo_exists("lab/wrong")


def lfs():
    """Above what may come inside a commit; the caller's environment says whether Xet is off."""
    api.create_repo(repo)
    path = write("huge.bin", 3 * 2**20)
    upload = lambda name: api.upload_file(path_or_fileobj=str(path), path_in_repo=name, repo_id=repo)
    upload("a.bin")
    upload("b.bin")
    assert download("b.bin") == path.read_bytes()


started = time.monotonic()
globals()[scenario]()
try:
    import hf_xet  # noqa: F401

    has_xet = True
except ImportError:
    has_xet = False
report = {"version": huggingface_hub.__version__, "xet": has_xet, "seconds": time.monotonic() - started}
report["variables"] = sorted(name for name in os.environ if name.startswith(("HF_", "HUGGING")))
print(json.dumps(report))
