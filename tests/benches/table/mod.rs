//! What the benchmarks of kernels share: Criterion measures and keeps its history, and a
//! table at the end compares with `memset` of as many f32 in the same moments, which says
//! more than seconds do on a machine that has other work.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use hk_core::{Backend, StorageType};
use hk_std::bench::{Op, SMALL, Workspace};

/// Runs `ops` by every backend on every type with Criterion, then by `others` too for a
/// table. Settings keep a whole run to a few minutes.
pub fn run(ops: &[Op], others: &[&'static dyn Backend]) {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .sample_size(20)
        .without_plots()
        .configure_from_args();
    let backends = hk_std::backends();
    for &op in ops {
        for &backend in &backends {
            bench(&mut criterion, op, backend);
        }
    }
    criterion.final_summary();
    // As a test (`--test`) each benchmark ran once, which is all that was asked.
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--bench") && !arguments.iter().any(|a| a == "--list") {
        let filter = arguments.iter().find(|a| !a.starts_with('-'));
        let filter = filter.map_or("", |filter| filter);
        for &op in ops {
            for &backend in backends.iter().chain(others) {
                print(op, backend, filter);
            }
        }
    }
}

/// Name of one benchmark's group, to which the type comes.
fn group(op: Op, backend: &dyn Backend) -> String {
    format!("{op}/{}", backend.name())
}

fn bench(criterion: &mut Criterion, op: Op, backend: &'static dyn Backend) {
    let mut workspace = Workspace::new(1);
    let mut group = criterion.benchmark_group(group(op, backend));
    for storage in op.types() {
        let mut case = workspace.case(op, storage, SMALL).unwrap();
        let weights = SMALL * case.passes() * op.uses();
        group.throughput(Throughput::Elements(weights as u64));
        group.bench_function(BenchmarkId::from_parameter(storage), |bencher| {
            bencher.iter(|| case.run(backend).unwrap());
        });
    }
    group.finish();
}

/// A row for each type of which `filter` leaves the benchmark.
fn print(op: Op, backend: &'static dyn Backend, filter: &str) {
    let group = group(op, backend);
    let is_wanted = |storage: &StorageType| format!("{group}/{storage}").contains(filter);
    let mut types = op.types().filter(is_wanted).peekable();
    if types.peek().is_none() {
        return;
    }
    let unit = if op == Op::Prompt { "Gmul-adds/s" } else { "Gweights/s" };
    println!("\n{group}");
    println!("{:<10} {unit:>12} {:>10} {:>14}", "type", "GB/s read", "ratio, memset");
    let mut workspace = Workspace::new(1);
    for storage in types {
        let mut case = workspace.case(op, storage, SMALL).unwrap();
        let measured = case.measure(backend, Duration::from_millis(250)).unwrap();
        println!(
            "{:<10} {:>12.2} {:>10.2} {:>14.3}",
            storage.to_string(),
            measured.gweights_per_s(),
            measured.gbytes_per_s(),
            measured.memset_ratio(),
        );
    }
}
