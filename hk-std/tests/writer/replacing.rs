//! Streams of payloads, and files that are replaced whole or not at all.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use hk_std::hk_core::{Part, StorageType};
use hk_std::{ModelFile, Progress, TensorSpec, Writer};
use tempfile::tempdir;

use super::*;

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.hk");
    fs::write(&path, "old").unwrap();
    let writer = everything(128);
    let size = specs()[1].data_size;
    let cases: [(&str, usize, &[&str]); 2] = [
        ("short", size as usize - 1, &["data of tensor \"blocks\"", "575 of 576"]),
        ("long", size as usize + 1, &["data of tensor \"blocks\"", "after the 576"]),
    ];
    for (case, given, words) in cases {
        let result = writer.write(&path, |spec, part| {
            let mut bytes = payload(&spec.name, part, spec.size(part));
            if spec.name == "blocks" {
                bytes.resize(given, 0);
            }
            Ok(io::Cursor::new(bytes))
        });
        let text = result.unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{case}: {text}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        alone(&path);
    }

    // The source fails when it is opened, and when it is read.
    let error = || io::Error::other("the cable fell out");
    let opened = writer.write(&path, |_, _| Err::<io::Empty, _>(error()));
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable fell out"))
        }
    }
    let read = writer.write(&path, |_, _| Ok(Broken));
    for result in [opened, read] {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("the cable fell out") && text.contains("\"scalar\""), "{text}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        alone(&path);
    }

    // The source says that it gave more than there was room for.
    struct Boaster;
    impl Read for Boaster {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            Ok(buffer.len() + 1)
        }
    }
    let text = writer.write(&path, |_, _| Ok(Boaster)).unwrap_err().to_string();
    assert!(text.contains("more bytes than it was asked for"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    alone(&path);

    // The source panics.
    let panicked = std::panic::catch_unwind(|| {
        let _ = writer.write(&path, |_, _| -> io::Result<io::Empty> { panic!("by the test") });
    });
    assert!(panicked.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    alone(&path);

    write(&writer, &path).unwrap();
    assert!(ModelFile::open(&path).is_ok());
    alone(&path);
}

#[test]
fn a_reader_may_give_little_at_a_time_and_be_interrupted() {
    struct Slow(Vec<u8>, usize);
    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(3) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = self.0.len().min(7).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }
    let folder = tempdir().unwrap();
    let (fast, slow) = (folder.path().join("fast.hk"), folder.path().join("slow.hk"));
    let writer = everything(128);
    write(&writer, &fast).unwrap();
    let parts = |spec: &TensorSpec, part| Ok(Slow(payload(&spec.name, part, spec.size(part)), 0));
    writer.write(&slow, parts).unwrap();
    assert!(fs::read(&fast).unwrap() == fs::read(&slow).unwrap());
}

#[test]
fn a_write_stops_when_asked_to() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("large.hk");
    fs::write(&path, "old").unwrap();
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("large", StorageType::UINT8, &[5_000_000])).unwrap();
    let zeros = |_: &TensorSpec, _| Ok(io::repeat(7).take(5_000_000));
    let stop = |p: Progress| match p.done < 2_000_000 {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let result = writer.write_with_progress(&path, zeros, stop);
    assert!(matches!(result, Err(hk_std::Error::Stopped)));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn progress_runs_to_the_length_of_the_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("large.hk");
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("large", StorageType::UINT8, &[5_000_000])).unwrap();
    let mut seen: Vec<Progress> = Vec::new();
    let zeros = |_: &TensorSpec, _| Ok(io::repeat(7).take(5_000_000));
    let length = writer.write_with_progress(&path, zeros, |p| {
        seen.push(p);
        ControlFlow::Continue(())
    });
    let length = length.unwrap();
    assert!(seen.len() >= 5);
    assert!(seen.is_sorted_by(|a, b| a.done < b.done));
    assert!(seen.iter().all(|p| p.total == length));
    assert_eq!(seen.last().unwrap().done, length);
    let model = ModelFile::open(&path).unwrap();
    assert!(model.tensor("large").unwrap().data().iter().all(|&byte| byte == 7));
}

#[test]
fn parts_are_asked_for_once_and_in_order() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("all.hk");
    let mut asked = Vec::new();
    everything(128)
        .write(&path, |spec, part| {
            asked.push((spec.name.clone(), part));
            Ok(io::Cursor::new(payload(&spec.name, part, spec.size(part))))
        })
        .unwrap();
    let mut expected = Vec::new();
    for spec in specs() {
        for part in [Part::Data, Part::Scales, Part::Residual] {
            if spec.size(part) > 0 {
                expected.push((spec.name.clone(), part));
            }
        }
    }
    assert_eq!(asked, expected);
}

#[test]
fn a_target_that_is_no_file_is_refused_before_anything_is_asked() {
    let folder = tempdir().unwrap();
    let refused = |path: &Path, words: &[&str]| {
        let result = Writer::new().write(path, |_, _| -> io::Result<io::Empty> { unreachable!() });
        let text = result.unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    refused(folder.path(), &["is a directory"]);
    refused(&folder.path().join("nowhere/model.hk"), &["there is no folder", "make it first"]);
    #[cfg(unix)]
    refused(Path::new("/dev/null"), &["/dev/null", "no regular file"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_stays_and_its_target_is_replaced() {
    let folder = tempdir().unwrap();
    let elsewhere = tempdir().unwrap();
    let (link, target) = (folder.path().join("link.hk"), elsewhere.path().join("model.hk"));
    fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    write(&everything(128), &link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(ModelFile::open(&target).is_ok());
    alone(&link);
    alone(&target);

    fs::remove_file(&target).unwrap();
    let text = write(&everything(128), &link).unwrap_err().to_string();
    assert!(text.contains("link.hk"), "{text}");
}

#[cfg(unix)]
#[test]
fn permissions_are_those_of_the_old_file_or_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let folder = tempdir().unwrap();
    let (path, plain) = (folder.path().join("model.hk"), folder.path().join("plain"));
    fs::write(&plain, "").unwrap();
    write(&everything(128), &path).unwrap();
    assert_eq!(mode(&path), mode(&plain));
    // The superuser's writes leave a file to its owner; others cannot give files away.
    let owner = if std::os::unix::fs::chown(&path, Some(1234), Some(4321)).is_ok() {
        (1234, 4321)
    } else {
        owner(&path)
    };
    for old in [0o600, 0o640, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(old)).unwrap();
        write(&everything(128), &path).unwrap();
        assert_eq!(mode(&path), old);
        assert_eq!(self::owner(&path), owner);
    }
}

#[cfg(unix)]
fn owner(path: &Path) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

#[test]
fn an_open_file_survives_its_replacement() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.hk");
    write(&everything(128), &path).unwrap();
    let old = ModelFile::open(&path).unwrap();
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("new", StorageType::F32, &[4])).unwrap();
    // Windows refuses to replace a mapped file; then the old one must stand.
    let replaced = write(&writer, &path).is_ok();
    assert!(replaced || cfg!(windows));
    let blocks = old.tensor("blocks").unwrap();
    assert!(blocks.data() == payload("blocks", Part::Data, 576));
    assert_eq!(ModelFile::open(&path).unwrap().tensor("new").is_some(), replaced);
}

#[test]
fn sources_of_many_kinds_can_be_mixed() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.hk");
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("file", StorageType::UINT8, &[3])).unwrap();
    writer.tensor(TensorSpec::new("memory", StorageType::UINT8, &[2])).unwrap();
    let source = folder.path().join("source");
    fs::write(&source, "abc").unwrap();
    writer
        .write(&path, |spec, _| -> io::Result<Box<dyn Read>> {
            Ok(match spec.name.as_str() {
                "file" => Box::new(fs::File::open(&source)?),
                _ => Box::new(&b"de"[..]),
            })
        })
        .unwrap();
    let model = ModelFile::open(&path).unwrap();
    let data: HashMap<_, _> = model.tensors().map(|t| (t.name, t.data())).collect();
    assert_eq!(data, HashMap::from([("file", &b"abc"[..]), ("memory", b"de")]));
}
