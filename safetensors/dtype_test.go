package safetensors_test

import (
	"math"
	"slices"
	"testing"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// TestDTypes holds every dtype against the reference crate's enum, in its order.
func TestDTypes(t *testing.T) {
	want := []struct {
		dtype safetensors.DType
		name  string
		bits  int
		float bool
	}{
		{safetensors.BOOL, "BOOL", 8, false},
		{safetensors.F4, "F4", 4, true},
		{safetensors.F6E2M3, "F6_E2M3", 6, true},
		{safetensors.F6E3M2, "F6_E3M2", 6, true},
		{safetensors.U8, "U8", 8, false},
		{safetensors.I8, "I8", 8, false},
		{safetensors.F8E5M2, "F8_E5M2", 8, true},
		{safetensors.F8E4M3, "F8_E4M3", 8, true},
		{safetensors.F8E8M0, "F8_E8M0", 8, true},
		{safetensors.F8E4M3FNUZ, "F8_E4M3FNUZ", 8, true},
		{safetensors.F8E5M2FNUZ, "F8_E5M2FNUZ", 8, true},
		{safetensors.I16, "I16", 16, false},
		{safetensors.U16, "U16", 16, false},
		{safetensors.F16, "F16", 16, true},
		{safetensors.BF16, "BF16", 16, true},
		{safetensors.I32, "I32", 32, false},
		{safetensors.U32, "U32", 32, false},
		{safetensors.F32, "F32", 32, true},
		{safetensors.C64, "C64", 64, true},
		{safetensors.F64, "F64", 64, true},
		{safetensors.I64, "I64", 64, false},
		{safetensors.U64, "U64", 64, false},
	}
	var order []safetensors.DType
	for _, w := range want {
		order = append(order, w.dtype)
		if string(w.dtype) != w.name || w.dtype.Bits() != w.bits || w.dtype.Float() != w.float {
			t.Errorf("%q: Bits %d, Float %v; want %q: %d, %v", w.dtype, w.dtype.Bits(), w.dtype.Float(), w.name, w.bits, w.float)
		}
	}
	if got := safetensors.DTypes(); !slices.Equal(got, order) {
		t.Errorf("DTypes() = %q\nwant %q", got, order)
	}
	safetensors.DTypes()[0] = "changed by a caller"
	if got := safetensors.DTypes()[0]; got != safetensors.BOOL {
		t.Errorf("DTypes() shares its list: %q", got)
	}
}

func TestUnknownDType(t *testing.T) {
	for _, d := range []safetensors.DType{"", "f32", "F32 ", "F8_E4M3FN", "F8_E4M3FNU", "F4_E2M1", "U4", "BOOLEAN", "C128", "Q4_0"} {
		if d.Bits() != 0 || d.Float() {
			t.Errorf("%q: Bits %d, Float %v", d, d.Bits(), d.Float())
		}
	}
}

func TestElements(t *testing.T) {
	for _, test := range []struct {
		shape []uint64
		want  uint64
		ok    bool
	}{
		{nil, 1, true},
		{[]uint64{7}, 7, true},
		{[]uint64{2, 3, 5}, 30, true},
		{[]uint64{1 << 32, 1<<32 - 1}, 1<<64 - 1<<32, true},
		{[]uint64{math.MaxUint64}, math.MaxUint64, true},
		{[]uint64{0, math.MaxUint64, math.MaxUint64}, 0, true},
		{[]uint64{1 << 32, 1 << 32}, 0, false},
		{[]uint64{math.MaxUint64, math.MaxUint64, 0}, 0, false}, // a later zero mends nothing
	} {
		if got, ok := (safetensors.Info{Shape: test.shape}).Elements(); got != test.want || ok != test.ok {
			t.Errorf("%v: %d, %v; want %d, %v", test.shape, got, ok, test.want, test.ok)
		}
	}
}
