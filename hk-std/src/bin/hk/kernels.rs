//! `hk kernels`.

use std::io::{self, Write};
use std::process::ExitCode;

use hk_std::Result;
use hk_std::hk_core::Backend;
use serde_json::json;

use crate::output;

const HELP: &str = "\
Examples:
  hk kernels
  HK_KERNELS=portable hk kernels

Every backend gives the same bits; they differ in speed alone, which `hk bench` measures.
HK_KERNELS=NAME makes any program built on this library use that one.";

/// Show CPU features and backends
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Give it as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let chosen = hk_std::backend();
    let report = Report::new(chosen.as_ref().ok().map(|backend| backend.name()));
    output::to_stdout(|out| if args.json { report.write_json(out) } else { report.write(out) })?;
    // An HK_KERNELS that names none is an error, but what there is can still be told.
    chosen.map(|_| ExitCode::SUCCESS)
}

struct Report {
    features: Vec<(&'static str, bool)>,
    /// Name, and whether this CPU can run it; the fastest first.
    backends: Vec<(&'static str, bool)>,
    /// `None` where `HK_KERNELS` names none that is there.
    chosen: Option<&'static str>,
    forced: bool,
}

impl Report {
    fn new(chosen: Option<&'static str>) -> Self {
        let forced = std::env::var_os("HK_KERNELS").is_some_and(|name| !name.is_empty());
        let usable = hk_std::backends();
        Report { features: cpu_features(), backends: backends(&usable), chosen, forced }
    }

    fn chosen_by(&self) -> &'static str {
        if self.forced { "HK_KERNELS" } else { "automatic" }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let list = |wanted: bool| {
            let names = self.features.iter().filter(|(_, found)| *found == wanted);
            names.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
        };
        writeln!(out, "CPU        {}", std::env::consts::ARCH)?;
        for (label, names) in [("has", list(true)), ("has not", list(false))] {
            if !names.is_empty() {
                writeln!(out, "  {label:<8} {names}")?;
            }
        }
        writeln!(out, "Backends   the fastest first")?;
        for (name, usable) in &self.backends {
            let remark = match (Some(*name) == self.chosen, self.forced, usable) {
                (true, false, _) => "chosen: the fastest this CPU can run",
                (true, true, _) => "chosen: by HK_KERNELS",
                (false, _, true) => "",
                (false, _, false) => "not on this CPU",
            };
            writeln!(out, "{}", format!("  {name:<16} {remark}").trim_end())?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let features: serde_json::Map<_, _> =
            self.features.iter().map(|&(name, found)| (name.to_owned(), json!(found))).collect();
        let backends: Vec<_> = self
            .backends
            .iter()
            .map(|(name, usable)| json!({"name": name, "usable": usable}))
            .collect();
        let report = json!({
            "arch": std::env::consts::ARCH,
            "features": features,
            "backends": backends,
            "chosen": self.chosen,
            "chosen_by": self.chosen_by(),
        });
        writeln!(out, "{report:#}")
    }
}

/// The backends built in for this kind of CPU, those that it lacks features for included.
fn backends(usable: &[&'static dyn Backend]) -> Vec<(&'static str, bool)> {
    let is_usable = |name: &str| usable.iter().any(|backend| backend.name() == name);
    let mut all: Vec<(&'static str, bool)> =
        built_in().iter().map(|&name| (name, is_usable(name))).collect();
    for backend in usable {
        if !all.iter().any(|(name, _)| *name == backend.name()) {
            all.push((backend.name(), true));
        }
    }
    all
}

/// Levels of the SIMD crate for this architecture.
fn built_in() -> &'static [&'static str] {
    #[cfg(all(feature = "simd", any(target_arch = "x86_64", target_arch = "x86")))]
    return hk_simd_x86::LEVELS;
    #[cfg(all(feature = "simd", target_arch = "aarch64"))]
    return hk_simd_neon::LEVELS;
    #[allow(unreachable_code)]
    &[]
}

/// The CPU features that kernels use, and whether they are there.
fn cpu_features() -> Vec<(&'static str, bool)> {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    return vec![
        ("sse4.1", is_x86_feature_detected!("sse4.1")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx_vnni", is_x86_feature_detected!("avxvnni")),
        ("gfni", is_x86_feature_detected!("gfni")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vbmi", is_x86_feature_detected!("avx512vbmi")),
        ("avx512vbmi2", is_x86_feature_detected!("avx512vbmi2")),
        ("avx512bitalg", is_x86_feature_detected!("avx512bitalg")),
    ];
    #[cfg(target_arch = "aarch64")]
    return vec![
        ("neon", std::arch::is_aarch64_feature_detected!("neon")),
        ("fp16", std::arch::is_aarch64_feature_detected!("fp16")),
        ("dotprod", std::arch::is_aarch64_feature_detected!("dotprod")),
        ("i8mm", std::arch::is_aarch64_feature_detected!("i8mm")),
        ("bf16", std::arch::is_aarch64_feature_detected!("bf16")),
        ("sve", std::arch::is_aarch64_feature_detected!("sve")),
    ];
    #[allow(unreachable_code)]
    Vec::new()
}
