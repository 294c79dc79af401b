//! Who claims which bytes: overlaps, and bytes that belong to nothing.

use hk_core::format::HEADER_LEN;
use hk_core::{Header, Part, Section, Span, TensorEntry};

use super::report::{Report, Severity, bytes};

/// The byte ranges that parts of the file claim.
pub(super) struct Space<'a> {
    file: &'a [u8],
    claims: Vec<Claim>,
    complete: bool,
}

/// A range, not empty and within the file.
#[derive(Clone, Copy)]
struct Claim {
    start: u64,
    end: u64,
    owner: Owner,
    /// Whether a reference claims it, which may share another's range.
    shared: bool,
}

#[derive(Clone, Copy)]
enum Owner {
    Header,
    Metadata,
    Toc,
    Appendix,
    /// The tensor whose entry stands at this offset: names are read again when one is
    /// needed, since a file can have millions.
    Tensor(Part, u64),
}

impl<'a> Space<'a> {
    /// The claims of the header, of the two sections and of the appendix.
    pub(super) fn new(file: &'a [u8], header: &Header) -> Self {
        let mut space = Space { file, claims: Vec::new(), complete: true };
        space.claim(Span { offset: 0, size: HEADER_LEN as u64 }, Owner::Header, false);
        space.claim(header.metadata, Owner::Metadata, false);
        space.claim(header.toc, Owner::Toc, false);
        if header.appendix_offset != 0 {
            let offset = header.appendix_offset;
            let size = (file.len() as u64).saturating_sub(offset);
            space.claim(Span { offset, size }, Owner::Appendix, false);
        }
        space
    }

    /// Adds a part of a tensor that lies within the file.
    pub(super) fn claim_part(&mut self, entry: &TensorEntry<'_>, part: Part, span: Span) {
        let owner = Owner::Tensor(part, entry.offset);
        self.claim(span, owner, entry.storage.is_reference());
    }

    /// Some claims are not known, so bytes that nobody claims mean nothing.
    pub(super) fn incomplete(&mut self) {
        self.complete = false;
    }

    fn claim(&mut self, span: Span, owner: Owner, shared: bool) {
        match span.end() {
            Some(end) if span.within(self.file.len() as u64) => {
                if span.size > 0 {
                    self.claims.push(Claim { start: span.offset, end, owner, shared });
                }
            }
            _ => self.complete = false,
        }
    }

    /// Reports overlaps, and what is between the claims. Walks them in order of their
    /// start beside the one that reaches furthest, so that each overlapping claim is
    /// reported once, against one other.
    pub(super) fn check(mut self, report: &mut Report) {
        self.claims.sort_by_key(|claim| (claim.start, claim.end, claim.shared));
        let mut furthest: Option<Claim> = None;
        for claim in &self.claims {
            if let Some(before) = furthest {
                if claim.start < before.end && !claim.shares(&before) {
                    self.report_overlap(claim, &before, report);
                } else if claim.start > before.end {
                    self.report_unclaimed(before.end, claim.start, report);
                }
            }
            if furthest.is_none_or(|before| claim.end > before.end) {
                furthest = Some(*claim);
            }
        }
        let end = furthest.map_or(0, |claim| claim.end);
        self.report_unclaimed(end, self.file.len() as u64, report);
        if !self.complete {
            let text = "bytes that belong to nothing were not looked for: not all that is in the file is known";
            report.note_between(0, text);
        }
    }

    fn report_overlap(&self, claim: &Claim, before: &Claim, report: &mut Report) {
        let shared = claim.end.min(before.end) - claim.start;
        let (what, other) = (self.describe(claim), self.describe(before));
        let text = format!("{what} overlaps {other} by {}", bytes(shared));
        match claim.owner {
            Owner::Header => report.fault(Section::Header, claim.start, text),
            Owner::Metadata => report.fault(Section::Metadata, claim.start, text),
            Owner::Toc => report.fault(Section::Toc, claim.start, text),
            Owner::Appendix => report.fault(Section::Appendix, claim.start, text),
            Owner::Tensor(_, entry) => {
                let (section, name) = (Section::Payload, self.name(entry));
                report.about(Severity::Fault, section, claim.start, name, text);
            }
        }
    }

    /// `data (512..752)`, with the tensor's name.
    fn describe(&self, claim: &Claim) -> String {
        let range = format!("({}..{})", claim.start, claim.end);
        match claim.owner {
            Owner::Header => format!("the header {range}"),
            Owner::Metadata => format!("the metadata {range}"),
            Owner::Toc => format!("the table of contents {range}"),
            Owner::Appendix => format!("the appendix {range}"),
            Owner::Tensor(part, entry) => format!("{part} of {:?} {range}", self.name(entry)),
        }
    }

    fn name(&self, entry: u64) -> &'a str {
        let entry = usize::try_from(entry).ok().and_then(|at| self.file.get(at..));
        entry.and_then(|bytes| TensorEntry::read(bytes, 0).ok()).map_or("", |(entry, _)| entry.name)
    }

    fn report_unclaimed(&self, start: u64, end: u64, report: &mut Report) {
        if !self.complete {
            return;
        }
        // Both fit: they are at most the file's length.
        let gap = self.file.get(start as usize..end as usize).unwrap_or_default();
        let Some(first) = gap.iter().position(|&byte| byte != 0) else { return };
        let nonzero = gap.iter().filter(|&&byte| byte != 0).count() as u64;
        let text = format!("{} of {start}..{end}, not zero, belong to nothing", bytes(nonzero));
        report.note_between(start + first as u64, text);
    }
}

impl Claim {
    /// Whether the two are one range that a reference shares with its target.
    fn shares(&self, other: &Claim) -> bool {
        (self.start, self.end) == (other.start, other.end) && (self.shared || other.shared)
    }
}
