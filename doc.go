// Package ckpt is the root of a module for surgery on model checkpoints stored
// as safetensors. The root holds no code; start with the package that fits:
//
//   - safetensors: one file, its header, layout and tensors
//   - safetensors/checkpoint: a model's directory, with its index and config
//   - scheme: number formats, and which one a module is stored in
//   - scheme/scan: NaN and Inf in the bytes where they are fatal
//   - patch: edits
//   - cmd/ckpt: the command
//
// ARCHITECTURE.md has the nouns and the direction in which packages import each
// other; a test beside this file enforces the latter.
package ckpt
