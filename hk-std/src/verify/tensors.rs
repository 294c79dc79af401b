//! The table of contents, entry by entry, and what each says of its tensor.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hk_core::{
    Error, ErrorKind, Flags, Header, Section, Span, SparsityType, StorageType, TensorEntry,
};

use super::header::section;
use super::payload;
use super::report::{Report, Severity, bytes};
use super::space::Space;

/// Checks the table of contents and the tensors' payloads. An entry that is wrong is
/// reported and stepped over where its length can be told.
pub(super) fn check(file: &[u8], header: &Header, report: &mut Report, space: &mut Space<'_>) {
    let (table, base) = section(file, header.toc);
    let mut tensors = Tensors::new(file, header);
    let mut rest = table;
    for index in 0..header.tensor_count {
        let at = base + (table.len() - rest.len()) as u64;
        let read = TensorEntry::read(rest, u32::try_from(index).unwrap_or(u32::MAX));
        let len = match read {
            Ok((mut entry, len)) => {
                entry.offset = at;
                tensors.check(&entry, report, space);
                Some(len)
            }
            Err(error) => {
                space.incomplete();
                tensors.any_unread = true;
                report_broken(&error, at, index, report);
                length_despite(&error, rest)
            }
        };
        let Some(next) = len.and_then(|len| rest.get(len..)) else {
            let text = format!(
                "entries {index} to {} cannot be told apart and were not checked",
                header.tensor_count - 1
            );
            report.note(Section::Toc, at, text);
            return tensors.finish(report);
        };
        rest = next;
    }
    if !rest.is_empty() {
        let at = base + (table.len() - rest.len()) as u64;
        let text = format!("{} left over after the last entry", bytes(rest.len() as u64));
        report.note(Section::Toc, at, text);
    }
    tensors.finish(report);
}

fn report_broken(error: &Error, at: u64, index: u64, report: &mut Report) {
    let text = format!("entry {index}: {}", error.kind());
    report.fault(Section::Toc, at.saturating_add(error.offset()), text);
}

/// The length of an entry that is wrong in a way that leaves its length believable.
fn length_despite(error: &Error, entry: &[u8]) -> Option<usize> {
    const FIXED: usize = 2 + 4 + 6 * 8 + 2 + 4;
    if !matches!(error.kind(), ErrorKind::Text | ErrorKind::ElementCount) {
        return None;
    }
    let (name_len, rest) = entry.split_first_chunk::<2>()?;
    let name_len = usize::from(u16::from_le_bytes(*name_len));
    let ndim = usize::from(*rest.get(name_len + 3)?);
    let is_sane = ndim <= hk_core::format::MAX_DIMENSIONS;
    is_sane.then_some(FIXED + name_len + ndim * 8)
}

/// What the checks of one tensor need to know of the others.
struct Tensors<'a> {
    file: &'a [u8],
    header: &'a Header,
    /// Offset of the first entry of each name.
    names: HashMap<&'a str, u64>,
    /// Offset of the first entry that is no reference, for each payload.
    targets: HashMap<Span, u64>,
    contents: payload::Budget,
    lowest: Option<u64>,
    not_dense: Option<u64>,
    any_2_4: bool,
    any_unread: bool,
}

impl<'a> Tensors<'a> {
    fn new(file: &'a [u8], header: &'a Header) -> Self {
        Tensors {
            file,
            header,
            names: HashMap::new(),
            targets: HashMap::new(),
            contents: payload::Budget::new(file),
            lowest: None,
            not_dense: None,
            any_2_4: false,
            any_unread: false,
        }
    }

    fn check(&mut self, entry: &TensorEntry<'a>, report: &mut Report, space: &mut Space<'_>) {
        self.check_name(entry, report);
        let is_ratio = (0.0..=1.0).contains(&entry.sparsity_ratio);
        if !is_ratio {
            let text = format!("sparsity_ratio {} is no fraction", entry.sparsity_ratio);
            about(report, Severity::Note, entry, text);
        }
        self.check_ranges(entry, report, space);
        if let Some(resolved) = self.resolve(entry, report)
            && resolved.check(self.file.len() as u64).is_ok()
        {
            payload::check(self.file, &resolved, &mut self.contents, report);
        }
        if !entry.storage.is_reference() {
            self.targets.entry(entry.data).or_insert(entry.offset);
        }
        self.tally(entry);
    }

    fn check_name(&mut self, entry: &TensorEntry<'a>, report: &mut Report) {
        match self.names.entry(entry.name) {
            Entry::Vacant(vacant) => {
                vacant.insert(entry.offset);
            }
            Entry::Occupied(first) => {
                let first = first.get();
                let text = format!(
                    "a second tensor of this name; readers take the first, at byte {first}"
                );
                about(report, Severity::Fault, entry, text);
            }
        }
    }

    /// Checks where the parts lie, and claims them.
    fn check_ranges(&self, entry: &TensorEntry<'_>, report: &mut Report, space: &mut Space<'_>) {
        let (file, alignment) = (self.file.len() as u64, self.header.payload_alignment());
        for (part, span) in entry.parts() {
            let Span { offset, size } = span;
            if !span.within(file) {
                space.incomplete();
                let text = format!(
                    "{part}, {} at {offset}, passes the end of the file of {file} bytes",
                    bytes(size)
                );
                about(report, Severity::Fault, entry, text);
                continue;
            }
            space.claim_part(entry, part, span);
            if !offset.is_multiple_of(u64::from(alignment)) {
                let text = format!("{part} does not start on a multiple of {alignment} bytes");
                report.about(Severity::Fault, Section::Payload, offset, entry.name, text);
            }
        }
    }

    /// The tensor as it decodes (payloads.md, "Table of contents"); `None` where there is
    /// nothing to check: the target's findings would come again, or a reference is to
    /// nothing, which is reported.
    fn resolve(&self, entry: &TensorEntry<'a>, report: &mut Report) -> Option<TensorEntry<'a>> {
        if entry.storage != StorageType::SHARED_REF {
            return Some(*entry);
        }
        let target = self.targets.get(&entry.data).and_then(|&at| self.entry_at(at));
        match entry.resolve_to(target.as_ref()) {
            // With its target's shape it would have its target's findings again.
            Ok(_) if target.is_some_and(|target| target.shape == entry.shape) => None,
            Ok(resolved) => Some(resolved),
            Err(error) => {
                about(report, Severity::Fault, entry, error.kind().to_string());
                None
            }
        }
    }

    fn entry_at(&self, at: u64) -> Option<TensorEntry<'a>> {
        let bytes = self.file.get(usize::try_from(at).ok()?..)?;
        TensorEntry::read(bytes, 0).ok().map(|(entry, _)| entry)
    }

    fn tally(&mut self, entry: &TensorEntry<'_>) {
        let offsets = entry.parts().map(|(_, span)| span.offset);
        self.lowest = self.lowest.into_iter().chain(offsets).min();
        if !entry.storage.is_dense() && !entry.storage.is_reference() {
            self.not_dense.get_or_insert(entry.offset);
        }
        self.any_2_4 |= entry.sparsity == SparsityType::STRUCTURED_2_4
            || matches!(entry.storage, StorageType::SPARSE_2_4 | StorageType::SPARSE_DQ4_2_4);
    }

    /// Compares the header with what the table holds.
    fn finish(&self, report: &mut Report) {
        let header = self.header;
        if let Some(at) = self.not_dense
            && header.flags.contains(Flags::RAW_WEIGHT_STORAGE)
        {
            let text = format!(
                "RAW_WEIGHT_STORAGE is set, but the tensor at byte {at} is of no dense type"
            );
            report.note(Section::Header, 0x08, text);
        }
        if self.any_unread {
            return;
        }
        if header.flags.contains(Flags::SPARSITY_2_4) && !self.any_2_4 {
            report.note(Section::Header, 0x08, "SPARSITY_2_4 is set, but no tensor is 2:4 sparse");
        }
        let stated = header.tensor_data_offset;
        if let Some(lowest) = self.lowest
            && lowest != stated
        {
            let text =
                format!("tensor_data_offset is {stated}, but the first payload is at {lowest}");
            report.note(Section::Header, 0x40, text);
        }
    }
}

/// A finding about what a tensor's entry says.
fn about(report: &mut Report, severity: Severity, entry: &TensorEntry<'_>, text: String) {
    report.about(severity, Section::Toc, entry.offset, entry.name, text);
}
