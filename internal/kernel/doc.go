// Package kernel holds the loops that run over every stored element of a
// tensor. They work on the raw little-endian bytes, as a safetensors file has
// them, and never convert a value they only need to look at.
//
// So far there is one task: tell fast whether a block of bytes holds a NaN, an
// Inf or an outlier ([Format.Scan]), and then say which elements those are
// ([Format.Classify]).
//
// Order to read:
//
//   - format.go: what is known about each format, and how a limit becomes a
//     bit pattern.
//   - classify.go: the definition for one element, and the same test for all
//     the elements in a 64-bit word at once.
//   - scan.go: the same question for a whole block, and why most blocks can be
//     answered from the OR of their words.
//   - scan_generic.go: the loops over 64 bytes a turn. They are plain Go and
//     compiled on every platform; a version for one platform would have to
//     agree with them in the same build.
package kernel
