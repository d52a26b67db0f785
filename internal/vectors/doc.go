// Package vectors builds tiny checkpoints, in memory and on disk, for the tests of this module. It is test support: it panics where a
// library would return an error, and its quantizers are short restatements of the published formulas that share no code with the real ones.
//
// A test starts from a model (T0 dense, T1 with an MTP head, T2 vision-language, T3 and T3u mixture of experts, T4 hybrid), may store it
// in a quantized form (NVFP4, ModelOptNVFP4, FP8Channel, FP8Block, INT8, INT4, AWQ, GPTQ), plants its fault by editing the Model, and
// reads the result through FS or Write:
//
//	m := vectors.NVFP4(vectors.T0(), false)
//	m.Tensor("model.layers.1.self_attn.o_proj.weight_scale").Data[3] = 0x7f
//	err := m.Write(t.TempDir())
//
// Every call builds a new model with the same bytes. Values come from a generator seeded by the tensor's name, so a tensor keeps its
// bytes when others are added, moved or renamed.
package vectors
