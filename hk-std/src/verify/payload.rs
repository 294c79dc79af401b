//! Whether a tensor's bytes are enough for its type and shape, and make sense.

use hk_core::blocks::ScaledForm;
use hk_core::decode::Form;
use hk_core::{ErrorKind, Part, Section, Span, TensorEntry};

use super::report::{Report, Severity, bytes};
use super::sparse;

/// How many bytes of sparse payloads may be read. Payloads that do not overlap never come
/// near it; a table with a million entries over the same bytes does.
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    pub(super) fn new(file: &[u8]) -> Self {
        Budget { left: (file.len() as u64).saturating_mul(4) }
    }

    fn take(&mut self, len: u64) -> bool {
        let left = self.left.checked_sub(len);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

/// Checks the payload, scales and residual of `entry`, whose ranges lie in the file.
pub(super) fn check(
    file: &[u8],
    entry: &TensorEntry<'_>,
    budget: &mut Budget,
    report: &mut Report,
) {
    let mut payload = Payload { file, entry, report };
    let form = match entry.form() {
        Ok(form) => form,
        Err(error) => return payload.no_form(error.kind()),
    };
    match form {
        Form::Zeros => payload.size(Part::Data, 0, 0),
        Form::Plain | Form::Columns | Form::Tiles { .. } => {
            payload.elements(form);
            payload.unused(Part::Scales);
            payload.unused(Part::Residual);
        }
        Form::Scaled(scaled) => payload.scaled(scaled),
        Form::Bitmask | Form::TwoOfFour | Form::CompressedRows => {
            payload.unused(Part::Scales);
            payload.unused(Part::Residual);
            payload.sparse(form, budget);
        }
    }
}

/// The bytes of one tensor, and where to report what is wrong with them.
struct Payload<'a, 'r> {
    file: &'a [u8],
    entry: &'a TensorEntry<'a>,
    report: &'r mut Report,
}

impl<'a> Payload<'a, '_> {
    /// A finding about what the table of contents says.
    fn toc(&mut self, severity: Severity, text: String) {
        let entry = self.entry;
        self.report.about(severity, Section::Toc, entry.offset, entry.name, text);
    }

    /// A finding about bytes at `offset`.
    fn at(&mut self, severity: Severity, offset: u64, text: impl Into<String>) {
        if offset > self.file.len() as u64 {
            // No bytes are there: what says that they are is the table of contents.
            return self.toc(severity, text.into());
        }
        self.report.about(severity, Section::Payload, offset, self.entry.name, text);
    }

    fn bytes(&self, part: Part) -> &'a [u8] {
        let Span { offset, size } = self.entry.part(part);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.file.get(start..).unwrap_or_default();
        rest.get(..usize::try_from(size).unwrap_or(usize::MAX)).unwrap_or_default()
    }

    /// Compares a part's size with what is needed and with what padding may make of it.
    fn size(&mut self, part: Part, needed: u128, padded: u128) {
        let Span { offset, size } = self.entry.part(part);
        let there = u128::from(size);
        if there < needed {
            let text = format!("{part} of {} where type and shape need {needed}", bytes(size));
            // A part without bytes stands nowhere.
            if size == 0 {
                self.toc(Severity::Fault, text);
            } else {
                self.at(Severity::Fault, offset, text);
            }
        } else if there > padded {
            let text = format!("{part} of {} where type and shape need only {needed}", bytes(size));
            self.at(Severity::Note, offset, text);
        }
    }

    fn unused(&mut self, part: Part) {
        let span = self.entry.part(part);
        if span.size > 0 {
            let text = format!("{part} that {} does not use", self.entry.storage);
            self.at(Severity::Note, span.offset, text);
        }
    }

    /// What makes decoding an error whatever the bytes are. Codes that nobody here knows, and
    /// types that are only stored, are no faults.
    fn no_form(&mut self, kind: ErrorKind) {
        let entry = self.entry;
        let unknown = if entry.storage.name().is_none() {
            format!("unknown storage type {}", entry.storage)
        } else if entry.sparsity.name().is_none() {
            format!("unknown sparsity type {}", entry.sparsity)
        } else if entry.tile.name().is_none() {
            format!("unknown tile layout {}", entry.tile)
        } else if let ErrorKind::Undecodable(storage) = kind {
            format!("{storage} has no published payload")
        } else {
            return self.toc(Severity::Fault, kind.to_string());
        };
        self.toc(Severity::Note, format!("{unknown}: sizes not checked"));
    }

    /// Data of elements or blocks, whatever is in them.
    fn elements(&mut self, form: Form) {
        let entry = self.entry;
        let (Some(elements), Some(geometry)) =
            (form.stored_elements(&entry.shape), entry.storage.geometry())
        else {
            return self.toc(Severity::Fault, ErrorKind::ElementCount.to_string());
        };
        let blocks = u128::from(elements.div_ceil(u64::from(geometry.weights)));
        let needed = blocks * u128::from(geometry.bytes);
        self.size(Part::Data, needed, needed);
    }

    fn scaled(&mut self, form: ScaledForm) {
        let count = self.entry.shape.count();
        let [needed, padded, scales] =
            [form.data_len(count), form.padded_len(count), form.scales_len(count)].map(u128::from);
        // The last block needs the bytes of its own codes only, and may be padded out.
        self.size(Part::Data, needed, padded);
        self.size(Part::Scales, scales, scales);
        if !form.kind().takes_residual() {
            self.unused(Part::Residual);
        } else if self.entry.residual.size > 0 {
            let residual = u128::from(count) * 4;
            self.size(Part::Residual, residual, residual);
        }
    }

    fn sparse(&mut self, form: Form, budget: &mut Budget) {
        let (shape, data) = (&self.entry.shape, self.bytes(Part::Data));
        if shape.count() == 0 && data.is_empty() {
            return;
        }
        if !budget.take(data.len() as u64) {
            let text = "content not checked: too many tensors claim the same bytes";
            return self.at(Severity::Note, self.entry.data.offset, text);
        }
        let mut notes = Vec::new();
        let needed = match form {
            Form::Bitmask => sparse::bitmask(data, shape.count(), &mut notes),
            Form::TwoOfFour => sparse::two_of_four(data, shape.count(), &mut notes),
            _ => sparse::compressed_rows(data, shape),
        };
        let base = self.entry.data.offset;
        match needed {
            Ok(needed) => self.size(Part::Data, needed, needed),
            Err((_, text)) if data.is_empty() => self.toc(Severity::Fault, text),
            Err((at, text)) => self.at(Severity::Fault, base.saturating_add(at), text),
        }
        for (at, text) in notes {
            self.at(Severity::Note, base.saturating_add(at), text);
        }
    }
}
