use super::*;
use hk_core::{Error, Portable};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what it is asked for.
#[derive(Default)]
struct Counter {
    weights: AtomicUsize,
    products: AtomicUsize,
    quantized: AtomicUsize,
    /// How many bytes after a cache line outputs begin.
    begins: Mutex<Vec<usize>>,
}

impl Backend for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn dequantize(
        &self,
        storage: StorageType,
        payload: &[u8],
        out: &mut [f32],
    ) -> std::result::Result<(), Error> {
        self.weights.fetch_add(out.len(), Ordering::Relaxed);
        lock(&self.begins).push(out.as_ptr().addr() % CACHE_LINE);
        Portable.dequantize(storage, payload, out)
    }

    fn quantize(
        &self,
        storage: StorageType,
        weights: &[f32],
        columns: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> std::result::Result<(), Error> {
        self.quantized.fetch_add(weights.len(), Ordering::Relaxed);
        Portable.quantize(storage, weights, columns, importance, out)
    }

    fn dot_matrix(
        &self,
        storage: StorageType,
        rows: &[u8],
        activations: &[Activation<'_>],
        out: &mut [f32],
    ) -> std::result::Result<(), Error> {
        self.products.fetch_add(out.len(), Ordering::Relaxed);
        Portable.dot_matrix(storage, rows, activations, out)
    }
}

#[test]
fn every_weight_is_asked_for_in_every_pass() {
    for threads in [1, 3] {
        let mut workspace = Workspace::new(threads);
        for (op, storage, weights) in [
            (Op::Dequantize, StorageType::Q4_0, SMALL),
            (Op::Dequantize, StorageType::F64, 3 * SMALL),
            (Op::Dot, StorageType::IQ1_S, SMALL),
            (Op::Prompt, StorageType::F16, SMALL),
            (Op::Quantize, StorageType::Q8_0, 2 * SMALL),
            (Op::Quantize, StorageType::BF16, SMALL),
        ] {
            let counter = Counter::default();
            let mut case = workspace.case(op, storage, weights).unwrap();
            case.fill();
            case.run(&counter).unwrap();
            let asked = weights * case.passes();
            let counts = [counter.weights, counter.products, counter.quantized];
            let counts = counts.map(AtomicUsize::into_inner);
            let expected = match op {
                Op::Dequantize => [asked, 0, 0],
                Op::Dot => [0, asked / ROW, 0],
                Op::Prompt => [0, asked / ROW * PROMPT, 0],
                Op::Quantize => [0, 0, asked],
            };
            assert_eq!(counts, expected, "{op} {storage}");
        }
    }
}

#[test]
fn products_are_those_of_the_weights() {
    let mut workspace = Workspace::new(2);
    let mut case = workspace.case(Op::Dot, StorageType::F32, SMALL).unwrap();
    case.run(&Portable).unwrap();
    let weights = payload(StorageType::F32, SMALL);
    let x = activations(ROW);
    let mut expected = vec![0.0; SMALL / ROW];
    Portable.dot_rows(StorageType::F32, &weights, Activation::F32(&x), &mut expected).unwrap();
    assert!(expected[0] != 0.0 && case.products == expected);
}

#[test]
fn what_is_quantized_comes_back() {
    let mut workspace = Workspace::new(2);
    let mut case = workspace.case(Op::Quantize, StorageType::F32, SMALL).unwrap();
    case.fill();
    case.run(&Portable).unwrap();
    let mut decoded = vec![0.0; SMALL];
    Portable.dequantize(StorageType::F32, case.encoded, &mut decoded).unwrap();
    assert!(decoded[0] != 0.0 && decoded == floats_to_encode(SMALL));
}

#[test]
fn outputs_begin_where_they_are_said_to() {
    let mut workspace = Workspace::new(2);
    for offset in [0, 4] {
        workspace.set_offset(offset);
        let counter = Counter::default();
        let case = workspace.case(Op::Dequantize, StorageType::Q8_0, SMALL);
        case.unwrap().run(&counter).unwrap();
        let begins = counter.begins.into_inner().unwrap();
        assert!(begins.len() > 1 && begins.iter().all(|&at| at == offset * 4), "{begins:?}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let mut workspace = Workspace::new(1);
    for (op, storage, weights) in [
        (Op::Dot, StorageType::Q8_1, SMALL),
        (Op::Quantize, StorageType::INT8, SMALL),
        (Op::Dequantize, StorageType::SHARED_REF, SMALL),
        (Op::Dequantize, StorageType::F32, SMALL + 1),
        (Op::Dequantize, StorageType::F32, 0),
    ] {
        assert!(workspace.case(op, storage, weights).is_err());
    }
}
