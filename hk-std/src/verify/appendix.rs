//! The appendix, record by record.

use hk_core::format::appendix::{Appendix, Record, RecordHead};
use hk_core::{ErrorKind, Header, RecordFault, Section};

use super::report::{Report, Severity, bytes};

const KNOWN_FLAGS: u8 = RecordHead::ACTIVE | RecordHead::COMPRESSED;

/// Checks the records.
pub(super) fn check(file: &[u8], header: &Header, report: &mut Report) {
    let offset = header.appendix_offset;
    if offset == 0 || offset > file.len() as u64 {
        return;
    }
    let mut records = Appendix::new(file, offset);
    let mut previous: Option<Record<'_>> = None;
    let mut whole = true;
    for record in records.by_ref() {
        match record {
            Ok(record) => {
                check_record(file, &record, previous.as_ref(), report);
                previous = Some(record);
            }
            Err(error) => {
                report.fault(Section::Appendix, error.offset(), error.kind().to_string());
                previous = None;
                whole = false;
            }
        }
    }
    let leftover = records.leftover();
    let at = (file.len() - leftover.len()) as u64;
    if leftover.iter().any(|&byte| byte != 0) {
        let text = format!(
            "{} after the last record are too few for another",
            bytes(leftover.len() as u64)
        );
        report.note(Section::Appendix, at, text);
    }
    if previous.is_none() && whole {
        report.note(Section::Appendix, offset, "an appendix without records");
    }
}

fn check_record(
    file: &[u8],
    record: &Record<'_>,
    previous: Option<&Record<'_>>,
    report: &mut Report,
) {
    let mut add = |severity, text| {
        report.about(severity, Section::Appendix, record.offset, record.name, text);
    };
    if let Err(error) = record.check_crc() {
        add(Severity::Fault, error.kind().to_string());
    }
    if record.kind.name().is_none() {
        add(Severity::Note, format!("unknown record type {:#04x}", record.kind.0));
    }
    if record.flags & !KNOWN_FLAGS != 0 {
        add(Severity::Note, format!("unknown record flags {:#04x}", record.flags & !KNOWN_FLAGS));
    }
    if let Some(previous) = previous {
        if record.parent_hash == [0; 32] {
            add(Severity::Note, "parent_hash is not set".to_owned());
        } else if !record.follows(previous) {
            add(Severity::Fault, ErrorKind::Record(RecordFault::Parent).to_string());
        }
        if record.generation <= previous.generation {
            let (this, last) = (record.generation, previous.generation);
            add(Severity::Note, format!("generation {this} comes after generation {last}"));
        }
    }
    if record.missing_padding > 0 {
        let missing = bytes(u64::from(record.missing_padding));
        add(Severity::Note, format!("the file ends {missing} before the record's padding does"));
    }
    if padding(file, record).iter().any(|&byte| byte != 0) {
        add(Severity::Note, "padding is not zero".to_owned());
    }
}

/// The bytes between a record's end and the next multiple of 8 bytes from its start.
fn padding<'a>(file: &'a [u8], record: &Record<'_>) -> &'a [u8] {
    let len = RecordHead::LEN + record.name.len() + record.target.len() + record.data.len();
    let rest = usize::try_from(record.offset).ok().and_then(|at| file.get(at..)?.get(len..));
    let rest = rest.unwrap_or_default();
    rest.get(..rest.len().min(len.wrapping_neg() % 8)).unwrap_or_default()
}
