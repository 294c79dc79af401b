//! `hk pack`.

use std::process::ExitCode;
use std::str::FromStr;

use globset::GlobMatcher;
use hk_std::hk_core::decode::Form;
use hk_std::hk_core::encode::bsr::BlockShape;
use hk_std::hk_core::{StorageType, Tensor, TileLayout};
use hk_std::rewrite::Target;
use hk_std::{Error, ModelFile, Result};

use super::{Files, Notes, glob};

const HELP: &str = "\
Examples:
  hk pack model.hk packed.hk --match 'blk.*.ffn_up.weight' --as bitmask
  hk pack model.hk packed.hk --match '*.weight' --as bsr:16x16
  hk pack model.hk tiled.hk --match '*' --as tile_32x16
  hk pack packed.hk model.hk --match '*' --as row_major

Layouts:
  bitmask    a mask and the f32 weights that are not zero (f32 and sparse tensors)
  bsr:RxC    blocks of R rows and C columns that are not all zero (f32 and sparse matrices);
             bsr:1x1 is CSR
  tile_16x16, tile_16x8, tile_32x16, tile_32x32, tile_64x64, col_major
             the same elements in another order (dense matrices of any type)
  row_major  back from any of them, and from 2:4, to a plain tensor

No weight changes. Tensors that match and do not take the layout are kept, and noted.";

/// Store tensors in a sparse or tiled layout, or bring them back
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    files: Files,

    /// Tensors to pack; * stands for anything, {a,b} for one of several
    #[arg(long = "match", value_name = "PATTERN", value_parser = glob)]
    matching: GlobMatcher,

    /// Layout to store them in
    #[arg(long = "as", value_name = "LAYOUT", value_parser = Layout::from_str)]
    layout: Layout,
}

/// A layout by its name.
#[derive(Clone, Copy)]
enum Layout {
    Bitmask,
    Blocks(BlockShape),
    Order(TileLayout),
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        if name == "bitmask" {
            return Ok(Layout::Bitmask);
        }
        if let Some(size) = name.strip_prefix("bsr:") {
            let size = size.split_once('x');
            let size = size.and_then(|(rows, columns)| {
                BlockShape::new(rows.parse().ok()?, columns.parse().ok()?).ok()
            });
            return match size {
                Some(shape) => Ok(Layout::Blocks(shape)),
                None => {
                    Err("give rows and columns of a block from 1 to 65535, as bsr:16x16".into())
                }
            };
        }
        let order = name.parse().ok().filter(|&tile: &TileLayout| {
            tile.tile().is_some() || matches!(tile, TileLayout::ROW_MAJOR | TileLayout::COL_MAJOR)
        });
        match order {
            Some(tile) => Ok(Layout::Order(tile)),
            None => Err("no such layout; `hk pack --help` lists them".into()),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let model = ModelFile::open(&args.files.input)?;
    super::run(&args.files, &model, "packing", |tensor, notes| {
        if !args.matching.is_match(tensor.name) {
            return Ok(None);
        }
        choose(args.layout, tensor, notes)
            .map_err(|e| Error::format(model.path(), Some(tensor.name), e))
    })
}

fn choose(
    layout: Layout,
    tensor: &Tensor<'_>,
    notes: &mut Notes,
) -> std::result::Result<Option<Target>, hk_std::hk_core::Error> {
    let mut kept = |why: String| {
        notes.add(tensor.name, format!("kept: {why}"));
        Ok(None)
    };
    let form = match tensor.form() {
        Ok(form) => form,
        Err(error) => return kept(error.to_string()),
    };
    let is_matrix = tensor.shape.len() == 2 && tensor.shape.count() > 0;
    let is_sparse = matches!(form, Form::Bitmask | Form::TwoOfFour | Form::CompressedRows);
    let is_f32 = is_sparse || tensor.storage == StorageType::F32;
    let is_ordered = matches!(form, Form::Columns | Form::Tiles { .. });
    Ok(match layout {
        Layout::Bitmask | Layout::Blocks(_) if !is_f32 => {
            return kept(format!("sparse values are f32, and it is {}", tensor.storage));
        }
        Layout::Bitmask if form == Form::Bitmask || tensor.shape.count() == 0 => None,
        Layout::Bitmask => Some(Target::Bitmask),
        Layout::Blocks(_) if !is_matrix => return kept("blocks are of matrices".into()),
        Layout::Blocks(shape) => Some(Target::Blocked(shape)),
        Layout::Order(TileLayout::ROW_MAJOR) if is_sparse => Some(Target::Blocks(StorageType::F32)),
        Layout::Order(tile) if tile == tensor.tile => None,
        Layout::Order(tile) if tile == TileLayout::ROW_MAJOR && !is_ordered => None,
        Layout::Order(_) if !is_matrix || !tensor.storage.is_dense() || is_sparse => {
            return kept("only dense matrices are stored in another order".into());
        }
        Layout::Order(tile) => Some(Target::Order(tile)),
    })
}
