//! Damaged and hostile files: an error or a sound file, soon, and in little memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;

use hk_std::convert::gguf::{Options, convert};
use hk_tests::gguf::{Built, Gguf, Meta, Number};
use hk_tests::rng::Rng;

use crate::case::Case;

thread_local! {
    /// Bytes that this thread holds, and the most it has held.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, counting what each thread holds.
struct Counting;

fn count(change: isize) {
    // Not there any more while a thread ends.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + change, most.max(now + change)));
    });
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that `run` held at once on this thread, beside what was held before.
fn peak<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let (before, _) = HELD.get();
    HELD.set((before, before));
    let result = run();
    (result, HELD.get().1.abs_diff(before))
}

/// Converts `gguf` over an old file: either fails and leaves the old file, or writes a file
/// that opens, whose tensors stand in `gguf`.
fn try_convert(case: &Case, gguf: &[u8]) -> Result<(), String> {
    std::fs::write(case.path("in.gguf"), gguf).unwrap();
    std::fs::write(case.path("out.hk"), "old").unwrap();
    let options = Options { overwrite: true, alignment: 1, ..Options::default() };
    let (input, output) = (case.path("in.gguf"), case.path("out.hk"));
    let (result, peak) = peak(|| convert(&input, &output, options, |_| ControlFlow::Continue(())));
    assert!(peak < 1 << 20, "{peak} bytes held for a file of {}", gguf.len());
    assert_eq!(case.names(), ["in.gguf", "out.hk"]);
    match result {
        Err(error) => {
            assert_eq!(std::fs::read(&output).unwrap(), b"old");
            Err(error.to_string())
        }
        Ok(_) => {
            let model = hk_std::ModelFile::open(&output).expect("what was written is sound");
            for tensor in model.hk().tensors() {
                let data = tensor.data();
                assert!(data.is_empty() || gguf.windows(data.len()).any(|window| window == data));
            }
            Ok(())
        }
    }
}

/// A small file with all kinds of lengths and counts in it.
fn small() -> Built {
    let nested = Meta::Arr(9, vec![Meta::Arr(0, vec![Meta::U8(1)]), Meta::Arr(9, vec![])]);
    let mut rng = Rng::new(3);
    Gguf { pad_end: false, ..Gguf::default() }
        .pair("general.architecture", Meta::text("llama"))
        .pair("general.alignment", Meta::U32(32))
        .pair("tokens", Meta::Arr(8, vec![Meta::text("a"), Meta::text("bc")]))
        .pair("scores", Meta::Arr(6, vec![Meta::F32(1.0), Meta::F32(2.0)]))
        .pair("ids", Meta::Arr(5, vec![Meta::I32(1), Meta::I32(-2)]))
        .pair("large", Meta::Arr(10, vec![Meta::U64(1 << 40)]))
        .pair("doubles", Meta::Arr(12, vec![Meta::F64(0.5)]))
        .pair("nested", nested)
        .tensor("w", 8, &[32, 2], rng.bytes(68))
        .tensor("v", 0, &[3], rng.bytes(12))
        .tensor("u", 24, &[5], rng.bytes(5))
        .build()
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let case = Case::new(b"");
    let whole = small().bytes;
    try_convert(&case, &whole).unwrap();
    for len in 0..whole.len() {
        let text = try_convert(&case, &whole[..len]).expect_err("a cut file");
        assert!(text.contains("in.gguf"), "{text}");
    }
}

#[test]
fn numbers_that_lie_are_errors_or_harmless() {
    let case = Case::new(b"");
    let built = small();
    let mut refused = 0;
    for &number in &built.numbers {
        let max = if number.width == 4 { u32::MAX.into() } else { u64::MAX };
        let read = |Number { offset, width, .. }: Number| {
            let mut bytes = [0; 8];
            bytes[..width].copy_from_slice(&built.bytes[offset..][..width]);
            u64::from_le_bytes(bytes)
        };
        let value = read(number);
        let mut lies = vec![0, 1, max - 1, max, max / 2, max / 8, value ^ 1, value + 1, value * 2];
        lies.extend([value.wrapping_sub(1), 1 << 20, 1 << 30]);
        for lie in lies {
            let result = try_convert(&case, &built.with(number, lie));
            if ["pair count", "tensor count", "array count"].contains(&number.what) && lie > value {
                result.clone().expect_err(number.what);
            }
            refused += usize::from(result.is_err());
        }
    }
    assert!(refused > 300, "{refused} refused");
}

#[test]
fn random_damage_is_an_error_or_harmless() {
    let case = Case::new(b"");
    let whole = small().bytes;
    let mut rng = Rng::new(11);
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next_u64() as u8;
        }
        let _ = try_convert(&case, &bytes);
    }
}

#[test]
fn memory_does_not_grow_with_the_payload() {
    let case = Case::new(b"");
    // 64 MiB that the file system need not store.
    let head = Gguf::default().tensor("w", 0, &[1 << 20, 16], vec![]).build().bytes;
    let mut file = File::create(case.path("in.gguf")).unwrap();
    file.write_all(&head).unwrap();
    file.set_len(head.len() as u64 + (64 << 20)).unwrap();
    let (input, output) = (case.path("in.gguf"), case.path("out.hk"));
    let (summary, peak) =
        peak(|| convert(&input, &output, Options::default(), |_| ControlFlow::Continue(())));
    assert_eq!(summary.unwrap().file_len, std::fs::metadata(&output).unwrap().len());
    assert!(peak < 2 << 20, "{peak} bytes held");
}

#[test]
fn a_string_as_long_as_a_huge_file_is_not_read() {
    let case = Case::new(b"");
    let built = Gguf::default().pair("k", Meta::text("")).build();
    let number = *built.numbers.iter().find(|number| number.what == "string length").unwrap();
    let mut file = File::create(case.path("in.gguf")).unwrap();
    file.write_all(&built.with(number, 512 << 20)).unwrap();
    file.set_len(1 << 30).unwrap();
    let (input, output) = (case.path("in.gguf"), case.path("out.hk"));
    let (result, peak) =
        peak(|| convert(&input, &output, Options::default(), |_| ControlFlow::Continue(())));
    let text = result.unwrap_err().to_string();
    assert!(text.contains("\"k\"") && text.contains("more than is accepted"), "{text}");
    assert!(peak < 1 << 20, "{peak} bytes held");
}
