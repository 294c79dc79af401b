//! GGUF to HK (payloads.md, "GGUF").
