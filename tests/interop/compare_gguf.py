"""Compare a GGUF file, read by the gguf package, with the HK file that `hk convert` made of it.

usage: compare_gguf.py IN.gguf OUT.hk [HK-PROGRAM]
Metadata by value and recorded type; tensors by name, shape, type and bytes; and with HK-PROGRAM
every tensor's f32 from `hk dequantize` with the package's, bit for bit.
"""
import math
import subprocess
import sys

import gguf
import numpy as np
from gguf import GGUFValueType as T

from decode import decode
from hkfile import HkFile

NAMES = {"I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"}
INTEGERS = {T.UINT8, T.INT8, T.UINT16, T.INT16, T.UINT32, T.INT32, T.UINT64, T.INT64}


def same(a, b):
    """Equality that takes NaN for NaN and tells the zeros apart."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return isinstance(b, float) and (math.isnan(a) and math.isnan(b) or a == b
                                         and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b


def expected(field):
    """Tag, value and types (None where implied without a table of keys) of a GGUF field."""
    kind = field.types[0]
    if kind == T.ARRAY:
        element = field.types[-1]
        if element == T.STRING:
            return 6, [bytes(field.parts[i]) for i in field.data], None
        value = [v for i in field.data for v in field.parts[i].tolist()]
        if element == T.FLOAT32:
            return 6, value, None
        record = ["ARRAY", element.name]
        if element == T.FLOAT64:
            word = lambda x: "NaN" if math.isnan(x) else ("-" if x < 0 else "") + "Infinity"
            return 5, [x if math.isfinite(x) else word(x) for x in value], record
        if all(-2**31 <= v < 2**31 for v in value):
            return 6, [int(v) for v in value], None if element == T.INT32 else record
        return 5, value, record
    value = field.contents()
    if kind in INTEGERS:
        return 2, value, None if kind == T.INT64 else kind.name
    if kind in (T.FLOAT32, T.FLOAT64):
        exact = float(np.float32(value)) == value
        return 3, value, "FLOAT64" if kind == T.FLOAT64 and exact else None
    return {T.BOOL: 4, T.STRING: 1}[kind], value, None


def compare_metadata(reader, hk):
    tag, types = hk.metadata.pop("hk.gguf.types")
    assert tag == 5
    fields = {k: f for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    assert list(fields) == list(hk.metadata), "keys or their order"
    for key, field in fields.items():
        tag, value, record = expected(field)
        found_tag, found = hk.metadata[key]
        assert tag == found_tag and same(value, found), f"{key}: {value!r:.80} became {found!r:.80}"
        recorded = types.pop(key, None)
        # UINT32 is implied for keys that GGUF defines so.
        implied = recorded is None and record == "UINT32"
        assert recorded == record or implied, f"{key}: {recorded} recorded, {record} expected"
    assert not types, f"types of keys that are not there: {types}"
    return len(fields)


def main():
    program = sys.argv[3] if len(sys.argv) > 3 else None
    reader, hk = gguf.GGUFReader(sys.argv[1]), HkFile(sys.argv[2])
    pairs = compare_metadata(reader, hk)
    assert [t.name for t in reader.tensors] == list(hk.tensors), "tensors or their order"
    weights = 0
    for tensor in reader.tensors:
        storage, shape, data = hk.tensors[tensor.name]
        kind = tensor.tensor_type
        assert storage == NAMES.get(kind.name, kind.name.lower()), tensor.name
        assert shape == tuple(int(d) for d in reversed(tensor.shape)), tensor.name
        raw = np.ascontiguousarray(tensor.data).view(np.uint8).ravel()
        assert raw.tobytes() == data, f"{tensor.name}: bytes differ"
        if program:
            out = subprocess.run([program, "dequantize", sys.argv[2], tensor.name],
                                 check=True, stdout=subprocess.PIPE).stdout
            ours, theirs = np.frombuffer(out, "<u4"), decode(raw, kind).view("<u4")
            assert np.array_equal(ours, theirs), f"{tensor.name}: f32 differs"
            weights += len(ours)
    print(f"{sys.argv[2]}: {pairs} metadata pairs, {len(hk.tensors)} tensors"
          + (f", {weights} weights" if program else "") + ": all equal")


main()
