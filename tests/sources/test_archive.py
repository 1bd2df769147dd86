"""An archive is unpacked whole or refused whole; what is unpacked depends on the archive alone."""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.archive import (
    UNPACKED_TIME_S,
    Caps,
    Container,
    Member,
    detect_container,
    extract,
    is_wanted,
)
from rag_eval_pipeline.sources.compression import UNPACKED
from tests.conftest import REPOSITORY

COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}
FILES = {"questions.csv": b"q,a\n1,2\n", "docs/b.html": b"<p>b", "docs/a.html": b"<p>a", "docs/old/a.html": b""}


def zip_of(files, method=zipfile.ZIP_DEFLATED):
    """A zip; names may be ZipInfo."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files.items() if isinstance(files, dict) else files:
            archive.writestr(name, content)
    return data.getvalue()


def tar_of(files, form=tarfile.PAX_FORMAT):
    """A tar; names may be TarInfo, whose size is then the content's."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=form) as archive:
        for name, content in files.items() if isinstance(files, dict) else files:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


PACKED = {"zip": zip_of, "tar": tar_of}


def unpack(folder, data, **options):
    (folder / "a").write_bytes(data)
    return extract(folder / "a", folder / "cache" / "digest", shown="data/a", **options)


def refusal(folder, data, **options):
    """The error, after making sure that nothing was left behind."""
    with pytest.raises(InputError) as refused:
        unpack(folder, data, **options)
    assert {path.name for path in folder.rglob("*") if path.is_file()} <= {"a", ".lock"}
    return refused.value


def content(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


KINDS = {
    "zip": (zip_of(FILES), Container(None, "zip")),
    "zip, stored": (zip_of(FILES, zipfile.ZIP_STORED), Container(None, "zip")),
    "tar of 2001": (tar_of(FILES), Container(None, "tar")),
    "tar of GNU": (tar_of(FILES, tarfile.GNU_FORMAT), Container(None, "tar")),
    **{f"tar.{kind}": (compress(tar_of(FILES)), Container(kind, "tar")) for kind, compress in COMPRESS.items()},
}


@pytest.mark.parametrize(("data", "packing"), KINDS.values(), ids=KINDS)
def test_archive_is_detected_by_content_and_unpacked(tmp_path, data, packing):
    extracted = unpack(tmp_path, data)

    assert detect_container(tmp_path / "a", "a") == packing
    assert content(extracted.folder) == FILES
    assert extracted.members == (
        Member("docs/a.html", 4),
        Member("docs/b.html", 4),
        Member("docs/old/a.html", 0),
        Member("questions.csv", 8),
    )


PLAIN = {
    "text": (b"question,answer\n" * 100, Container(None, None)),
    "compressed text": (gzip.compress(b"question,answer\n" * 100), Container("gz", None)),
}
OTHERS = {
    "a compressed zip": (gzip.compress(zip_of(FILES)), "double_compression"),
    "an Office document": (zip_of({"[Content_Types].xml": b"<Types/>", "xl/workbook.xml": b""}), "unsupported_format"),
    **{f"a cut tar.{kind}": (compress(tar_of(FILES))[:-8], "bad_compression") for kind, compress in COMPRESS.items()},
}


@pytest.mark.parametrize(("data", "packing"), PLAIN.values(), ids=PLAIN)
def test_archive_rejects_other_files(tmp_path, data, packing):
    assert refusal(tmp_path, data).code == "unsupported_format"
    assert detect_container(tmp_path / "a", "a") == packing


@pytest.mark.parametrize(("data", "code"), OTHERS.values(), ids=OTHERS)
def test_archive_rejects_wrong_packing(tmp_path, data, code):
    assert refusal(tmp_path, data).code == code


def zip_named(raw_name, unicode_path=None, *, crc=None):
    """A zip whose only entry has these bytes as its name, with no word on their encoding but Info-ZIP's field."""
    info = zipfile.ZipInfo("X" * len(raw_name))
    if unicode_path is not None:
        path = unicode_path.encode()
        info.extra = struct.pack("<HHBI", 0x7075, 5 + len(path), 1, zlib.crc32(raw_name) if crc is None else crc) + path
    return zip_of([(info, b"q")]).replace(b"X" * len(raw_name), raw_name)


ZIP_NAMES = {
    # archive, name, whether it was guessed
    "flagged as UTF-8": (zip_of({"für.csv": b"q"}), "für.csv", False),
    "UTF-8 without the flag, as a Mac writes it": (zip_named("für.csv".encode()), "für.csv", False),
    "code page 437": (zip_named("für.csv".encode("cp437")), "für.csv", True),
    "code page 932, taken for 437": (zip_named("料.csv".encode("cp932")), "ù┐.csv", True),
    "code page 932 with Info-ZIP's Unicode path": (zip_named("料.csv".encode("cp932"), "料.csv"), "料.csv", False),
    "a Unicode path of another name": (zip_named("für.csv".encode("cp437"), "a.csv", crc=1), "für.csv", True),
}


@pytest.mark.parametrize(("data", "name", "is_guessed"), ZIP_NAMES.values(), ids=ZIP_NAMES)
def test_zip_names_are_read_as_the_archive_states_them(tmp_path, data, name, is_guessed):
    extracted = unpack(tmp_path, data)

    assert extracted.members == (Member(name, 1),)
    assert extracted.guessed_names == ((name,) if is_guessed else ())
    assert unpack(tmp_path, data) == extracted
    assert (extracted.folder / name).read_bytes() == b"q"


UNSAFE_NAMES = {
    "a way up": "../up.txt",
    "a way up at the end": "docs/..",
    "absolute": "/etc/passwd",
    "a drive": "C:/windows/x",
    "backslashes": "docs\\a.html",
    "a newline": "a\nb",
    "a component of 256 bytes": "é" * 128,
    "a name of 1,025 bytes": "/".join(["x" * 204] * 5) + "x",
}


@pytest.mark.fault(24)
@pytest.mark.parametrize("name", UNSAFE_NAMES.values(), ids=UNSAFE_NAMES)
def test_archive_rejects_unsafe_names(tmp_path, name):
    error = refusal(tmp_path, zip_of({"questions.csv": b"q\n", name: b"x", "z.csv": b"q\n"}))

    assert (error.code, error.file) == ("unsafe_archive", "data/a")


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_archive_accepts_what_limits_of_names_and_sizes_just_allow(tmp_path, pack):
    inner = zip_of({"../x": b""})  # stays a file
    files = {"é" * 127: b"1", "/".join(["x" * 204] * 5): b"2", "/".join("x" * 32): b"3", "..a/...": b"4", "-rf": inner}
    caps = Caps(len(files), UNPACKED._replace(max_bytes=sum(map(len, files.values()))))

    assert content(unpack(tmp_path, pack(files), caps=caps).folder) == files


@pytest.mark.fault(24)
@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archive_rejects_repeated_names(tmp_path, pack):
    assert refusal(tmp_path, pack([("a", b"1"), ("a", b"2")])).code == "unsafe_archive"
    assert refusal(tmp_path, pack([("a", b"1"), ("./a", b"2")])).code == "unsafe_archive"


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_archive_rejects_file_that_is_also_a_folder(tmp_path, pack):
    for names in (("a", "a/b"), ("a/b", "a")):
        assert refusal(tmp_path, pack({name: b"x" for name in names})).code == "unsafe_archive"


def tar_member(kind, link=""):
    info = tarfile.TarInfo("docs/member")
    info.type, info.linkname = kind, link
    return info


def zip_member(mode, name="docs/member"):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


NO_FILES = {
    "tar: a symbolic link out": tar_of([(tar_member(tarfile.SYMTYPE, "/etc"), b"")]),
    "tar: a hard link": tar_of([("a", b""), (tar_member(tarfile.LNKTYPE, "a"), b"")]),
    "tar: a pipe": tar_of([(tar_member(tarfile.FIFOTYPE), b"")]),
    "tar: a sparse file": tar_of([(tar_member(tarfile.GNUTYPE_SPARSE), b"")]),
    "zip: a symbolic link": zip_of([(zip_member(stat.S_IFLNK | 0o777), b"/etc")]),
}


@pytest.mark.fault(24)
@pytest.mark.parametrize("data", NO_FILES.values(), ids=NO_FILES)
def test_archive_rejects_links_devices_and_rare_methods(tmp_path, data):
    assert refusal(tmp_path, data).code == "unsafe_archive"


def patched(data, change):
    """A zip whose directory entries were changed: offset of a field in the entry, and its bytes."""
    data = bytearray(data)
    at = data.index(b"PK\x01\x02")
    for offset, field in change.items():
        data[at + offset : at + offset + len(field)] = field
    return bytes(data)


ALTERED_ZIPS = {
    "encrypted": (patched(zip_of({"a": b"x"}), {8: b"\x01\0"}), "unsafe_archive"),
    "an unknown method": (patched(zip_of({"a": b"x"}), {10: b"\x63\0"}), "unsafe_archive"),
    "a name cut by NUL": (patched(zip_of({"a.csv/../x": b"x"}), {46: b"a.csv\0/../"}), "unsafe_archive"),
    "larger than stated": (patched(zip_of({"a": b"x" * 99}), {24: b"\x09\0\0\0"}), "bad_archive"),
    "another name before the data": (patched(zip_of({"a": b"x"}), {46: b"b"}), "bad_archive"),
    "data beyond the directory": (
        patched(zip_of({"a": b"x"}, zipfile.ZIP_STORED), {20: b"\xff\0\0\0"}),
        "archive_bomb",
    ),
    "cut in its middle": (zip_of(FILES)[:200], "bad_archive"),
    "cut before its end": (zip_of(FILES)[:-1], "bad_archive"),
}


def test_zip_names_the_method_that_it_refuses(tmp_path):
    error = refusal(tmp_path, patched(zip_of({"a": b"x"}), {10: b"\x5d\0"}))  # as Inspect AI writes its logs

    assert (error.code, error.expected, error.found) == (
        "unsafe_archive",
        "members stored or deflated",
        "'a: zstandard'",
    )


@pytest.mark.parametrize(("data", "code"), ALTERED_ZIPS.values(), ids=ALTERED_ZIPS)
def test_zip_rejects_alterations(tmp_path, data, code):
    assert refusal(tmp_path, data).code == code


TAR = tar_of(FILES, tarfile.USTAR_FORMAT)  # four members: header and content a block each, but an empty one; end mark
ALTERED_TARS = {
    "cut in a file": TAR[:700],
    "cut between two members": TAR[:1024],
    "cut before its end mark": TAR[:3584],
    "a second archive after the end": TAR + TAR,
    "a file of negative size": TAR[:124] + b"\xff" * 12 + TAR[136:],
}


@pytest.mark.parametrize("data", ALTERED_TARS.values(), ids=ALTERED_TARS)
def test_tar_rejects_cuts_and_damaged_headers(tmp_path, data):
    assert refusal(tmp_path, data).code == "bad_archive"


@pytest.mark.fault(25)
def test_zip_rejects_entries_that_share_data(tmp_path):
    data = zip_of({"a": b"x"}, zipfile.ZIP_STORED)
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entry = data[start:end]
    twice = data[:start] + entry + entry.replace(b"a", b"b")
    twice += struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, 2 * len(entry), start, 0)

    error = refusal(tmp_path, twice)

    assert (error.code, error.found) == ("archive_bomb", "'a and b'")


BOMBS = {
    "zip: members": (zip_of({str(n): b"" for n in range(11)}), Caps(members=10)),
    "tar: members": (tar_of({str(n): b"" for n in range(11)}), Caps(members=10)),
    "zip: size": (zip_of({"a": b"12345", "b": b"67890"}), Caps(sizes=UNPACKED._replace(max_bytes=9))),
    "tar: size": (tar_of({"a": b"12345", "b": b"67890"}), Caps(sizes=UNPACKED._replace(max_bytes=9))),
    "zip: ratio": (zip_of({"a": bytes(10_500_000)}), Caps()),
    "tar.gz: ratio": (gzip.compress(tar_of({"a": bytes(10_500_000)})), Caps()),
    "tar: a name of 1 MB": (tar_of({"x" * 1_000_000: b""}), Caps()),
}


@pytest.mark.fault(25)
@pytest.mark.parametrize(("data", "caps"), BOMBS.values(), ids=BOMBS)
def test_archive_rejects_more_than_the_caps_allow(tmp_path, data, caps):
    assert refusal(tmp_path, data, caps=caps).code == "archive_bomb"


def with_long_end(data, count):
    """The zip with the directory's end of 2001, in which a count may have 64 bits."""
    at = data.index(b"PK\x05\x06")
    size, start = struct.unpack_from("<12xLL", data, at)
    long_end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    return (
        data[:at]
        + long_end
        + locator
        + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, *[0xFFFF] * 2, *[0xFFFFFFFF] * 2, 0)
    )


def test_zip64_is_unpacked_within_the_same_caps(tmp_path):
    assert refusal(tmp_path, with_long_end(zip_of(FILES), 1 << 40)).code == "archive_bomb"
    assert content(unpack(tmp_path, with_long_end(zip_of(FILES), 4)).folder) == FILES


def test_archive_sets_plain_modes_owner_and_time(tmp_path):
    owned = tarfile.TarInfo("docs/run")
    owned.mode, owned.uid, owned.gid, owned.mtime = 0o6777, 12_345, 12_345, 1_700_000_000
    mask = os.umask(0o027)
    try:
        extracted = unpack(tmp_path, tar_of([(owned, b"x")]))
    finally:
        os.umask(mask)

    found = (extracted.folder / "docs/run").stat()
    assert stat.S_IMODE(found.st_mode) == 0o640
    assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
    assert found.st_mtime == UNPACKED_TIME_S


GLOBS = [
    ("a.csv", "*.csv", True),
    ("d/a.csv", "*.csv", False),
    ("d/e/a.csv", "d/**/a.csv", True),
    ("d/a.csv", "d/**/a.csv", True),
    ("[x].csv", "[x].csv", True),
]


@pytest.mark.parametrize(("name", "wanted", "expected"), GLOBS)
def test_member_glob_matches_whole_names(name, wanted, expected):
    assert is_wanted(name, wanted) == expected


def test_archive_is_unpacked_once(tmp_path):
    first = unpack(tmp_path, zip_of(FILES))
    (tmp_path / "a").unlink()

    assert extract(tmp_path / "a", tmp_path / "cache" / "digest", shown="a") == first


def test_archive_is_unpacked_again_after_damage(tmp_path):
    for harm in (os.unlink, lambda path: path.write_bytes(b"")):
        harm(unpack(tmp_path, zip_of(FILES)).folder / "docs/a.html")

        assert content(unpack(tmp_path, zip_of(FILES)).folder) == FILES


def test_archive_unpacked_concurrently_gives_one_folder(tmp_path):
    (tmp_path / "a").write_bytes(zip_of({f"docs/{n}": b"x" * 500 for n in range(300)}))

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: extract(tmp_path / "a", tmp_path / "cache", shown="a"), range(4)))

    assert len(set(results)) == 1
    assert len(content(results[0].folder)) == 300


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(list(KINDS)), st.data())
def test_archive_with_flipped_bytes_is_unpacked_or_refused(tmp_path_factory, kind, data):
    packed = bytearray(KINDS[kind][0])
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("altered")
    (folder / "a").write_bytes(packed)

    try:
        extracted = extract(folder / "a", folder / "out", shown="a")
    except InputError:
        assert not list(folder.rglob("files"))
    else:
        assert all((extracted.folder / member.name).stat().st_size == member.size for member in extracted.members)
    assert {path.name for path in folder.iterdir()} <= {"a", "out"}


LIMITED = """
import resource, sys
from pathlib import Path
from rag_eval_pipeline.sources.archive import Caps, extract
from rag_eval_pipeline.sources.compression import UNPACKED
from rag_eval_pipeline.errors import InputError
used = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (used + (32 << 20),) * 2)
folder, *sizes = sys.argv[1:]
for size in map(int, sizes):
    caps = Caps(sizes=UNPACKED._replace(ratio=1e9, max_bytes=size))
    try:
        print(extract(Path(folder, "a"), Path(folder, "out"), shown="a", caps=caps).members[0].size)
    except InputError as error:
        print(error.code)
"""


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archive_unpacks_large_members_in_constant_memory(tmp_path, kind):
    large = {"a": bytes(50_000_000)}
    (tmp_path / "a").write_bytes(zip_of(large) if kind == "zip" else gzip.compress(tar_of(large), 1))

    command = [sys.executable, "-c", LIMITED, str(tmp_path), "49000000", "50000000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)

    assert done.stdout.split() == ["archive_bomb", "50000000"]
