//! `verify` against the readers: what they refuse it must call a fault, on files corrupted
//! in every way the mutator knows.

use hk_core::format::appendix::RecordType;
use hk_core::{ErrorKind, Hk, Portable, Residual};
use hk_std::verify::{Report, Severity, verify};
use hk_tests::build::one_of_everything;
use hk_tests::mutate::{self, Corrupt};
use hk_tests::{data, reference_names};

/// The first thing that a reader refuses in a file, if it does.
fn refused(file: &[u8]) -> Option<hk_core::Error> {
    let hk = match Hk::parse(file) {
        Ok(hk) => hk,
        Err(error) => return Some(error),
    };
    let of_tensors = hk.tensors().filter_map(|tensor| {
        let error = tensor.dequantize_range(&Portable, 0..0, &mut [], Residual::Add).err()?;
        let is_fault = matches!(
            error.kind(),
            ErrorKind::TooShort { .. }
                | ErrorKind::DanglingReference
                | ErrorKind::BlockSize(_)
                | ErrorKind::Sparse(_)
        );
        is_fault.then_some(error)
    });
    let of_records = hk.appendix().filter_map(|record| match record {
        Ok(record) => record.check_crc().err(),
        Err(error) => Some(error),
    });
    of_tensors.chain(of_records).next()
}

/// Whether a report holds together, and agrees with what readers refuse.
fn check(what: &str, file: &[u8]) -> Report {
    let report = std::panic::catch_unwind(|| verify(file));
    let report = report.unwrap_or_else(|_| panic!("the panic above came from: {what}"));
    if let Some(error) = refused(file) {
        assert!(!report.is_sound(), "{what}: sound, but {error}");
    }
    let faults = report.findings().iter().filter(|f| f.severity == Severity::Fault).count() as u64;
    assert_eq!(faults, report.faults(), "{what}");
    for finding in report.findings() {
        let line = finding.to_string();
        assert!(!line.contains('\n'), "{what}: {line:?}");
        let section_end = file.len().max(128) as u64;
        assert!(finding.offset <= section_end, "{what}: {line}");
    }
    report
}

/// Checks each file; says how many were sound.
fn check_all(files: impl Iterator<Item = Corrupt>) -> usize {
    files.filter(|Corrupt { what, bytes }| check(what, bytes).is_sound()).count()
}

#[test]
fn the_seed_file_has_notes_only() {
    let report = check("the seed file", &one_of_everything().bytes);
    let lines: Vec<_> = report.findings().iter().map(ToString::to_string).collect();
    assert!(report.is_sound(), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("unknown record type 0x99")), "{lines:#?}");
    assert_eq!(RecordType(0x99).name(), None);
}

#[test]
fn files_cut_at_every_byte() {
    let file = one_of_everything().bytes;
    let sound = check_all(mutate::truncations(&file));
    // Only the end of the appendix can be missed: padding, or what is less than a head of
    // one of its two records.
    assert!(sound > 0 && sound < 2 * (80 + 8), "{sound} of {}", file.len());
}

#[test]
fn files_with_every_number_spoilt() {
    let built = one_of_everything();
    let total = mutate::numbers(&built).count();
    let sound = check_all(mutate::numbers(&built));
    assert!(sound > 0 && sound < total / 2, "{sound} of {total}");
}

#[test]
fn files_changed_at_random() {
    let file = one_of_everything().bytes;
    let sound = check_all(mutate::random(&file, 7, 20_000));
    assert!(sound > 1000 && sound < 15_000, "{sound}");
}

#[test]
fn reference_files_changed_at_random() {
    for (seed, name) in reference_names().iter().enumerate() {
        let file = data(&format!("reference/{name}"));
        assert!(check(name, &file).is_sound());
        let count = (10_000_000 / file.len()).clamp(20, 2000);
        let sound = check_all(mutate::random(&file, seed as u64 + 70, count));
        // A seal sees every change.
        assert!(name == "all_types.hk" || sound * 20 < count, "{name}: {sound} of {count}");
    }
}
