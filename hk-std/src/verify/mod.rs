//! Every structural check there is of an HK file.
//!
//! [`verify`] reads a file of any content, damaged or hostile, and reports all it finds, not
//! only what is wrong first: where one check fails the others go on as far as the bytes still
//! make sense. It takes time linear in the file's length (sorting aside), and memory by what
//! is in the file, never by what the file claims.

mod appendix;
mod header;
mod metadata;
mod payload;
mod report;
mod space;
mod sparse;
mod tensors;
#[cfg(test)]
mod tests;

use std::path::Path;

use hk_core::format::HEADER_LEN;
use hk_core::format::seal::Sealer;
use hk_core::{Flags, Header, Section};

use crate::error::Result;
use crate::model::Bytes;
use space::Space;

pub use report::{Finding, Report, Severity};

/// Bytes hashed between two words on progress.
const PROGRESS: usize = 4 << 20;

/// Checks a whole file that is in memory.
///
/// ```
/// use hk_std::verify::{Severity, verify};
/// let report = verify(b"HKNT and no more");
/// assert_eq!(report.faults(), 1);
/// for finding in report.findings() {
///     println!("{finding}"); // fault: header, byte 0: 128 bytes needed, 16 there; ...
///     assert_eq!(finding.severity, Severity::Fault);
/// }
/// ```
pub fn verify(file: &[u8]) -> Report {
    verify_with(file, &mut |_| ())
}

/// Checks the file `path`; calls `progress` with the bytes done so far and in all. Only a
/// sealed file takes long, since all of it is hashed.
///
/// # Errors
/// The file cannot be read. What is wrong in it is no error but in the report.
pub fn verify_file(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Report> {
    let bytes = Bytes::open(path)?;
    let total = bytes.len() as u64;
    Ok(verify_with(&bytes, &mut |done| progress(done, total)))
}

fn verify_with(file: &[u8], progress: &mut dyn FnMut(u64)) -> Report {
    let mut report = Report::default();
    let Some(header) = header::check(file, &mut report) else { return report };
    let mut space = Space::new(file, &header);
    metadata::check(file, &header, &mut report, &mut space);
    tensors::check(file, &header, &mut report, &mut space);
    appendix::check(file, &header, &mut report);
    space.check(&mut report);
    check_seal(file, &header, &mut report, progress);
    report
}

/// Hashes a sealed file and compares the digests.
fn check_seal(file: &[u8], header: &Header, report: &mut Report, progress: &mut dyn FnMut(u64)) {
    if !header.flags.contains(Flags::SEALED) {
        return;
    }
    let mut sealer = Sealer::new(header);
    let mut done = HEADER_LEN as u64;
    for chunk in file.get(HEADER_LEN..).unwrap_or_default().chunks(PROGRESS) {
        sealer.update(chunk);
        done += chunk.len() as u64;
        progress(done);
    }
    let digest = sealer.finish();
    if header.reserved.first_chunk() != Some(&digest) {
        let text = "the seal is broken: the bytes do not have the SHA-256 that is stated";
        report.fault(Section::Header, 0x5A, text);
    } else if digest.first_chunk() != Some(&header.checksum.to_le_bytes()) {
        let text = "the checksum field does not hold the first 8 bytes of the seal's digest";
        report.fault(Section::Header, 0x50, text);
    }
}
