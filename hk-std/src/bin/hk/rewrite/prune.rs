//! `hk prune`.

use std::process::ExitCode;

use globset::GlobMatcher;
use hk_std::hk_core::encode::two_of_four::{self, Scale};
use hk_std::hk_core::{StorageType, Tensor, encode};
use hk_std::rewrite::Target;
use hk_std::{Error, ModelFile, Result};

use super::{Files, Notes, glob};

const HELP: &str = "\
Examples:
  hk prune model.hk pruned.hk --pattern 2:4
  hk prune model.hk pruned.hk --pattern 2:4 --scale-correction --match 'blk.*.ffn_*'
  hk prune model.hk pruned.hk --pattern 2:4 --dense

Of every four consecutive weights the two with the largest magnitudes stay. Without --match the
matrices of the float types are pruned; with it, the matrices whose names match, of any type
that can be decoded. They are stored as sparse_2_4, with f32 values: 17 bits a weight, more than
f16 takes. With --dense tensors of f32, f16, bf16 and fp8 stay in their own type, with zeros in
them; others are kept as they are.";

/// Set two of every four weights to zero
///
/// Everything that is not pruned is copied byte for byte; the output appears only when it is
/// whole. Pruning costs accuracy where the model is not trained on afterwards.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    files: Files,

    /// What to keep
    #[arg(long, value_name = "PATTERN", value_parser = ["2:4"])]
    pattern: String,

    /// Scale what stays so that each group of four keeps its norm, by 1.4142 at most
    #[arg(long)]
    scale_correction: bool,

    /// Prune these tensors; * stands for anything, {a,b} for one of several
    #[arg(long = "match", value_name = "PATTERN", value_parser = glob)]
    matching: Option<GlobMatcher>,

    /// Store zeros, in each tensor's own type
    #[arg(long)]
    dense: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let model = ModelFile::open(&args.files.input)?;
    super::run(&args.files, &model, "pruning", |tensor, notes| {
        let target = choose(args, tensor, notes);
        if matches!(target, Some(Target::TwoOfFour(_))) {
            let after = two_of_four::packed_len(tensor.shape.count());
            let after = after.map_err(|e| Error::format(model.path(), Some(tensor.name), e))?;
            if after > tensor.data.size {
                let storage = tensor.storage;
                let hint = if encode::is_encodable(storage) && storage.is_dense() {
                    format!(" (--dense keeps {storage})")
                } else {
                    String::new()
                };
                notes.add(
                    tensor.name,
                    format!("larger than as {storage}: packed values are f32{hint}"),
                );
            }
        }
        Ok(target)
    })
}

fn choose(args: &Args, tensor: &Tensor<'_>, notes: &mut Notes) -> Option<Target> {
    let is_float = matches!(
        tensor.storage,
        StorageType::F64
            | StorageType::F32
            | StorageType::F16
            | StorageType::BF16
            | StorageType::FP8_E4M3
            | StorageType::FP8_E5M2
    );
    let is_wanted = match &args.matching {
        Some(pattern) => pattern.is_match(tensor.name) && super::is_real(tensor.storage),
        None => is_float,
    };
    if !is_wanted || tensor.shape.len() != 2 || tensor.shape.count() == 0 {
        return None;
    }
    if tensor.form().is_err() {
        notes.add(tensor.name, format!("kept: {} cannot be decoded", tensor.storage));
        return None;
    }
    let scale = if args.scale_correction { Scale::PreserveNorm } else { Scale::Keep };
    if args.dense {
        // Blocks of other types need not have a code for 0.
        if !is_float || !encode::is_encodable(tensor.storage) {
            let storage = tensor.storage;
            notes.add(tensor.name, format!("kept: zeros in {storage} would not stay zeros"));
            return None;
        }
        return Some(Target::Pruned(tensor.storage, scale));
    }
    if !tensor.shape.count().is_multiple_of(4) {
        notes.add(tensor.name, "kept: not a whole number of groups of four".to_owned());
        return None;
    }
    Some(Target::TwoOfFour(scale))
}
