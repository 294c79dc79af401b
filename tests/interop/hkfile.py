"""A small reader of HK files for comparisons, written from the specification alone."""
import json
import struct

STORAGE = {
    0x00: "f32", 0x01: "f16", 0x02: "bf16", 0x03: "fp8_e4m3", 0x04: "fp8_e5m2", 0x05: "int8",
    0x06: "int32", 0x07: "int64", 0x08: "uint8", 0x09: "bool", 0x0A: "int16", 0x0B: "uint16",
    0x0C: "uint32", 0x0D: "uint64", 0x0E: "f64",
    0x15: "q4_0", 0x16: "q8_0", 0x17: "q4_1", 0x18: "q5_0", 0x19: "q5_1", 0x1A: "q8_1",
    0x40: "q2_k", 0x41: "q3_k", 0x42: "q4_k", 0x43: "q5_k", 0x44: "q6_k", 0x45: "q8_k",
    0x50: "iq1_s", 0x51: "iq1_m", 0x52: "iq2_xxs", 0x53: "iq2_xs", 0x54: "iq3_xxs",
    0x55: "iq4_nl", 0x56: "iq4_xs", 0x57: "iq2_s", 0x58: "iq3_s",
    0x60: "tq1_0", 0x61: "tq2_0", 0x62: "mxfp4", 0x63: "nvfp4",
}


class HkFile:
    """`metadata`: key to (tag, value); `tensors`: name to (storage, shape, bytes)."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = d = f.read()
        assert d[:4] == b"HKNT" and struct.unpack_from("<H", d, 4) == (1,), "no HK file"
        self.alignment = struct.unpack_from("<H", d, 0x0C)[0] or 65536
        tensors, pairs, at, _, toc, _ = struct.unpack_from("<6Q", d, 0x10)
        self.metadata = {}
        for _ in range(pairs):
            (n,) = struct.unpack_from("<H", d, at)
            key = d[at + 2:at + 2 + n].decode()
            tag, length = struct.unpack_from("<BI", d, at + 2 + n)
            at += 2 + n + 5
            assert key not in self.metadata, f"{key}: twice"
            self.metadata[key] = tag, self.value(tag, d[at:at + length])
            at += length
        self.tensors = {}
        for _ in range(tensors):
            (n,) = struct.unpack_from("<H", d, toc)
            name = d[toc + 2:toc + 2 + n].decode()
            storage, tile, sparsity, ndim = d[toc + 2 + n:toc + 6 + n]
            assert (tile, sparsity) == (0, 0), f"{name}: not plain"
            toc += 6 + n
            shape = struct.unpack_from(f"<{ndim}Q", d, toc)
            toc += 8 * ndim
            offset, size, _, residual, _, scales, _, _ = struct.unpack_from("<6QHf", d, toc)
            toc += 54
            assert residual == scales == 0 and offset % self.alignment == 0, name
            assert offset + size <= len(d) and name not in self.tensors, name
            self.tensors[name] = STORAGE[storage], shape, d[offset:offset + size]

    @staticmethod
    def value(tag, b):
        match tag:
            case 1: return b.decode()
            case 2: return struct.unpack("<q", b)[0]
            case 3: return struct.unpack("<d", b)[0]
            case 4: return bool(struct.unpack("<B", b)[0])
            case 5: return json.loads(b)
            case _: return HkFile.array(b)

    @staticmethod
    def array(b):
        kind, zero, count = struct.unpack_from("<B3sI", b)
        assert zero == bytes(3)
        match kind:
            case 1:
                offsets = struct.unpack_from(f"<{count + 1}I", b, 8)
                data = b[8 + 4 * (count + 1):]
                assert offsets[0] == 0 and offsets[-1] == len(data)
                return [data[i:j] for i, j in zip(offsets, offsets[1:])]
            case 2 | 3:
                assert len(b) == 8 + 4 * count
                return list(struct.unpack_from(f"<{count}{'f' if kind == 2 else 'i'}", b, 8))
        raise ValueError(f"array kind {kind}")
