//! Whether a tensor's bytes are enough for its type and shape, and make sense.

use hk_core::{ErrorKind, Part, Section, Span, SparsityType, StorageType, TensorEntry, TileLayout};

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

/// How a tensor is laid out, references resolved.
enum Form {
    /// `null_ref`: no bytes.
    Nothing,
    /// Data of this size, whatever is in it.
    Fixed(u128),
    /// Blocks of codes with scales beside them.
    Scaled(Scaled),
    /// Sparse: the size depends on the content.
    Bitmask,
    TwoOfFour,
    Blocks,
    /// Nobody here knows: why.
    Unknown(String),
}

/// The dual-mode types and split-scale forms: blocks of codes, and a scale for each.
struct Scaled {
    /// Weights a block.
    block: u64,
    bits: u64,
    /// Bytes of a scale.
    scale: u64,
    /// Whether a residual counts.
    dual: bool,
}

/// Checks the payload, scales and residual of `entry`, whose ranges lie in the file.
pub(super) fn check(
    file: &[u8],
    entry: &TensorEntry<'_>,
    budget: &mut Budget,
    report: &mut Report,
) {
    let mut payload = Payload { file, entry, report };
    match form(entry) {
        Err(kind) => payload.toc(Severity::Fault, kind.to_string()),
        Ok(Form::Unknown(why)) => payload.toc(Severity::Note, why),
        Ok(Form::Nothing) => payload.size(Part::Data, 0, 0),
        Ok(Form::Fixed(needed)) => {
            payload.size(Part::Data, needed, needed);
            payload.unused(Part::Scales);
            payload.unused(Part::Residual);
        }
        Ok(Form::Scaled(scaled)) => payload.scaled(&scaled),
        Ok(form) => {
            payload.unused(Part::Scales);
            payload.unused(Part::Residual);
            payload.sparse(&form, budget);
        }
    }
}

/// How `entry` is laid out.
///
/// # Errors
/// What makes decoding it an error: sparsity or a tile layout that its type does not take.
fn form(entry: &TensorEntry<'_>) -> Result<Form, ErrorKind> {
    let (storage, sparsity, tile) = (entry.storage, entry.sparsity, entry.tile);
    if storage == StorageType::NULL_REF {
        return Ok(Form::Nothing);
    }
    if storage.name().is_none() {
        return Ok(Form::Unknown(format!("unknown storage type {storage}: sizes not checked")));
    }
    if sparsity.name().is_none() {
        return Ok(Form::Unknown(format!("unknown sparsity type {sparsity}: sizes not checked")));
    }
    if tile.name().is_none() {
        return Ok(Form::Unknown(format!("unknown tile layout {tile}: sizes not checked")));
    }
    if !is_published(storage) {
        return Ok(Form::Unknown(format!("{storage} has no published payload: sizes not checked")));
    }
    let form = match sparse_form(storage, sparsity) {
        Some(form) => form?,
        None => plain_form(entry)?,
    };
    let takes_tile = match (&form, tile) {
        (_, TileLayout::ROW_MAJOR) => true,
        (Form::TwoOfFour, TileLayout::BLOCK_SPARSE_2_4) => true,
        (Form::Fixed(_), TileLayout::BLOCK_SPARSE_2_4) => false,
        (Form::Fixed(_), _) => storage.is_dense() && entry.shape.len() == 2,
        _ => false,
    };
    if takes_tile { Ok(form) } else { Err(ErrorKind::TileLayout(storage, tile)) }
}

fn is_published(storage: StorageType) -> bool {
    !matches!(
        storage,
        StorageType::LORA_REF
            | StorageType::DQ6
            | StorageType::DQ12
            | StorageType::SPARSE_DQ8
            | StorageType::SPARSE_DQ4_2_4
    )
}

/// The sparse form of a type with a sparsity tag, an error where the type does not take the
/// tag, `None` where nothing is sparse.
fn sparse_form(storage: StorageType, sparsity: SparsityType) -> Option<Result<Form, ErrorKind>> {
    let takes_blocks =
        matches!(storage, StorageType::F32 | StorageType::SPARSE_F16 | StorageType::SPARSE_2_4);
    let form = match (storage, sparsity) {
        (_, SparsityType::CSR | SparsityType::BSR) if takes_blocks => Form::Blocks,
        (StorageType::SPARSE_F16, SparsityType::NONE | SparsityType::BITMASK)
        | (StorageType::F32, SparsityType::BITMASK) => Form::Bitmask,
        (StorageType::SPARSE_2_4, SparsityType::NONE | SparsityType::STRUCTURED_2_4)
        | (StorageType::F32, SparsityType::STRUCTURED_2_4) => Form::TwoOfFour,
        (StorageType::SPARSE_F16 | StorageType::SPARSE_2_4, _) => {
            return Some(Err(ErrorKind::Sparsity(storage, sparsity)));
        }
        (_, SparsityType::NONE | SparsityType::PHYSICAL_PRUNED) => return None,
        _ => return Some(Err(ErrorKind::Sparsity(storage, sparsity))),
    };
    Some(Ok(form))
}

/// The form of a type that is not sparse: dense, blocks, dual-mode or split-scale.
fn plain_form(entry: &TensorEntry<'_>) -> Result<Form, ErrorKind> {
    let storage = entry.storage;
    let own = u64::from(entry.block_size);
    let split = |block, scale| Form::Scaled(Scaled { block, bits: 4, scale, dual: false });
    let dual = |bits| Form::Scaled(Scaled { block: own, bits, scale: 4, dual: true });
    Ok(match storage {
        StorageType::DQ4 => dual(4),
        StorageType::DQ8 => dual(8),
        StorageType::DQT => dual(2),
        StorageType::IQ4_NL if entry.scales.size > 0 => split(own, 4),
        StorageType::MXFP4 if entry.scales.size > 0 => split(32, 1),
        StorageType::NVFP4 if entry.scales.size > 0 => split(16, 1),
        _ => {
            let geometry = storage.geometry().ok_or(ErrorKind::Undecodable(storage))?;
            let blocks = padded_count(entry).div_ceil(u128::from(geometry.weights));
            Form::Fixed(blocks.saturating_mul(u128::from(geometry.bytes)))
        }
    })
}

/// Elements that a payload holds: those of the shape, and what pads out the tiles at its
/// edges.
fn padded_count(entry: &TensorEntry<'_>) -> u128 {
    match (entry.tile.tile(), &entry.shape[..]) {
        (Some((tile_rows, tile_columns)), &[rows, columns]) => {
            let pad = |size: u64, tile: u32| u128::from(size).next_multiple_of(u128::from(tile));
            pad(rows, tile_rows).saturating_mul(pad(columns, tile_columns))
        }
        _ => u128::from(entry.shape.count()),
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

    fn span(&self, part: Part) -> Span {
        match part {
            Part::Data => self.entry.data,
            Part::Scales => self.entry.scales,
            Part::Residual => self.entry.residual,
        }
    }

    fn bytes(&self, part: Part) -> &'a [u8] {
        let Span { offset, size } = self.span(part);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.file.get(start..).unwrap_or_default();
        rest.get(..usize::try_from(size).unwrap_or(usize::MAX)).unwrap_or_default()
    }

    /// Compares a part's size with what is needed and with what padding may make of it.
    fn size(&mut self, part: Part, needed: u128, padded: u128) {
        let Span { offset, size } = self.span(part);
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
        let span = self.span(part);
        if span.size > 0 {
            let text = format!("{part} that {} does not use", self.entry.storage);
            self.at(Severity::Note, span.offset, text);
        }
    }

    fn scaled(&mut self, form: &Scaled) {
        let count = u128::from(self.entry.shape.count());
        if form.block == 0 {
            let text = format!("block_size is 0, which {} cannot have", self.entry.storage);
            return self.toc(Severity::Fault, text);
        }
        let block = u128::from(form.block);
        let code_bytes = |weights: u128| (weights * u128::from(form.bits)).div_ceil(8);
        let (whole, last) = (count / block, count % block);
        // The last block needs the bytes of its own codes only, and may be padded out.
        let needed = whole * code_bytes(block) + code_bytes(last);
        let blocks = count.div_ceil(block);
        self.size(Part::Data, needed, blocks * code_bytes(block));
        let scales = blocks * u128::from(form.scale);
        self.size(Part::Scales, scales, scales);
        if !form.dual {
            self.unused(Part::Residual);
        } else if self.entry.residual.size > 0 {
            self.size(Part::Residual, count * 4, count * 4);
        }
    }

    fn sparse(&mut self, form: &Form, budget: &mut Budget) {
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
            _ => sparse::blocks(data, shape),
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
