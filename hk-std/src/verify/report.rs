//! What a check found.

use std::fmt;

use hk_core::Section;

/// Findings of each severity that a report keeps word for word; the others it counts.
const KEPT: usize = 10_000;

/// Whether a finding makes a file unsound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; readers cope with it.
    Note,
    /// Wrong.
    Fault,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Whether it makes the file unsound.
    pub severity: Severity,
    /// The part of the file; `None` for bytes that belong to no part.
    pub section: Option<Section>,
    /// Absolute offset in bytes.
    pub offset: u64,
    /// The tensor, metadata key or appendix record, where it is about one.
    pub name: Option<String>,
    /// What was found.
    pub text: String,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Fault => "fault",
        })
    }
}

impl Finding {
    /// The name of the section: `header`, `metadata`, `toc`, `payload`, `appendix`, or
    /// `file` for bytes that belong to none.
    pub fn section_name(&self) -> &'static str {
        match self.section {
            Some(Section::Header) => "header",
            Some(Section::Metadata) => "metadata",
            Some(Section::Toc) => "toc",
            Some(Section::Payload) => "payload",
            Some(Section::Appendix) => "appendix",
            _ => "file",
        }
    }
}

impl fmt::Display for Finding {
    /// One line: severity, section, offset, name, text. Names are quoted and escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, byte {}", self.severity, self.section_name(), self.offset)?;
        let noun = match self.section {
            Some(Section::Metadata) => "key",
            Some(Section::Appendix) => "record",
            _ => "tensor",
        };
        if let Some(name) = &self.name {
            write!(f, ", {noun} {name:?}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// All that was found in a file.
#[derive(Clone, Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
    faults: u64,
    notes: u64,
}

impl Report {
    /// The findings, section by section: the first ten thousand faults and the first ten
    /// thousand notes.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Number of faults, those not kept included.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Number of notes, those not kept included.
    pub fn notes(&self) -> u64 {
        self.notes
    }

    /// Whether there are no faults.
    pub fn is_sound(&self) -> bool {
        self.faults == 0
    }

    /// Number of findings that were counted and not kept.
    pub fn left_out(&self) -> u64 {
        self.faults + self.notes - self.findings.len() as u64
    }

    pub(super) fn fault(&mut self, section: Section, offset: u64, text: impl Into<String>) {
        self.add(Severity::Fault, Some(section), offset, None, text);
    }

    pub(super) fn note(&mut self, section: Section, offset: u64, text: impl Into<String>) {
        self.add(Severity::Note, Some(section), offset, None, text);
    }

    /// Notes something about bytes that belong to no section.
    pub(super) fn note_between(&mut self, offset: u64, text: impl Into<String>) {
        self.add(Severity::Note, None, offset, None, text);
    }

    /// Adds a finding about the tensor, key or record called `name`.
    pub(super) fn about(
        &mut self,
        severity: Severity,
        section: Section,
        offset: u64,
        name: &str,
        text: impl Into<String>,
    ) {
        self.add(severity, Some(section), offset, Some(name), text);
    }

    fn add(
        &mut self,
        severity: Severity,
        section: Option<Section>,
        offset: u64,
        name: Option<&str>,
        text: impl Into<String>,
    ) {
        let count = match severity {
            Severity::Note => &mut self.notes,
            Severity::Fault => &mut self.faults,
        };
        *count += 1;
        if *count <= KEPT as u64 {
            let (name, text) = (name.map(short_name), text.into());
            self.findings.push(Finding { severity, section, offset, name, text });
        }
    }
}

/// A name, cut where it is too long for a line: keys can have 64 KiB.
pub(super) fn short_name(name: &str) -> String {
    const LONGEST: usize = 128;
    match name.char_indices().nth(LONGEST) {
        None => name.to_owned(),
        Some((end, _)) => name.get(..end).unwrap_or_default().to_owned() + "…",
    }
}

/// `1 byte`, `2 bytes`.
pub(super) fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}
