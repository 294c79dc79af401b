//! Opening files: good ones, and what stands in their place.

use std::fs;
use std::path::{Path, PathBuf};

use hk_std::hk_core::StorageType;
use hk_std::{Access, Error, ModelFile, TensorSpec, Writer};
use tempfile::tempdir;

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/reference")
}

fn fails(path: &Path, words: &[&str]) {
    for result in [ModelFile::open(path), ModelFile::read(path)] {
        let text = result.expect_err("it opened").to_string();
        let name = path.file_name().unwrap().to_str().unwrap();
        for word in words.iter().chain([&name]) {
            assert!(text.contains(word), "{word:?} is not in {text:?}");
        }
    }
}

#[test]
fn every_reference_file_opens() {
    let mut seen = 0;
    for entry in fs::read_dir(reference()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "hk") {
            continue;
        }
        for access in [Access::Normal, Access::Sequential, Access::Random] {
            let model = ModelFile::open_for(&path, access).unwrap();
            assert_eq!(model.path(), path);
            assert_eq!(model.hk().bytes(), fs::read(&path).unwrap());
            assert!(model.tensors().len() > 0);
            for tensor in model.tensors() {
                assert_eq!(model.tensor(tensor.name).unwrap().entry(), tensor.entry());
                assert_eq!(model.tensor_at(tensor.index).unwrap().entry(), tensor.entry());
                let (by_hash, by_walk) = (model.resolve(&tensor), tensor.resolve());
                assert_eq!(by_hash.unwrap().entry(), by_walk.unwrap().entry());
            }
        }
        seen += 1;
    }
    assert!(seen >= 11);
}

#[test]
fn reading_gives_what_mapping_gives() {
    let path = reference().join("all_types.hk");
    let (mapped, read) = (ModelFile::open(&path).unwrap(), ModelFile::read(&path).unwrap());
    read.advise(Access::Random);
    assert_eq!(mapped.hk().bytes(), read.hk().bytes());
    assert_eq!(mapped.header(), read.header());
    assert!(mapped.tensors().map(|t| *t.entry()).eq(read.tensors().map(|t| *t.entry())));
    let first = |model: &ModelFile| model.metadata().iter().next().map(|e| e.key.to_owned());
    assert_eq!(first(&mapped), first(&read));
}

#[test]
fn names_and_positions_that_are_not_there_give_nothing() {
    let model = ModelFile::open(reference().join("ref_128.hk")).unwrap();
    let count = model.tensors().len() as u32;
    assert!(model.tensor("").is_none());
    assert!(model.tensor("no such tensor").is_none());
    assert!(model.tensor_at(count - 1).is_some());
    assert!(model.tensor_at(count).is_none());
    assert!(model.tensor_at(u32::MAX).is_none());
}

#[test]
fn a_model_can_be_shared_by_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let model = ModelFile::open(reference().join("ref_128.hk")).unwrap();
    shared(&model);
    let names = || model.tensors().map(|t| t.name).collect::<Vec<_>>();
    let other = std::thread::scope(|scope| scope.spawn(names).join().unwrap());
    assert_eq!(other, names());
}

/// A file of the writer with the bytes of a name changed.
fn renamed(path: &Path, from: &str, to: &str) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
    bytes[at..][..to.len()].copy_from_slice(to.as_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn of_two_equal_names_the_first_is_found() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("twice.hk");
    let mut writer = Writer::new();
    for name in ["one", "two", "six"] {
        writer.tensor(TensorSpec::new(name, StorageType::UINT8, &[1])).unwrap();
    }
    writer.write(&path, |_, _| Ok(&[0][..])).unwrap();
    renamed(&path, "six", "two");
    let model = ModelFile::open(&path).unwrap();
    assert_eq!(model.tensor("two").unwrap().index, 1);
    assert!(model.tensor("six").is_none());
}

#[test]
fn references_resolve_by_hash_as_by_walk() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("shared.hk");
    let mut writer = Writer::new();
    let tensor = |name: &str| TensorSpec::new(name, StorageType::F16, &[4]);
    for (stored, shared) in [("a", "a2"), ("b", "b2"), ("c", "c2")] {
        writer.tensor(tensor(stored)).unwrap();
        writer.shared(shared, stored, &[2, 2]).unwrap();
        writer.shared(&format!("{shared}x"), stored, &[1, 4]).unwrap();
    }
    writer.write(&path, |_, _| Ok(&[0; 8][..])).unwrap();
    let model = ModelFile::open(&path).unwrap();
    for tensor in model.tensors() {
        let (by_hash, by_walk) = (model.resolve(&tensor).unwrap(), tensor.resolve().unwrap());
        assert_eq!(by_hash.entry(), by_walk.entry());
        assert_eq!((by_hash.storage, by_hash.name), (StorageType::F16, tensor.name));
        assert_eq!(by_hash.shape, tensor.shape);
    }

    // A reference before its target: none earlier has the bytes, and they are no f32.
    let mut bytes = fs::read(&path).unwrap();
    let reference = *model.tensor("a2").unwrap().entry();
    let ranges = reference.offset as usize + 2 + "a2".len() + 4 + 2 * 8;
    assert_eq!(bytes[ranges..ranges + 8], reference.data.offset.to_le_bytes());
    let later = model.tensor("b").unwrap().data.offset;
    bytes[ranges..ranges + 8].copy_from_slice(&later.to_le_bytes());
    drop(model);
    fs::write(&path, bytes).unwrap();
    let model = ModelFile::open(&path).unwrap();
    let tensor = model.tensor("a2").unwrap();
    assert!(tensor.resolve().is_err());
    let text = model.resolve(&tensor).unwrap_err().to_string();
    assert!(text.contains("\"a2\"") && text.contains("shared_ref"), "{text}");
}

#[test]
fn what_is_no_file_is_said_to_be_none() {
    let folder = tempdir().unwrap();
    fails(folder.path(), &["directory"]);
    fails(&folder.path().join("missing.hk"), &["cannot open"]);
    let empty = folder.path().join("empty.hk");
    fs::write(&empty, "").unwrap();
    fails(&empty, &["empty"]);
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_do_not_hang() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe.hk");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let socket = folder.path().join("socket.hk");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let link = folder.path().join("link.hk");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for path in [&pipe, &socket, &link, Path::new("/dev/zero")] {
            fails(path, &["pipe or device"]);
        }
        done.send(()).unwrap();
    });
    wait.recv_timeout(std::time::Duration::from_secs(20)).expect("it hangs or fails");
    drop(folder);
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let path = folder.path().join("secret.hk");
    fs::copy(reference().join("ref_128.hk"), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read anything.
    match fs::File::open(&path) {
        Ok(_) => assert!(ModelFile::open(&path).is_ok()),
        Err(_) => fails(&path, &["cannot open", "ermission"]),
    }
}

#[test]
fn files_of_other_kinds_are_named() {
    let folder = tempdir().unwrap();
    let safetensors = [&8u64.to_le_bytes()[..], b"{\"a\":{}}"].concat();
    let cases: [(&str, &[u8], &[&str]); 10] = [
        ("gguf", b"GGUF\x03\0\0\0", &["GGUF", "hk convert"]),
        ("safetensors", &safetensors, &["safetensors", "GGUF"]),
        ("lfs", b"version https://git-lfs.github.com/spec/v1\n", &["git lfs pull"]),
        ("zip", b"PK\x03\x04........", &["zip", "PyTorch"]),
        ("pickle", b"\x80\x02}q", &["pickle"]),
        ("gzip", b"\x1F\x8B\x08\0", &["gzip"]),
        ("html", b"<!DOCTYPE html>", &["web page"]),
        ("text", b"once upon a time", &["not an HK file"]),
        ("short", b"HKNT\x01\0", &["128 bytes needed", "6 there"]),
        ("shorter", b"HK", &["128 bytes needed", "2 there"]),
    ];
    for (name, bytes, words) in cases {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        fails(&path, words);
    }
}

#[test]
fn a_broken_file_is_an_error_with_its_place() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("cut.hk");
    let bytes = fs::read(reference().join("ref_128.hk")).unwrap();
    fs::write(&path, &bytes[..200]).unwrap();
    fails(&path, &["header, byte", "200 bytes"]);
    let Err(Error::Format { path: named, tensor: None, source }) = ModelFile::open(&path) else {
        panic!("another error")
    };
    assert_eq!((named, source.offset()), (path, 0x20));
}
