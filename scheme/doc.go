// Package scheme knows the number formats of quantized checkpoints.
//
// The signature table says, from a tensor's name and dtype alone, what part of a
// quantized module it is and in whose spelling: compressed-tensors, ModelOpt,
// block-FP8 and the MXFP4 of gpt-oss are read; GPTQ and AWQ are named. A module's
// scheme is read from the tensors that are there, never from the configuration,
// which is only compared with them.
package scheme
