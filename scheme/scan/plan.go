package scan

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/ckpt-surgery/ckpt/internal/kernel"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
	"github.com/ckpt-surgery/ckpt/scheme"
)

// plan chooses the tensors to scan, in the order of shards and data, and adds
// them up.
func plan(c *checkpoint.Checkpoint, all bool) ([]*target, *Result) {
	var targets []*target
	r := &Result{}
	unknown := map[st.DType]int{}
	weights, weightBytes := 0, int64(0)
	// Shard by shard, so that of a tensor that stands twice both are scanned:
	// which one counts depends on the engine.
	for _, shard := range c.Shards() {
		for t := range shard.Tensors() {
			_, part := scheme.PartOf(t.Info)
			small := part.IsScale() || len(t.Shape) <= 1
			format, scan := formatOf(t.DType, part, all)
			switch {
			case t.DType.Bits() == 0:
				unknown[t.DType]++
			case !scan:
			case !small && !all:
				weights++
				weightBytes += t.Bytes
			default:
				targets = append(targets, &target{Tensor: checkpoint.Tensor{Tensor: t, Shard: shard},
					part: part, format: format, size: elementSize(t.DType)})
				r.Tensors++
				r.Bytes += t.Bytes
			}
		}
	}
	if weights > 0 {
		r.NotChecked = append(r.NotChecked, fmt.Sprintf("%d float tensors of rank 2 and more (%d bytes); --all scans them", weights, weightBytes))
	}
	for _, d := range slices.Sorted(maps.Keys(unknown)) {
		r.NotChecked = append(r.NotChecked, fmt.Sprintf("%d tensor(s) of the unknown dtype %q", unknown[d], string(d)))
	}
	loaded := map[string]bool{}
	for _, shard := range c.Shards() {
		loaded[shard.Name] = true
	}
	for _, p := range c.Problems() {
		if path.Ext(p.File) == ".safetensors" && !loaded[p.File] {
			r.NotChecked = append(r.NotChecked, fmt.Sprintf("%q: %s", p.File, p.Code))
		}
	}
	return targets, r
}

// formatOf says how a tensor's bits are judged, and whether there is anything to
// judge. Integers are scanned only with all, for weights that are zero.
func formatOf(d st.DType, part scheme.Part, all bool) (kernel.Format, bool) {
	limit := float64(OutlierLimit)
	if part.IsScale() {
		limit = 0
	}
	switch d {
	case st.F8E4M3:
		return kernel.E4M3(), true
	case st.F8E5M2:
		return kernel.E5M2(), true
	case st.F8E8M0:
		return kernel.E8M0(), true
	case st.F8E4M3FNUZ, st.F8E5M2FNUZ:
		return kernel.FNUZ(), true
	case st.F16:
		return kernel.F16(limit), true
	case st.BF16:
		return kernel.BF16(limit), true
	case st.F32, st.C64:
		return kernel.F32(limit), true
	case st.F64:
		return kernel.F64(limit), true
	case st.U8:
		if part == scheme.Scale {
			return kernel.E8M0(), true // MX scales are exponents in a U8
		}
		if part == scheme.Packed {
			return kernel.F4(), all
		}
		return kernel.Int(), all && part == scheme.Weight
	case st.I8:
		return kernel.Int(), all && part == scheme.Weight
	case st.F4:
		return kernel.F4(), all
	case st.F6E2M3, st.F6E3M2:
		return kernel.Int(), all
	}
	return kernel.Int(), false
}

// elementSize is the number of bytes that the kernels call an element.
func elementSize(d st.DType) int64 {
	if d == st.C64 {
		return 4 // two F32
	}
	return max(1, int64(d.Bits())/8)
}
