//! The fixed header: what it says of itself.

use hk_core::{Error, ErrorKind, Flags, Header, Section, Span};

use super::report::Report;

const FLAGS_AT: usize = 8;

/// Checks the header, and gives it where it can be read at all.
pub(super) fn check(file: &[u8], report: &mut Report) -> Option<Header> {
    let header = match Header::parse(file) {
        Ok(header) => header,
        Err(error) => {
            report.fault(Section::Header, error.offset(), error.kind().to_string());
            return past(error, file);
        }
    };
    check_fields(&header, report);
    check_flags(&header, report);
    check_shard(&header, report);
    check_sections(&header, file.len() as u64, report);
    Some(header)
}

/// The header despite an error that leaves the rest of it readable: a clear bit 0.
fn past(error: Error, file: &[u8]) -> Option<Header> {
    if error.kind() != ErrorKind::NotLittleEndian {
        return None;
    }
    let mut bytes: [u8; hk_core::format::HEADER_LEN] = *file.first_chunk()?;
    bytes[FLAGS_AT] |= 1;
    Header::parse(&bytes).ok()
}

fn check_fields(header: &Header, report: &mut Report) {
    if header.version_minor != 0 {
        let text = format!("version 1.{} is newer than this program knows", header.version_minor);
        report.note(Section::Header, 0x06, text);
    }
    let (digest, rest) = header.reserved.split_at(32);
    if !header.flags.contains(Flags::SEALED) {
        if header.checksum != 0 {
            report.note(Section::Header, 0x50, "a checksum is set, but no seal");
        }
        if digest.iter().any(|&byte| byte != 0) {
            report.note(Section::Header, 0x5A, "reserved bytes are not zero");
        }
    }
    if rest.iter().any(|&byte| byte != 0) {
        report.note(Section::Header, 0x7A, "reserved bytes are not zero");
    }
}

fn check_flags(header: &Header, report: &mut Report) {
    let flags = header.flags;
    if flags.unknown() != 0 {
        let text = format!("unknown flags {:#x} are set", flags.unknown());
        report.note(Section::Header, 0x08, text);
    }
    let alignment = header.payload_alignment();
    let implied = Flags::for_alignment(alignment);
    let about_alignment =
        [Flags::TILE_ALIGNED, Flags::FLEXIBLE_ALIGNMENT, Flags::UNIVERSAL_PAGE_ALIGNED];
    for flag in about_alignment {
        let (set, should) = (flags.contains(flag), implied.contains(flag));
        if set != should {
            let (is, name) = (if set { "set" } else { "clear" }, flag.names().next());
            let name = name.unwrap_or_default();
            let text = format!("{name} is {is}, which disagrees with alignment {alignment}");
            report.note(Section::Header, 0x08, text);
        }
    }
    let (set, offset) = (flags.contains(Flags::HAS_APPENDIX), header.appendix_offset);
    if set != (offset != 0) {
        let is = if set { "set" } else { "clear" };
        let text =
            format!("HAS_APPENDIX is {is}, but appendix_offset is {offset}: the offset decides");
        report.note(Section::Header, 0x08, text);
    }
}

fn check_shard(header: &Header, report: &mut Report) {
    let (index, count) = (header.split_index, header.shards());
    if index >= count {
        let text = format!("split_index {index} is past the last of {count}");
        report.note(Section::Header, 0x0E, text);
    }
    let sharded = header.flags.contains(Flags::IS_SHARDED);
    if sharded != (count > 1) {
        let is = if sharded { "set" } else { "clear" };
        let text = format!("IS_SHARDED is {is}, but split_count is {count}");
        report.note(Section::Header, 0x58, text);
    }
}

fn check_sections(header: &Header, file: u64, report: &mut Report) {
    let appendix = Span { offset: header.appendix_offset, size: 0 };
    let sections = [("metadata", header.metadata, 0x20), ("table of contents", header.toc, 0x30)];
    for (name, span, field) in sections {
        if !span.within(file) {
            let Span { offset, size } = span;
            let text = format!(
                "the {name}, {size} bytes at {offset}, passes the end of the file of {file} bytes"
            );
            report.fault(Section::Header, field, text);
        }
    }
    if !appendix.within(file) {
        let offset = header.appendix_offset;
        let text = format!("appendix_offset {offset} is past the end of the file of {file} bytes");
        report.fault(Section::Header, 0x48, text);
    } else if !header.appendix_offset.is_multiple_of(8) {
        let text = format!("appendix_offset {} is no multiple of 8", header.appendix_offset);
        report.note(Section::Header, 0x48, text);
    }
}

/// The bytes of a section, as far as they lie in the file, and where they start.
pub(super) fn section(file: &[u8], span: Span) -> (&[u8], u64) {
    let len = file.len() as u64;
    let start = span.offset.min(len);
    let end = span.end().unwrap_or(len).clamp(start, len);
    // Both fit: they are at most the length of a slice.
    (file.get(start as usize..end as usize).unwrap_or_default(), start)
}
