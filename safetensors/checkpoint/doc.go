// Package checkpoint reads and changes a model's directory: its weight files, the
// index over them, config.json and what else lies beside them.
//
// [Open] takes a directory, one .safetensors file, one index, a snapshot in
// Hugging Face's cache, or a component of a diffusers pipeline. [OpenFS] takes
// any fs.FS whose files are io.ReaderAt. Opening reads every header and nothing
// else, save the bytes of tensors that stand in two files, so it costs
// milliseconds whatever the model's size.
//
// # What is loaded
//
// With an index, the files that it names; they are what engines load. Without
// one, every .safetensors file, save another variant of the same weights
// (x.fp16.safetensors beside x.safetensors) and Mistral's consolidated* twin.
// Whatever is left out is reported.
//
// # The index is never trusted
//
// Index, headers and files are held against each other, and what does not fit is
// a [Problem] with a code, a severity and a repair. A tensor is where a header
// says it is. Open fails only where there is nothing to read.
//
// # Writing
//
// A [Change] names what is to be different; [Checkpoint.Plan] checks it against a
// [Target] and refuses what must not be done; [WritePlan.Run] carries it out,
// into a new directory whole or not at all, or in place file by file in an order
// that keeps the model loadable. What a Change does not name keeps its bytes.
//
// # When an error can occur
//
//	Open          nothing to open, or MODEL is not one        error
//	Open          files that do not fit together, unreadable  Problems
//	Tensor reads  I/O                                         error
//	Tensor reads  a file that shrank                          error, a *safetensors.Error
//	Plan          what must not be done; nothing is written   a *RefusedError
//	Run           files that changed since; nothing written   a *RefusedError
//	Run           I/O, cancelled                              error, and what was written
package checkpoint
