"""Edits by `hk` are sound for the reference HK library, and the other way round.

Usage: reference_edits.py LIBHK.SO HK-PROGRAM

LIBHK.SO is `hk/libhk.so` of the `hknt` package (`pip download --no-deps hknt==2.0.0`, unzipped).
It asks for `libc.so` by name: put a folder with a link `libc.so` to the system's `libc.so.6` on
LD_LIBRARY_PATH.
"""

import ctypes
import pathlib
import shutil
import subprocess
import sys
import tempfile

SEALED, UNSEALED = 0, 1
DATA = pathlib.Path(__file__).parent.parent / "data" / "reference"


def load(path):
    lib = ctypes.CDLL(path)
    lib.hk_open.argtypes, lib.hk_open.restype = [ctypes.c_char_p], ctypes.c_void_p
    lib.hk_close.argtypes = [ctypes.c_void_p]
    lib.hk_get_metadata_string.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    lib.hk_get_metadata_string.restype = ctypes.c_char_p
    lib.hk_get_tensor_count.argtypes = [ctypes.c_void_p]
    lib.hk_get_tensor_count.restype = ctypes.c_uint64
    lib.hk_verify_integrity.argtypes = [ctypes.c_char_p]
    lib.hk_metadata_patch_in_place.argtypes = [ctypes.c_char_p] * 3
    lib.hk_appendix_get_count.argtypes = [ctypes.c_void_p]
    lib.hk_appendix_append_at.argtypes = [
        ctypes.c_char_p, ctypes.c_uint8, ctypes.c_uint8, ctypes.c_char_p, ctypes.c_char_p,
        ctypes.c_uint32, ctypes.c_char_p, ctypes.c_float, ctypes.c_float, ctypes.c_float,
        ctypes.c_float, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64,
    ]
    lib.hk_appendix_rollback.argtypes = [ctypes.c_char_p, ctypes.c_uint32]
    return lib


class Pair:
    """One file, and both programs."""

    def __init__(self, lib, program, file):
        self.lib, self.program, self.file = lib, program, str(file)
        self.checks = 0

    def hk(self, *args, data=None):
        args = [self.program, *args]
        return subprocess.run(args, input=data, capture_output=True, check=True).stdout.decode()

    def check(self, seal, records, strings):
        """What the library and `hk` say of the file."""
        path = self.file.encode()
        found = self.lib.hk_verify_integrity(path)
        assert found == seal, f"hk_verify_integrity: {found}"
        handle = self.lib.hk_open(path)
        assert handle, "hk_open"
        count = self.lib.hk_appendix_get_count(handle)
        assert count == records, f"{count} records"
        for key, value in strings.items():
            got = self.lib.hk_get_metadata_string(handle, key.encode())
            assert got == value.encode(), f"{key}: {got}"
        self.lib.hk_close(handle)
        self.hk("verify", self.file)
        self.hk("appendix", "verify", self.file)
        listed = self.hk("appendix", "list", self.file, "--json").count('"index"')
        assert listed == records, f"hk lists {listed} records"
        self.checks += 1


def ours(pair):
    """Files that `hk` edits."""
    file, seal = pair.file, pair.lib.hk_verify_integrity(pair.file.encode())
    pair.hk("metadata", "set", file, "general.name", "another name")
    pair.check(seal, 0, {"general.name": "another name"})
    pair.hk("metadata", "set", file, "long", "x" * 3000)
    pair.check(seal, 0, {"general.name": "another name", "long": "x" * 3000})
    pair.hk("metadata", "unset", file, "long")
    pair.check(seal, 0, {"general.name": "another name"})
    for count, kind in enumerate(["lora_adapter", "delta_patch", "code_eval"], 1):
        pair.hk("appendix", "append", file, "-", "--type", kind, "--name", kind, data=b"d" * 999)
        pair.check(seal, count, {})
    pair.hk("appendix", "rollback", file, "--generation", "2")
    pair.check(seal, 2, {})
    pair.hk("seal", file)
    pair.check(SEALED, 2, {})
    pair.hk("appendix", "append", file, "--type", "new_layer", "--name", "after the seal")
    pair.check(SEALED, 3, {})
    pair.hk("appendix", "rollback", file, "--generation", "0")
    pair.check(SEALED, 0, {})
    pair.hk("unseal", file)
    pair.check(UNSEALED, 0, {})


def theirs(pair):
    """Files that the library edits, after `hk` and before it."""
    file, path = pair.file, pair.file.encode()
    pair.hk("metadata", "set", file, "general.name", "ours")
    patched = pair.lib.hk_metadata_patch_in_place(path, b"general.name", b"theirs")
    assert patched == 0, f"hk_metadata_patch_in_place: {patched}"
    seal = pair.lib.hk_verify_integrity(path)
    pair.check(seal, 0, {"general.name": "theirs"})
    pair.hk("appendix", "append", file, "-", "--type", "delta_patch", "--name", "a", data=b"one")
    added = pair.lib.hk_appendix_append_at(
        path, 3, 1, b"b", b"", 2, bytes(32), 0, 0, 0, 0, b"two", 3, 1_700_000_000
    )
    assert added == 0, f"hk_appendix_append_at: {added}"
    pair.check(seal, 2, {})
    pair.hk("appendix", "append", file, "-", "--type", "delta_patch", "--name", "c", data=b"three")
    pair.check(seal, 3, {})
    back = pair.lib.hk_appendix_rollback(path, 1)
    assert back == 0, f"hk_appendix_rollback: {back}"
    pair.check(pair.lib.hk_verify_integrity(path), 1, {})


def main():
    lib, program = load(sys.argv[1]), str(pathlib.Path(sys.argv[2]).resolve())
    checks = 0
    # The library does not open ref_65536.hk, which it wrote itself.
    for name in ["ref_128.hk", "ref_48.hk", "ref_4096_raw.hk"]:
        for edits in [ours, theirs]:
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "model.hk"
                shutil.copyfile(DATA / name, file)
                pair = Pair(lib, program, file)
                try:
                    edits(pair)
                except AssertionError as error:
                    sys.exit(f"{name}, {edits.__name__}, after {pair.checks} checks: {error}")
                checks += pair.checks
    print(f"{checks} checks passed")


main()
