"""Writes the table of verdicts of Python's safetensors on small crafted files, and valid seed files for fuzzing.

usage: make_safetensors_verdicts.py [--out-dir DIR]

verdicts.json: every case is read twice, from memory (deserialize) and from a file (safe_open); the script fails if
the two disagree. seeds.json: files that Python's own writer makes, one idea each. Bytes are base64.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "test" / "fixtures" / "safetensors-verdicts"
HEADER_LIMIT = 100_000_000
MAX_TABLE_BYTES = 400_000

# Bits per element of every dtype that safetensors 0.8 names.
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
UNKNOWN_DTYPES = ["F128", "C128", "I4", "U4", "F4_E2M1", "FLOAT32", "f32", "float32", "F32 ", "", "BFLOAT16", "Bool", "Q8_0"]


# --- building files -------------------------------------------------------------------------------------


def build(header: bytes | str | dict, data: bytes = b"", length: int | None = None) -> bytes:
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    raw = header.encode("utf-8") if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4), **extra: Any) -> dict:
    return {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape,
            "data_offsets": list(offsets) if isinstance(offsets, tuple) else offsets, **extra}  # fmt: skip


ONE = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
FOUR = bytes(range(1, 5))


class Cases:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def add(self, name: str, file: bytes) -> None:
        if name in self.files:
            raise ValueError(f"two cases are named {name!r}")
        self.files[name] = file

    def header(self, name: str, header: bytes | str | dict, data: bytes = b"") -> None:
        self.add(name, build(header, data))

    def tensor(self, name: str, data_bytes: int = 4, **fields: Any) -> None:
        """One tensor "a" with the given entry fields over zero bytes."""
        self.header(name, {"a": entry(**fields)}, bytes(data_bytes))

    def raw_entry(self, name: str, text: str, data: bytes = FOUR) -> None:
        """One tensor "a" whose entry is this JSON text."""
        self.header(name, '{"a":' + text + "}", data)


def all_cases() -> dict[str, bytes]:
    cases = Cases()
    for group in (dtypes, containers, json_texts, duplicates, metadata, fields, offsets, shapes, names, layouts):
        group(cases)
    return cases.files


def dtypes(c: Cases) -> None:
    for dtype, bits in DTYPE_BITS.items():
        size = 4 * bits // 8
        c.header(f"dtype {dtype}: shape [2,2]", {"a": entry(dtype, (2, 2), (0, size))}, bytes(range(size)))
        c.header(f"dtype {dtype}: rank 0", {"a": entry(dtype, (), (0, max(1, bits // 8)))}, bytes(max(1, bits // 8)))
    for dtype in UNKNOWN_DTYPES:
        c.tensor(f"unknown dtype {dtype!r}", dtype=dtype)
    c.tensor("dtype F4: odd count does not fill a byte", 2, dtype="F4", shape=(3,), offsets=(0, 2))
    c.tensor("dtype F4: two elements in a byte", 1, dtype="F4", shape=(2,), offsets=(0, 1))
    c.tensor("dtype F4: no elements", 0, dtype="F4", shape=(0,), offsets=(0, 0))
    c.tensor("dtype F6_E2M3: count not filling bytes", 1, dtype="F6_E2M3", shape=(1,), offsets=(0, 1))
    c.tensor("dtype F6_E3M2: eight elements in six bytes", 6, dtype="F6_E3M2", shape=(8,), offsets=(0, 6))
    c.header("BOOL with values other than 0 and 1", {"a": entry("BOOL", (3,), (0, 3))}, b"\x00\x02\xff")
    c.header("F32 NaN and infinity", {"a": entry("F32", (2,), (0, 8))}, b"\x00\x00\xc0\x7f\x00\x00\x80\x7f")


def containers(c: Cases) -> None:
    c.add("empty file", b"")
    for size in (1, 7):
        c.add(f"{size} bytes only", bytes(size))
    c.add("length field only, zero", bytes(8))
    c.add("length zero with data", bytes(8) + b"abc")
    c.add("length field only, two", struct.pack("<Q", 2))
    c.add("header cut by one byte", build("{}", length=3))
    c.add("length field longer than the file", build("{}", length=1000))
    c.add("length field one short", build('{"a":' + ONE + "}", FOUR, length=len(ONE) + 5))
    c.add("length field at the limit, file small", build("{}", length=HEADER_LIMIT))
    c.add("length field above the limit", build("{}", length=HEADER_LIMIT + 1))
    c.add("length field 2^31", build("{}", length=2**31))
    c.add("length field 2^32 + 2", build("{}", length=2**32 + 2))
    c.add("length field 2^53 + 1", build("{}", length=2**53 + 1))
    c.add("length field 2^63", build("{}", length=2**63))
    c.add("length field 2^64 - 8", build("{}", length=2**64 - 8))
    c.add("length field 2^64 - 1", build("{}", length=2**64 - 1))
    c.add("length field big-endian", struct.pack(">Q", 2) + b"{}")
    c.header("no tensors", "{}")
    c.header("no tensors, data follows", "{}", b"x")
    c.add("gzip magic", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
    c.add("zip magic (pickled checkpoint)", b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00")
    c.add("git-lfs pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n")


def json_texts(c: Cases) -> None:
    valid = '{"a":' + ONE + "}"
    c.header("not JSON", "hello world!!!!!")
    c.header("NUL bytes as header", bytes(8))
    for text in ("[]", "null", "true", "1", '"a"', "[1,2]", "[{}]"):
        c.header(f"top level {text}", text)
    c.header("unclosed object", "{")
    c.header("object closed twice", "{}}")
    c.header("two objects", "{}{}")
    c.header("trailing comma", '{"a":' + ONE + ",}", FOUR)
    c.header("trailing comma in the shape", '{"a":{"dtype":"F32","shape":[1,],"data_offsets":[0,4]}}', FOUR)
    c.header("single quotes", valid.replace('"', "'"), FOUR)
    c.header("unquoted key", valid.replace('"a"', "a"), FOUR)
    c.header("comment", valid[:-1] + "/* x */}", FOUR)
    c.header("literal NaN in metadata", '{"__metadata__":{"a":NaN}}')
    for label, pad in (("one space", " "), ("seven spaces", " " * 7), ("line feed", "\n"), ("tab", "\t"), ("carriage return", "\r")):
        c.header(f"trailing {label}", valid + pad, FOUR)
        c.header(f"leading {label}", pad + valid, FOUR)
    c.header("whitespace between tokens", '{ "a" :\n\t{ "dtype" : "F32" , "shape" : [ 1 ] , "data_offsets" : [ 0 , 4 ] } }', FOUR)
    for label, pad in (("NUL", b"\0"), ("letter", b"x"), ("form feed", b"\x0c"), ("vertical tab", b"\x0b"), ("no-break space", b"\xc2\xa0")):
        c.header(f"trailing {label}", valid.encode() + pad, FOUR)
    c.header("byte order mark", b"\xef\xbb\xbf" + valid.encode(), FOUR)
    c.header("UTF-16 header", valid.encode("utf-16-le"), FOUR)
    c.header("invalid UTF-8 in a name", b'{"\xff":' + ONE.encode() + b"}", FOUR)
    c.header("invalid UTF-8 in metadata", b'{"__metadata__":{"k":"\xc3("}}')
    c.header("overlong UTF-8", b'{"\xc0\xaf":' + ONE.encode() + b"}", FOUR)
    c.header("UTF-8 encoded surrogate", b'{"\xed\xa0\x80":' + ONE.encode() + b"}", FOUR)
    c.header("truncated UTF-8 at the end", b'{"__metadata__":{"k":"\xe2\x82')
    for depth in (50, 125, 126, 127, 128, 200, 1000):
        c.header(f"unknown field nested {depth} deep", '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":' + "[" * depth + "]" * depth + "}}", FOUR)
    c.header("nested 1000 deep, unclosed", "[" * 1000)
    c.header("control character in a string", '{"a\tb":' + ONE + "}", FOUR)
    c.header("DEL in a string", '{"a\x7fb":' + ONE + "}", FOUR)
    c.header("bad escape", '{"\\x61":' + ONE + "}", FOUR)
    c.header("short unicode escape", '{"\\u12":' + ONE + "}", FOUR)


def duplicates(c: Cases) -> None:
    second = '{"dtype":"F32","shape":[1],"data_offsets":[4,8]}'
    eight = FOUR * 2
    c.header("duplicate tensor, same entry", f'{{"a":{ONE},"a":{ONE}}}', FOUR)
    c.header("duplicate tensor, different offsets", f'{{"a":{ONE},"a":{second}}}', eight)
    c.header("duplicate tensor, last one alone would be valid", '{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]},"a":' + ONE + "}", FOUR)
    c.header("duplicate tensor, first one alone would be valid", '{"a":' + ONE + ',"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}', FOUR)
    c.header("duplicate tensor by escape", f'{{"a":{ONE},"\\u0061":{ONE}}}', FOUR)
    c.header("duplicate tensor among others", f'{{"a":{ONE},"b":{second},"a":{ONE}}}', eight)
    c.header("two metadata objects", f'{{"__metadata__":{{"k":"1"}},"a":{ONE},"__metadata__":{{"k":"2"}}}}', FOUR)
    c.header("duplicate key in metadata", f'{{"__metadata__":{{"k":"1","k":"2"}},"a":{ONE}}}', FOUR)
    c.header("duplicate key in metadata by escape", f'{{"__metadata__":{{"k":"1","\\u006b":"2"}},"a":{ONE}}}', FOUR)
    for field in ('"dtype":"F32"', '"shape":[1]', '"data_offsets":[0,4]'):
        c.raw_entry(f"duplicate field {field}", ONE[:-1] + "," + field + "}")
    c.raw_entry("duplicate unknown field", ONE[:-1] + ',"x":1,"x":2}')


def metadata(c: Cases) -> None:
    for text in ('{"k":"v"}', "{}", '{"":""}', '{"k":"é \\u2028 \\ud83d\\ude00"}', '{"__proto__":"x","constructor":"y"}', '{"format":"pt","a":"b"}'):
        c.header(f"metadata {text}", f'{{"__metadata__":{text},"a":{ONE}}}', FOUR)
    for text in ("null", "[]", '"x"', "1", "true", '{"k":1}', '{"k":null}', '{"k":true}', '{"k":["v"]}', '{"k":{"n":"v"}}', '{"k":1.5}', '[["k","v"]]', '{"k":"v",}', '{"k":"\\ud800"}', ONE):
        c.header(f"metadata {text}", f'{{"__metadata__":{text},"a":{ONE}}}', FOUR)
    c.header("metadata last", f'{{"a":{ONE},"__metadata__":{{"k":"v"}}}}', FOUR)
    c.header("metadata alone", '{"__metadata__":{"k":"v"}}')
    c.header("metadata null alone", '{"__metadata__":null}')
    c.header("metadata with another case", f'{{"__Metadata__":{{"k":"v"}},"a":{ONE}}}', FOUR)
    c.header("metadata key by escape", f'{{"\\u005f_metadata__":{{"k":"v"}},"a":{ONE}}}', FOUR)


def fields(c: Cases) -> None:
    for missing in ("dtype", "shape", "data_offsets"):
        value = entry()
        del value[missing]
        c.header(f"missing {missing}", {"a": value}, FOUR)
    c.raw_entry("empty entry", "{}")
    for text in ("null", "[]", '"F32"', "4", "true", '["F32",[1],[0,4]]', '["F32",[1],[0,4],0]', '["F32",[1]]'):
        c.raw_entry(f"entry {text}", text)
    c.tensor("extra field", note="x")
    c.tensor("extra field null", note=None)
    c.raw_entry("field names in another case", '{"Dtype":"F32","Shape":[1],"Data_offsets":[0,4]}')
    c.raw_entry("field dataOffsets", '{"dtype":"F32","shape":[1],"dataOffsets":[0,4]}')
    c.raw_entry("fields in another order", '{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}')
    c.raw_entry("field name by escape", '{"\\u0064type":"F32","shape":[1],"data_offsets":[0,4]}')
    c.raw_entry("dtype by escape", '{"dtype":"\\u004632","shape":[1],"data_offsets":[0,4]}')
    for value in (None, 1, True, ["F32"], {"F32": None}, {}):
        c.tensor(f"dtype {json.dumps(value)}", dtype=value)


def offsets(c: Cases) -> None:
    for text in ("null", "4", '"0,4"', "[]", "[4]", "[0,4,8]", "{}", '["0","4"]', "[0,true]", "[0,null]", "[false,4]",
                 "[0.0,4.0]", "[0,4.0]", "[0,4e0]", "[0,4E0]", "[0,0.4e1]", "[-0,4]", "[-0.0,4]", "[-4,0]", "[-1,3]",
                 "[00,4]", "[0,04]", "[0,+4]", "[0,0x4]", "[[0,4]]", "[0,4.5]", "[0,1e999]", "[0,NaN]"):  # fmt: skip
        c.raw_entry(f"data_offsets {text}", '{"dtype":"F32","shape":[1],"data_offsets":' + text + "}")
    for end in (2**31, 2**32 + 4, 2**53 + 1, 2**63, 2**64 - 1, 2**64, 10**30):
        c.raw_entry(f"data_offsets end {end}", '{"dtype":"F32","shape":[1],"data_offsets":[0,' + str(end) + "]}")
    c.raw_entry("data_offsets rounding to the same double", '{"dtype":"U8","shape":[1],"data_offsets":[9007199254740992,9007199254740993]}')
    c.tensor("offsets reversed", offsets=(4, 0))
    c.tensor("offsets start after the beginning", 8, offsets=(4, 8))
    c.tensor("offsets beyond the file", offsets=(0, 8), shape=(2,))
    c.tensor("data shorter by one", 3)
    c.tensor("data longer by one", 5)
    c.tensor("data missing", 0)
    a, b = entry(), entry(offsets=(4, 8))
    c.header("two tensors in order", {"a": a, "b": b}, bytes(8))
    c.header("two tensors, header order reversed", {"b": b, "a": a}, bytes(8))
    c.header("two tensors, names and offsets in opposite order", {"a": b, "b": a}, bytes(8))
    c.header("hole between tensors", {"a": a, "b": entry(offsets=(8, 12))}, bytes(12))
    c.header("overlap", {"a": a, "b": entry(offsets=(2, 6))}, bytes(6))
    c.header("same range twice", {"a": a, "b": a}, bytes(4))
    c.header("one inside the other", {"a": entry(shape=(3,), offsets=(0, 12)), "b": b}, bytes(12))
    c.header("last tensor ends before the file", {"a": a, "b": b}, bytes(9))
    c.header("last tensor ends after the file", {"a": a, "b": b}, bytes(7))
    empty = entry(shape=(0,), offsets=(0, 0))
    c.header("empty tensor first", {"a": empty, "b": a}, bytes(4))
    c.header("empty tensor last", {"a": a, "b": entry(shape=(0,), offsets=(4, 4))}, bytes(4))
    c.header("empty tensor between", {"a": a, "b": entry(shape=(0,), offsets=(4, 4)), "c": b}, bytes(8))
    c.header("empty tensors at one place", {"a": empty, "b": empty, "c": empty})
    c.header("empty tensor inside another's range", {"a": entry(shape=(2,), offsets=(0, 8)), "b": entry(shape=(0,), offsets=(4, 4))}, bytes(8))
    c.header("empty tensor beyond the file", {"a": entry(shape=(0,), offsets=(8, 8))})
    c.header("empty tensor past the end after data", {"a": a, "b": entry(shape=(0,), offsets=(8, 8))}, bytes(4))


def shapes(c: Cases) -> None:
    for text in ("null", "1", '"1"', "{}", "[null]", '["1"]', "[true]", "[1.0]", "[1e0]", "[1e2]", "[-1]", "[-0]", "[0.5]", "[[1]]", "[01]"):
        c.raw_entry(f"shape {text}", '{"dtype":"F32","shape":' + text + ',"data_offsets":[0,4]}')
    c.tensor("shape larger than the bytes", shape=(2,))
    c.tensor("shape smaller than the bytes", 8, offsets=(0, 8))
    c.tensor("shape empty list with two elements", 8, shape=(), offsets=(0, 8))
    c.tensor("zero-size shape with bytes", shape=(0,))
    c.tensor("shape with a zero among others", 0, shape=(3, 0, 5), offsets=(0, 0))
    c.tensor("scalar-like shape [1,1,1]", shape=(1, 1, 1))
    c.tensor("rank 64", shape=(1,) * 64)
    for dim in (2**31, 2**32 + 1, 2**53 + 1, 2**62, 2**63, 2**64 - 1, 2**64, 10**30):
        c.raw_entry(f"dimension {dim}", '{"dtype":"F32","shape":[' + str(dim) + '],"data_offsets":[0,4]}')
    c.tensor("product overflows to one", shape=(2**32, 2**32, 1))
    c.tensor("product wraps to four bytes", dtype="U8", shape=(2**63, 2, 4))
    c.tensor("bytes overflow although elements fit", shape=(2**62,))
    c.tensor("bytes wrap to four", dtype="F32", shape=(2**62 + 1,))
    c.tensor("bits overflow although bytes fit", dtype="U8", shape=(2**61,))
    c.tensor("overflow hidden by a zero at the end", 0, shape=(2**63, 2**63, 0), offsets=(0, 0))
    c.tensor("overflow hidden by a zero at the start", 0, shape=(0, 2**63, 2**63), offsets=(0, 0))
    c.tensor("huge dimension times zero", 0, shape=(2**53 + 1, 0), offsets=(0, 0))
    c.tensor("claims 1.8e308 parameters", shape=(10**6,) * 50)


def names(c: Cases) -> None:
    plain = ["__proto__", "constructor", "toString", "hasOwnProperty", "length", "", " ", "a/b", "../../etc/passwd", "a.b.c", "0", "1e3", "-1",
             "\u00e9", "e\u0301", "重み", "😀", "\u202eabc", "\u2028", "\ufeff", "\x7f", "null", "x" * 300, "__METADATA__", "_metadata_"]  # fmt: skip
    for name in plain:
        label = json.dumps(name)
        c.header(f"name {label if len(label) < 40 else label[:12] + '… of ' + str(len(name))}", {name: entry()}, FOUR)
    for text in ('"\\u0000"', '"\\n"', '"\\""', '"\\\\"', '"\\/"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00"', '"\\ude00\\ud83d"', '"\\uD83Dx"', '"\\u00E9"'):
        c.header(f"name written {text}", "{" + text + ":" + ONE + "}", FOUR)
    c.header("names that differ by normalisation", {"\u00e9": entry(), "e\u0301": entry(offsets=(4, 8))}, bytes(8))
    c.header("names __proto__ and constructor together", {"__proto__": entry(), "constructor": entry(offsets=(4, 8))}, bytes(8))
    c.header("numeric names keep no order", {"10": entry(), "9": entry(offsets=(4, 8)), "a": entry(offsets=(8, 12))}, bytes(12))


def layouts(c: Cases) -> None:
    c.header("header length odd, F64 unaligned", {"abc": entry("F64", (1,), (0, 8))}, bytes(8))
    c.header("U8 before F32: unaligned offset", {"a": entry("U8", (1,), (0, 1)), "b": entry("F32", (1,), (1, 5))}, bytes(5))
    c.header("F16 at an odd offset", {"a": entry("I8", (3,), (0, 3)), "b": entry("F16", (1,), (3, 5))}, bytes(5))
    c.header("60 tensors", {f"t{i}": entry("U8", (1,), (i, i + 1)) for i in range(60)}, bytes(60))
    c.header("60 tensors in shuffled header order", {f"t{i * 7 % 60}": entry("U8", (1,), (i * 7 % 60, i * 7 % 60 + 1)) for i in range(60)}, bytes(60))
    c.header("60 tensors, one hole", {f"t{i}": entry("U8", (1,), (i + (i > 30), i + 1 + (i > 30))) for i in range(60)}, bytes(61))
    c.header("all common dtypes in one file", *mixed_file())


def mixed_file() -> tuple[dict, bytes]:
    header, at = {}, 0
    for dtype in ("F64", "I64", "F32", "BF16", "F16", "I32", "U16", "U8", "BOOL"):
        size = 2 * DTYPE_BITS[dtype] // 8
        header[f"w.{dtype}"] = entry(dtype, (2,), (at, at + size))
        at += size
    return header, bytes(at)


# --- judging --------------------------------------------------------------------------------------------


def error_class(message: str) -> str:
    """The library's message without prefix, position and detail: one phrase per kind of fault."""
    message = re.sub(r"^Error while deserializing(?: header)?: ", "", message)
    return message.split(":")[0].strip()


def judge(file: bytes, folder: Path) -> dict:
    memory = read_memory(file)
    disk = read_file(file, folder)
    same = memory["verdict"] == disk["verdict"] and memory.get("tensors") == disk.get("tensors")
    if not same or memory.get("error_class") != disk.get("error_class"):
        raise SystemExit(f"the two readers disagree: {memory} and {disk}")
    return disk


def describe(name: str, dtype: Any, shape: list[int]) -> dict:
    """One tensor of the table; dimensions above 2^53 - 1 are text, since JSON numbers would be rounded."""
    return {"name": name, "dtype": str(dtype), "shape": [d if d < 2**53 else str(d) for d in shape]}


def by_name(row: dict) -> str:
    return row["name"]


def in_order(values: dict | None) -> dict | None:
    """The library keeps metadata in a hash map whose order changes from run to run."""
    return None if values is None else dict(sorted(values.items()))


def read_memory(file: bytes) -> dict:
    try:
        tensors = safetensors.deserialize(file)
    except safetensors.SafetensorError as error:
        return rejection(error)
    rows = [describe(name, t["dtype"], t["shape"]) for name, t in tensors]
    return {"verdict": "accept", "tensors": sorted(rows, key=by_name)}


def read_file(file: bytes, folder: Path) -> dict:
    path = folder / "case.safetensors"
    path.write_bytes(file)
    try:
        with safetensors.safe_open(path, framework="numpy") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}
            rows = [describe(name, s.get_dtype(), s.get_shape()) for name, s in slices.items()]
            return {"verdict": "accept", "tensors": sorted(rows, key=by_name), "metadata": in_order(opened.metadata())}
    except safetensors.SafetensorError as error:
        return rejection(error)


def rejection(error: Exception) -> dict:
    # Of several faulty tensors the library names a random one.
    message = re.sub(r"^(.* for tensor) `.*`$", r"\1", str(error))
    return {"verdict": "reject", "error_class": error_class(message), "error": message}


def verdict_table() -> dict:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, file in all_cases().items():
            try:
                verdict = judge(file, Path(folder))
            except SystemExit as error:
                raise SystemExit(f"{name}: {error}") from None
            rows.append({"name": name, "bytes": base64.b64encode(file).decode(), **verdict})
    return {
        "about": "Verdicts of Python's safetensors on crafted files; made by interop/make_safetensors_verdicts.py. "
        "bytes: the whole file, base64. tensors are sorted by name (code points); dimensions above 2^53 - 1 are text; metadata is null when absent.",
        "safetensors": safetensors.__version__,
        "cases": rows,
    }


# --- seeds ----------------------------------------------------------------------------------------------


def seed_files() -> dict[str, bytes]:
    def floats(*shape: int) -> np.ndarray:
        return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) / 3 - 1

    def torch_seed(dtype: torch.dtype) -> bytes:
        return safetensors.torch.save({"w": torch.from_numpy(floats(2, 3)).to(dtype), "v": torch.zeros(1, dtype=dtype)})

    seeds = {}
    for dtype in ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64"):
        values = {"w": np.abs(floats(2, 3) * 5).astype(dtype), "v": np.zeros(1, dtype)}
        seeds[f"dtype {dtype}"] = safetensors.numpy.save(values)
    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        seeds[f"dtype {str(dtype).removeprefix('torch.')}"] = torch_seed(dtype)
    seeds["rank 0"] = safetensors.numpy.save({"scalar": np.array(1.5, np.float32), "count": np.array(7, np.int64)})
    seeds["no tensors"] = safetensors.numpy.save({})
    seeds["zero-size tensors"] = safetensors.numpy.save({"none": np.zeros((0,), np.float32), "wide": np.zeros((3, 0, 2), np.int16), "one": floats(1)})
    # One metadata key per file: the writer puts several into an order that changes from run to run.
    seeds["metadata"] = safetensors.numpy.save({"w": floats(4)}, metadata={"note": "line\nbreak \"quoted\" é"})
    seeds["metadata alone"] = safetensors.numpy.save({}, metadata={"k": "v"})
    seeds["non-ASCII names"] = safetensors.numpy.save({"gewicht.größe": floats(2), "重み.0": floats(3), "😀": floats(1), "a\"b\\c\n": floats(1)})
    seeds["many tensors"] = safetensors.numpy.save({f"layers.{i}.weight": floats(2, 2) + i for i in range(120)})
    seeds["mixed dtypes"] = safetensors.torch.save({f"t.{str(d).removeprefix('torch.')}": torch.ones(3, dtype=d) for d in (torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool)})
    seeds["state dict of a small model"] = safetensors.torch.save({f"transformer.h.{i}.{n}.weight": torch.full((4, 4), float(i)) for i in range(2) for n in ("attn.q_proj", "mlp.up_proj")}, metadata={"format": "pt"})
    seeds["prototype names"] = safetensors.numpy.save({"__proto__": floats(2), "constructor": floats(1), "toString": floats(1), "": floats(1)})
    return seeds


def seed_table(folder: Path) -> dict:
    rows = []
    for name, file in seed_files().items():
        verdict = judge(file, folder)
        if verdict["verdict"] != "accept":
            raise SystemExit(f"seed {name!r} is not valid: {verdict['error']}")
        rows.append({"name": name, "bytes": base64.b64encode(file).decode(), "tensors": verdict["tensors"], "metadata": verdict["metadata"]})
    return {
        "about": "Valid files written by Python's safetensors, for fuzzing; made by interop/make_safetensors_verdicts.py. bytes: base64.",
        "safetensors": safetensors.__version__,
        "seeds": rows,
    }


def write_table(path: Path, table: dict, key: str) -> None:
    """JSON with one row per line, so that a changed verdict is a one-line diff."""
    head = {k: v for k, v in table.items() if k != key}
    rows = ",\n".join(json.dumps(row) for row in table[key])
    text = json.dumps(head, indent=1)[:-2] + f',\n "{key}": [\n{rows}\n]\n}}\n'
    path.write_text(text)
    if path.stat().st_size > MAX_TABLE_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes, more than {MAX_TABLE_BYTES}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out-dir", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    args.out_dir.mkdir(parents=True, exist_ok=True)
    verdicts = verdict_table()
    write_table(args.out_dir / "verdicts.json", verdicts, "cases")
    with tempfile.TemporaryDirectory() as folder:
        seeds = seed_table(Path(folder))
    write_table(args.out_dir / "seeds.json", seeds, "seeds")
    accepted = sum(row["verdict"] == "accept" for row in verdicts["cases"])
    print(f"wrote {len(verdicts['cases'])} verdicts ({accepted} accepted) and {len(seeds['seeds'])} seeds to {args.out_dir}")


if __name__ == "__main__":
    main()
