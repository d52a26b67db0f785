// Package safetensors reads and writes one safetensors file.
//
// A file is eight bytes (the header's length N, little-endian), N bytes of JSON
// and the tensors' bytes, back to back, to the end of the file. [Open] and
// [NewFile] read and check the header, nothing else; a [Tensor] then hands out
// its bytes on demand. A [File] is safe for concurrent use. To write, a [Layout]
// says where everything goes before there is any data, and a [Writer] fills it in
// any order.
//
// The rules are those of the reference crate (safetensors/src/tensor.rs at
// 24b0b28, package release 0.8.0). Differences, all deliberate:
//
//   - stricter: the same tensor name twice, an entry written as a JSON array, a
//     dtype written as a JSON object and a rank above [MaxRank] are refused;
//   - looser: an unknown dtype string opens. Such a tensor's place is checked
//     (tensors must be contiguous) but its size cannot be, and only numeric use
//     refuses it, so that a file with tomorrow's dtype can be listed, copied and
//     hashed today.
//
// # Two offset bases
//
// The header counts offsets from the start of the data section. Everything this
// package exports counts from the start of the file.
//
// # Logical and stored shape
//
// A shape counts elements. For the sub-byte dtypes (F4, F6_E2M3, F6_E3M2) only
// the total must fill whole bytes: F4 [2,3] is three bytes. Quantized
// checkpoints mostly do not use these dtypes; they store two 4-bit codes in a U8
// and their shape then counts bytes.
package safetensors
