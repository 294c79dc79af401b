"""The f32 values that the gguf package gives for raw blocks, and by plain numpy for the two
block types that it does not decode."""
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

PLAIN = {Q.F32: "<f4", Q.F16: "<f2", Q.F64: "<f8",
         Q.I8: "<i1", Q.I16: "<i2", Q.I32: "<i4", Q.I64: "<i8"}

# The package has the size of an older q8_1, with two f32; ggml's has two f16.
gguf.GGML_QUANT_SIZES[Q.Q8_1] = 32, 36


def decode(raw, kind):
    """f32 of `raw`, an array of bytes."""
    if kind in PLAIN:
        return raw.view(PLAIN[kind]).astype(np.float32)
    if kind == Q.Q8_1:  # d f16, s f16, i8[32]
        blocks = raw.reshape(-1, 36)
        d = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
        return (d * np.ascontiguousarray(blocks[:, 4:]).view(np.int8).astype(np.float32)).ravel()
    if kind == Q.Q8_K:  # d f32, i8[256], i16[16]
        blocks = raw.reshape(-1, 292)
        d = np.ascontiguousarray(blocks[:, :4]).view("<f4")
        q = np.ascontiguousarray(blocks[:, 4:260]).view(np.int8).astype(np.float32)
        return (d * q).ravel()
    # One block a row, so that the package sees rows of a size that it accepts.
    _, size = gguf.GGML_QUANT_SIZES[kind]
    return gguf.quants.dequantize(raw.reshape(-1, size), kind).ravel()
