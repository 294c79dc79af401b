//! The smallest firmware that reads an HK file. CI builds it for Cortex-M and looks for
//! panic machinery in the result: there must be none.
#![no_std]
#![no_main]

use core::panic::PanicInfo;

use hk_core::Hk;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Parses the file at `file`, and decodes the first weights of every tensor to `out`.
/// Gives the number of tensors that decoded, or -1.
///
/// # Safety
/// `file` must point to `file_len` readable bytes, `out` to `out_len` writable floats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _start(
    file: *const u8,
    file_len: usize,
    out: *mut f32,
    out_len: usize,
) -> i32 {
    // SAFETY: the caller promises that `file` points to `file_len` readable bytes.
    let file = unsafe { core::slice::from_raw_parts(file, file_len) };
    // SAFETY: the caller promises that `out` points to `out_len` writable floats.
    let out = unsafe { core::slice::from_raw_parts_mut(out, out_len) };
    let Ok(hk) = Hk::parse(file) else { return -1 };
    let mut decoded = 0;
    for tensor in hk.tensors() {
        decoded += i32::from(decode(&tensor, out));
    }
    for record in hk.appendix() {
        decoded += i32::from(record.is_ok());
    }
    decoded
}

/// Every type through a trait object, dot products, and encoding.
#[cfg(feature = "all")]
fn decode(tensor: &hk_core::Tensor<'_>, out: &mut [f32]) -> bool {
    use hk_core::{Activation, Backend, Portable, Residual, encode};

    let backend: &dyn Backend = &Portable;
    let count = tensor.shape.count().min(out.len() as u64);
    let Some(head) = out.get_mut(..count as usize) else { return false };
    if tensor.dequantize_range(backend, 0..count, head, Residual::Add).is_err() {
        return false;
    }
    let mut scratch = [0; 512];
    let row = head.get(..256).unwrap_or_default();
    let mut encoded = [0; 1024];
    let len = encode::encoded_len(tensor.storage, 1, row.len()).unwrap_or(0);
    let encoded = encoded.get_mut(..len).unwrap_or_default();
    if backend.quantize(tensor.storage, row, row.len(), Some(row), encoded).is_err() {
        return false;
    }
    let Ok(activation) = Activation::quantize(tensor.storage, row, &mut scratch) else {
        return false;
    };
    backend.dot(tensor.storage, tensor.data(), activation).is_ok()
}

/// Three block types by direct calls, which link nothing else.
#[cfg(not(feature = "all"))]
fn decode(tensor: &hk_core::Tensor<'_>, out: &mut [f32]) -> bool {
    use hk_core::blocks::{BlockQ4_0, dequantize_blocks};
    use hk_core::StorageType;

    let count = out.len().min(tensor.shape.count().try_into().unwrap_or(usize::MAX));
    let Some(head) = out.get_mut(..count) else { return false };
    match tensor.storage {
        StorageType::Q4_0 => dequantize_blocks::<BlockQ4_0, _>(tensor.data(), head).is_ok(),
        _ => false,
    }
}
