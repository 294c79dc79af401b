"""Write a GGUF file with a tensor of every type that HK takes over, and metadata of every kind.

usage: make_gguf.py OUT.gguf [SEED] [ALIGNMENT]
Blocks are random bytes; those that decode to NaN or infinity are left out.
"""
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf import GGUFValueType as T

from decode import PLAIN, decode

KINDS = [kind for kind in Q if kind != Q.Q1_0]


def blocks(rng, kind, count):
    """`count` random blocks without NaN and infinity."""
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (4 * count, size), np.uint8)
    with np.errstate(all="ignore"):
        sound = np.isfinite(decode(raw.ravel(), kind).reshape(-1, weights)).all(axis=1)
    raw = raw[sound][:count]
    assert len(raw) == count, kind
    return raw


def metadata(writer):
    scalars = {
        T.UINT8: 255, T.INT8: -128, T.UINT16: 65535, T.INT16: -32768, T.UINT32: 2**32 - 1,
        T.INT32: -2**31, T.UINT64: 2**63 - 1, T.INT64: -2**63, T.FLOAT32: 0.1, T.FLOAT64: 0.1,
        T.BOOL: True, T.STRING: "größe \" \\ \n 日本",
    }
    for kind, value in scalars.items():
        writer.add_key_value(f"test.scalar.{kind.name.lower()}", value, kind)
        element = value if kind != T.UINT64 else 2**64 - 1
        writer.add_key_value(f"test.array.{kind.name.lower()}", [element, element], T.ARRAY, kind)
    writer.add_key_value("test.float64.exact", 0.5, T.FLOAT64)
    writer.add_key_value("test.array.strange", [float("nan"), float("inf"), float("-inf"), -0.0],
                         T.ARRAY, T.FLOAT64)
    writer.add_key_value("test.array.text", [b"\xff\x00", b"", b"abc"], T.ARRAY, T.STRING)
    writer.add_block_count(4)
    writer.add_bos_token_id(0)


def main():
    path = sys.argv[1]
    seed, alignment = (int(a) for a in (sys.argv[2:] + ["1", "32"])[:2])
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "test")
    if alignment != 32:
        writer.add_custom_alignment(alignment)
    metadata(writer)
    for kind in KINDS:
        weights, size = gguf.GGML_QUANT_SIZES[kind]
        # An odd number of blocks a row, and three dimensions for some.
        shape = (3, 5) if kind.value % 2 else (2, 3, 7)
        raw = blocks(rng, kind, int(np.prod(shape)))
        raw = raw.reshape(*shape[:-1], shape[-1] * size)
        if kind in PLAIN:
            writer.add_tensor(f"{kind.name}.weight", raw.view(PLAIN[kind]))
        else:
            writer.add_tensor(f"{kind.name}.weight", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path}: {len(KINDS)} tensors")


main()
