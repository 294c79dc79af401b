//! Values as people type them.

use hk_core::Value;

/// The value that `text` stands for (payloads.md, "Value inference"): JSON where it begins with
/// `{` or `[` and parses, then `true` and `false`, an integer of 64 bits, a finite float, else
/// the text itself.
///
/// ```
/// use hk_std::edit::infer_value;
/// use hk_std::hk_core::Value;
/// assert_eq!(infer_value("-12"), Value::Int64(-12));
/// assert_eq!(infer_value("1e3"), Value::Float64(1000.0));
/// assert_eq!(infer_value("[1, 2]"), Value::Json("[1, 2]"));
/// assert_eq!(infer_value("[1, 2"), Value::String("[1, 2"));
/// assert_eq!(infer_value("inf"), Value::String("inf"));
/// ```
pub fn infer_value(text: &str) -> Value<'_> {
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if text.starts_with(['{', '[']) && is_json() {
        return Value::Json(text);
    }
    let truth = || text.parse().ok().map(Value::Bool);
    let integer = || text.parse().ok().map(Value::Int64);
    let float = || text.parse().ok().filter(|float: &f64| float.is_finite()).map(Value::Float64);
    truth().or_else(integer).or_else(float).unwrap_or(Value::String(text))
}
