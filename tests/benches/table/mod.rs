//! What benchmarks with a table of ratios at the end share.

use std::time::Duration;

use criterion::Criterion;

/// Runs `bench` with settings that keep a whole run to a minute or two, then `print` with
/// the filter of the command line.
pub fn run(bench: impl FnOnce(&mut Criterion), print: impl FnOnce(&str)) {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .sample_size(20)
        .without_plots()
        .configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
    // As a test (`--test`) each benchmark ran once, which is all that was asked.
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--bench") && !arguments.iter().any(|a| a == "--list") {
        let filter = arguments.iter().find(|a| !a.starts_with('-'));
        print(filter.map_or("", |f| f));
    }
}
