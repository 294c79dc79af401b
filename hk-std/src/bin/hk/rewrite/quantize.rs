//! `hk quantize`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use globset::GlobMatcher;
use hk_std::hk_core::decode::Form;
use hk_std::hk_core::{StorageType, Tensor, encode};
use hk_std::imatrix::Imatrix;
use hk_std::rewrite::{Leftover, Target, fallback};
use hk_std::{Error, ModelFile, Result};

use super::{Files, Notes, glob, is_real};

const HELP: &str = "\
Examples:
  hk quantize model.hk small.hk --type q4_k
  hk quantize model.hk small.hk --match 'token_embd*' --type q8_0 --type q4_k
  hk quantize model.hk mixed.hk --match '*.{attn_k,attn_v}.weight' --type q6_k --type q4_k
  hk quantize model.hk small.hk --type q3_k --imatrix imatrix.gguf
  hk quantize model.hk exact.hk --type dq8 --block-size 64 --residual

Rules: `--match PATTERN --type T` is one, and the first whose pattern matches a tensor's name
counts; `--type T` without a pattern is for what no pattern matches. In a pattern * stands for
anything, dots too, ? for one character, {a,b} for one of several. Tensors that no rule names,
tensors of one dimension (norms, biases), integers and flags are kept as they are, and so are
tensors that are stored as wanted.

Where rows do not divide into a type's blocks (256 weights, of nvfp4 64), the next type of blocks
of 32 is taken that is at least as precise: q2_k, q3_k and iq4_xs become iq4_nl, q4_k q5_0, q5_k
q5_1, q6_k q8_0, tq1_0, tq2_0 and nvfp4 q4_0; where they do not divide by 32 either, f16. Such
tensors are noted.

Types: f32 f16 bf16 fp8_e4m3 fp8_e5m2 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl
iq4_xs mxfp4 nvfp4 tq1_0 tq2_0, and dual-mode dq4 dq8 dqt, which `hk dequantize` reads but
`generate` does not run.

RMS error: of the weights that were encoded, relative to the weights before.";

/// Store a model's matrices in smaller types
///
/// Reads an HK file in any types, and writes another. Everything else is copied byte for byte;
/// the output appears only when it is whole.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    files: Files,

    #[command(flatten)]
    rules: Rules,

    /// Weights a block of dq4, dq8 and dqt, 2 to 65535; 64 where it is not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    block_size: Option<u16>,

    /// Importance matrix of llama.cpp (.dat or .gguf): columns that matter more get smaller errors
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,

    /// Keep what dq4, dq8 and dqt leave over, so that decoding gives the weights back
    #[arg(long)]
    residual: bool,
}

/// `--match` and `--type`, in the order in which they were given.
struct Rules {
    /// Those with a pattern.
    matching: Vec<(GlobMatcher, StorageType)>,
    /// For what no pattern matches.
    default: Option<StorageType>,
}

impl Rules {
    fn of(&self, name: &str) -> Option<StorageType> {
        let rule = self.matching.iter().find(|(pattern, _)| pattern.is_match(name));
        rule.map(|&(_, storage)| storage).or(self.default)
    }

    fn types(&self) -> impl Iterator<Item = StorageType> {
        self.matching.iter().map(|&(_, storage)| storage).chain(self.default)
    }
}

impl clap::Args for Rules {
    fn augment_args(command: Command) -> Command {
        let pattern = Arg::new("match")
            .long("match")
            .value_name("PATTERN")
            .action(ArgAction::Append)
            .value_parser(glob)
            .help("Tensors that the next --type is for");
        let storage = Arg::new("type")
            .long("type")
            .value_name("TYPE")
            .action(ArgAction::Append)
            .required(true)
            .value_parser(parse_type)
            .help("What to store them in; without a --match before it, all others");
        command.arg(pattern).arg(storage)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut rules = Rules { matching: Vec::new(), default: None };
        rules.update_from_arg_matches(matches)?;
        Ok(rules)
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        let wrong =
            |text: &str| Err(clap::Error::raw(ErrorKind::ValueValidation, format!("{text}\n")));
        let indices = |name| matches.indices_of(name).into_iter().flatten();
        let patterns = matches.get_many::<GlobMatcher>("match").into_iter().flatten();
        let mut patterns = indices("match").zip(patterns).peekable();
        let types = matches.get_many::<StorageType>("type").into_iter().flatten();
        for (at, &storage) in indices("type").zip(types) {
            match (patterns.next_if(|&(before, _)| before < at), self.default) {
                (Some((_, pattern)), _) => self.matching.push((pattern.clone(), storage)),
                (None, None) => self.default = Some(storage),
                (None, Some(_)) => {
                    return wrong(
                        "two --type without a --match before them: only one can be for all other tensors",
                    );
                }
            }
            if patterns.peek().is_some_and(|&(before, _)| before < at) {
                return wrong("two --match before one --type: give each its own");
            }
        }
        match patterns.next() {
            Some(_) => wrong("a --match without a --type after it"),
            None => Ok(()),
        }
    }
}

fn parse_type(text: &str) -> std::result::Result<StorageType, String> {
    let storage: StorageType =
        text.parse().map_err(|_| "no such storage type; `hk quantize --help` lists them")?;
    match encode::is_encodable(storage) || is_dual(storage) {
        true => Ok(storage),
        false => Err(format!("{storage} has no encoder; `hk quantize --help` lists what has")),
    }
}

fn is_dual(storage: StorageType) -> bool {
    matches!(storage, StorageType::DQ4 | StorageType::DQ8 | StorageType::DQT)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let dual_only = [("--residual", args.residual), ("--block-size", args.block_size.is_some())];
    if let Some((option, _)) = dual_only.iter().find(|(_, given)| *given)
        && !args.rules.types().any(is_dual)
    {
        let text = format!("{option} is for dq4, dq8 and dqt, and no --type asks for them\n");
        clap::Error::raw(ErrorKind::ArgumentConflict, text).exit();
    }
    let model = ModelFile::open(&args.files.input)?;
    let imatrix = args.imatrix.as_deref().map(Imatrix::read).transpose()?;
    super::run(&args.files, &model, "quantizing", |tensor, notes| {
        choose(args, imatrix.as_ref(), &model, tensor, notes)
    })
}

/// Weights a block of dual-mode types, where nothing else is asked for.
const BLOCK_SIZE: u16 = 64;

/// What becomes of `tensor`.
fn choose(
    args: &Args,
    imatrix: Option<&Imatrix>,
    model: &ModelFile,
    tensor: &Tensor<'_>,
    notes: &mut Notes,
) -> Result<Option<Target>> {
    let Some(wanted) = args.rules.of(tensor.name) else { return Ok(None) };
    if tensor.shape.len() < 2 || tensor.shape.count() == 0 || !is_real(tensor.storage) {
        return Ok(None);
    }
    let Ok(form) = tensor.form() else {
        notes.add(tensor.name, format!("kept: {} cannot be decoded", tensor.storage));
        return Ok(None);
    };
    let residual = if args.residual { Leftover::Keep } else { Leftover::None };
    if let Some(dual) = Target::dual(wanted, args.block_size.unwrap_or(BLOCK_SIZE), residual) {
        let target = dual.map_err(|e| Error::format(model.path(), Some(tensor.name), e))?;
        let is_stored_so = matches!(&target, Target::Dual(dual, _) if form == Form::Scaled(*dual))
            && args.residual == (tensor.residual.size > 0);
        return Ok((!is_stored_so).then_some(target));
    }
    let storage = fallback(wanted, tensor.shape.row_len());
    if storage != wanted {
        let row = tensor.shape.row_len();
        notes.add(
            tensor.name,
            format!("stored as {storage}: rows of {row} do not divide into blocks of {wanted}"),
        );
    }
    if tensor.storage == storage && form == Form::Plain {
        return Ok(None);
    }
    // Numbers that stand alone are rounded to the nearest, whatever they count.
    let Some(imatrix) = imatrix.filter(|_| storage.is_block()) else {
        return Ok(Some(Target::Blocks(storage)));
    };
    match imatrix.columns(tensor.name, tensor.shape.row_len()) {
        Some(Ok(weights)) => Ok(Some(Target::Weighted(storage, weights))),
        Some(Err(found)) => Err(Error::Invalid(format!(
            "{}: tensor {:?} has rows of {}, but {found} weights in the importance matrix: it belongs to another model",
            model.path().display(),
            tensor.name,
            tensor.shape.row_len(),
        ))),
        None => {
            let note = "not in the importance matrix: all columns count the same";
            notes.add(tensor.name, note.into());
            Ok(Some(Target::Blocks(storage)))
        }
    }
}
