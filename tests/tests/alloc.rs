//! The core allocates nothing: parsing, walking, decoding, multiplying and refusing are
//! counted by the allocator itself, a thread at a time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;

use hk_core::format::seal;
use hk_core::{
    Activation, Array, Backend, Header, Hk, Portable, Residual, StorageType, Tensor, Value, decode,
};
use hk_tests::build::one_of_everything;
use hk_tests::{data, mutate, reference_names};

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends allocates after its counter is gone; nobody counts then.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: `block` came from the system's allocator; the contract is the same.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from the system's allocator with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`, and counts what this thread allocates in it.
fn allocations<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = CALLS.get();
    let result = work();
    (result, CALLS.get() - before)
}

#[track_caller]
fn allocates_nothing<T>(work: impl FnOnce() -> T) -> T {
    let (result, calls) = allocations(work);
    assert_eq!(calls, 0, "allocations");
    result
}

/// A place for the text of an error, so that formatting it is counted too.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes[self.len..].get_mut(..text.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// Reads all that a file offers but its weights; gives something that depends on all of it.
fn walk(hk: &Hk<'_>) -> usize {
    let mut sum = hk.header().to_bytes().len();
    for entry in hk.metadata().iter() {
        sum += entry.key.len();
        sum += match entry.value {
            Value::String(text) | Value::Json(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            other => usize::from(other.tag().0),
        };
        sum += match entry.value.array() {
            Ok(Array::Strings(strings)) => strings.iter().map(<[u8]>::len).sum(),
            Ok(Array::F32(numbers)) => numbers.iter().filter(|n| n.is_nan()).count(),
            Ok(Array::I32(numbers)) => numbers.iter().filter(|&n| n < 0).count(),
            _ => 1,
        };
    }
    for tensor in hk.tensors() {
        let resolved = tensor.resolve().map_or(0, |resolved| resolved.data().len());
        let found = hk.tensor(tensor.name).is_some();
        sum += resolved + usize::from(found) + tensor.scales().len() + tensor.residual().len();
    }
    let mut appendix = hk.appendix();
    for record in appendix.by_ref().flatten() {
        sum += record.data.len() + usize::from(record.check_crc().is_ok());
    }
    sum += appendix.leftover().len();
    sum + usize::from(seal::verify(hk.bytes(), hk.header()) == seal::Seal::Intact)
}

#[test]
fn the_counter_counts() {
    let (_, calls) = allocations(|| std::hint::black_box(vec![1, 2, 3]));
    assert_eq!(calls, 1);
}

#[test]
fn parsing_and_walking() {
    for name in reference_names() {
        let file = data(&format!("reference/{name}"));
        let hk = allocates_nothing(|| Hk::parse(&file)).expect("a sound file");
        assert!(allocates_nothing(|| walk(&hk)) > 128);
    }
    let built = one_of_everything();
    let hk = allocates_nothing(|| Hk::parse(&built.bytes)).expect("a sound file");
    assert!(allocates_nothing(|| walk(&hk)) > 128);
}

#[test]
fn corrupt_files_and_the_text_of_errors() {
    let built = one_of_everything();
    let mut texts = 0;
    let files = mutate::numbers(&built).chain(mutate::truncations(&built.bytes));
    for file in files.chain(mutate::random(&built.bytes, 4, 1000)) {
        let mut text = Text { bytes: [0; 512], len: 0 };
        allocates_nothing(|| match Hk::parse(&file.bytes) {
            Ok(hk) => walk(&hk),
            Err(error) => write!(text, "{error}").map(|()| text.len).expect("fits"),
        });
        texts += usize::from(text.len > 0);
    }
    assert!(texts > 500);
}

fn decode(tensor: &Tensor<'_>, out: &mut [f32]) -> Result<(), hk_core::Error> {
    for part in [3..11, 0..out.len(), out.len() / 2..out.len()] {
        let range = part.start as u64..part.end as u64;
        let Some(out) = out.get_mut(part) else { continue };
        tensor.dequantize_range(&Portable, range, out, Residual::Add)?;
    }
    tensor.dequantize_into(&Portable, out, Residual::Skip)
}

#[test]
fn decoding() {
    let file = data("reference/all_types.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    let mut decoded = 0;
    for tensor in hk.tensors() {
        let mut out = vec![0.0; tensor.shape.count() as usize];
        decoded += usize::from(allocates_nothing(|| decode(&tensor, &mut out)).is_ok());
    }
    assert!(decoded >= 42, "{decoded}");
}

#[test]
fn reading_in_pieces() {
    let file = data("reference/all_types.hk");
    let (len, mut out) = (file.len() as u64, [0.0; 64]);
    let read = allocates_nothing(|| -> Result<u64, hk_core::Error> {
        let header = Header::parse(&file[..128])?;
        let mut read = 0;
        let mut walk = header.walk_metadata(len)?;
        while let Some(span) = walk.next_span(512) {
            let (key, _) = walk.pair(&file[span.offset as usize..][..span.size as usize])?;
            read += key.len() as u64;
        }
        let mut walk = header.walk_toc(len)?;
        while let Some(span) = walk.next_span(512) {
            let entry = walk.entry(&file[span.offset as usize..][..span.size as usize])?;
            let end = entry.shape.count().min(64);
            let Ok(cover) = entry.locate(0..end) else { continue };
            let bytes = &file[cover.bytes.start as usize..cover.bytes.end as usize];
            let out = &mut out[..end as usize];
            decode::dequantize_slice(&Portable, entry.storage, bytes, cover.skip, out)?;
            read += end;
        }
        Ok(read)
    });
    assert!(read.expect("a sound file") > 42 * 20);
}

#[test]
fn dot_products() {
    let rows = data("reference/all_types.hk");
    let row: Vec<f32> = (0..512u16).map(|i| f32::from(i) - 255.5).collect();
    let mut scratch = vec![0; 1024];
    let mut multiplied = 0;
    for storage in StorageType::all() {
        let products = allocates_nothing(|| {
            let activation = Portable.activation(storage, &row, &mut scratch)?;
            let mut out = [0.0; 4];
            Portable.dot_rows(storage, &rows, activation, &mut out)?;
            Portable.dot_matrix(storage, &rows, &[activation; 2], &mut out)?;
            Ok::<_, hk_core::Error>(out)
        });
        multiplied += usize::from(products.is_ok());
        let needed = Activation::scratch_len(storage, row.len());
        assert!(needed <= scratch.len(), "{storage} needs {needed}");
    }
    // The types of `vecdot.supported`.
    assert_eq!(multiplied, 26);
}
