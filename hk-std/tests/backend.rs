//! The choice of kernels, which a process makes once: each case runs this test program
//! again with another environment.

use std::process::Command;

use hk_std::{backend, backends, kernels};

/// Not a test by itself: prints what the process chooses, for the tests below.
#[test]
fn chosen() {
    // The choice does not change, whoever asks and how often.
    let names: Vec<_> = std::thread::scope(|scope| {
        let ask = || backend().map(|b| b.name()).map_err(|e| e.to_string());
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(names.windows(2).all(|pair| pair[0] == pair[1]));
    println!("<{:?}>", names[0]);
}

fn choose(kernels: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "chosen", "--nocapture"]).env_remove("HK_KERNELS");
    if let Some(kernels) = kernels {
        command.env("HK_KERNELS", kernels);
    }
    let output = command.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let (start, end) = (text.find('<').unwrap(), text.rfind('>').unwrap());
    text[start + 1..end].to_owned()
}

#[test]
fn the_fastest_is_chosen_unless_the_environment_names_another() {
    let fastest = format!("Ok({:?})", backends()[0].name());
    assert_eq!(choose(None), fastest);
    assert_eq!(choose(Some("")), fastest);
    for backend in backends() {
        assert_eq!(choose(Some(backend.name())), format!("Ok({:?})", backend.name()));
    }
    let text = choose(Some("abacus"));
    for word in ["Err", "HK_KERNELS", "abacus", "portable"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn portable_is_always_there_and_last() {
    assert_eq!(backends().last().unwrap().name(), "portable");
    assert_eq!(kernels("portable").unwrap().name(), "portable");
    let text = kernels("avx1024").map(|b| b.name()).unwrap_err().to_string();
    assert!(text.contains("avx1024") && text.contains("portable"), "{text}");
    let mut names: Vec<_> = backends().iter().map(|b| b.name()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
}
