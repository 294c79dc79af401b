//! Which pages of a mapped file opening it brings into memory.
#![cfg(all(target_os = "linux", target_pointer_width = "64", feature = "mmap"))]

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hk_std::hk_core::build::FileBuilder;
use hk_std::hk_core::{StorageType, Value};
use hk_std::{ModelFile, TensorSpec};
use tempfile::tempdir;

/// A file of 10,000 tensors and 1 GiB of payload that stands on no disk.
#[test]
fn opening_touches_no_payload() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("large.hk");
    let mut builder = FileBuilder::new();
    builder.metadata("tokens", Value::Bytes(&vec![7; 5 << 20])).unwrap();
    for i in 0..10_000 {
        let name = format!("blk.{i}.weight");
        builder.tensor(TensorSpec::new(name, StorageType::UINT8, &[100 << 10])).unwrap();
    }
    let plan = builder.plan().unwrap();
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&plan.head().concat()).unwrap();
    file.set_len(plan.file_len()).unwrap();
    drop(file);

    let model = ModelFile::open(&path).unwrap();
    assert_eq!(model.tensors().len(), 10_000);
    assert_eq!(model.tensor("blk.9999.weight").unwrap().data().len(), 100 << 10);
    let (head, toc) = (plan.header().tensor_data_offset, plan.header().toc.size);
    let resident = resident(&path);
    // The table at least, and at most the head; the system maps some pages around those
    // that are read.
    assert!(resident >= toc, "{resident} bytes in memory, of a table of {toc}");
    assert!(resident < head + (1 << 20), "{resident} bytes in memory, of a head of {head}");
    // Nor does the reading of one payload bring in the others.
    let data = model.tensor("blk.5000.weight").unwrap().data();
    assert!(data.iter().all(|&byte| byte == 0));
    assert!(self::resident(&path) < head + (4 << 20));
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < 16 << 20);
}

/// Bytes of this process's map of `path` that are in memory.
fn resident(path: &Path) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines().skip_while(|line| !line.ends_with(path.to_str().unwrap()));
    let rss = lines.find_map(|line| line.strip_prefix("Rss:")).expect("the file is mapped");
    rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
