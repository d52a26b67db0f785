package scan

import (
	"fmt"
	"math"
	"slices"
	"testing"

	st "github.com/ckpt-surgery/ckpt/safetensors"
)

// patterns are what is wrong in each dtype, and its neighbours that are not; all
// in hex as they are stored.
var patterns = []struct {
	name  string // of the tensor
	dtype st.DType
	nan   []string
	inf   []string
	clean []string
}{
	{"m.weight", st.F8E4M3, []string{"7f", "ff"}, nil, []string{"7e", "fe", "00", "80", "78", "01"}},
	{"m.weight_scale", st.F8E4M3, []string{"7f", "ff"}, nil, []string{"7e", "fe", "38"}},
	{"m.weight", st.F8E5M2, []string{"7d", "7e", "7f", "fd", "fe", "ff"}, []string{"7c", "fc"}, []string{"7b", "fb", "00", "80"}},
	{"m.weight_scale", st.F8E8M0, []string{"ff"}, nil, []string{"fe", "00", "7f", "80"}},
	{"m.weight", st.F8E8M0, []string{"ff"}, nil, []string{"fe", "00", "7f", "80"}},
	{"m.scale", st.F8E8M0, []string{"ff"}, nil, []string{"fe", "00", "7f", "80"}},
	{"m.weight_scale", st.U8, []string{"ff"}, nil, []string{"fe", "00", "7f", "80"}},
	{"experts.gate_up_proj_scales", st.U8, []string{"ff"}, nil, []string{"fe", "00", "7f", "80"}},
	{"m.weight", st.F8E4M3FNUZ, []string{"80"}, nil, []string{"7f", "ff", "00", "81"}},
	{"m.weight", st.F8E5M2FNUZ, []string{"80"}, nil, []string{"7f", "ff", "00", "81", "7c"}},
	{"m.weight", st.F16, []string{"007e", "017c", "00fe", "01fc", "ffff", "ff7f"}, []string{"007c", "00fc"}, []string{"e270", "e2f0", "0000", "0080", "003c"}},
	{"m.weight_scale", st.F16, []string{"007e", "017c", "00fe"}, []string{"007c", "00fc"}, []string{"ff7b", "fffb"}},
	{"m.weight", st.BF16, []string{"c07f", "817f", "c0ff", "81ff", "ffff"}, []string{"807f", "80ff"}, []string{"1c46", "1cc6", "0000", "0080", "803f"}},
	{"m.weight_scale", st.BF16, []string{"c07f", "817f", "c0ff"}, []string{"807f", "80ff"}, []string{"7f7f", "7fff"}},
	{"m.weight", st.F32, []string{"0000c07f", "0100807f", "0000c0ff", "010080ff", "ffffffff"}, []string{"0000807f", "000080ff"}, []string{"00401c46", "00401cc6", "00000000", "00000080"}},
	{"m.weight_scale", st.F32, []string{"0000c07f", "0100807f", "010080ff"}, []string{"0000807f", "000080ff"}, []string{"ffff7f7f", "ffff7fff"}},
	{"m.weight", st.F64, []string{"000000000000f87f", "010000000000f07f", "000000000000f8ff", "010000000000f0ff"}, []string{"000000000000f07f", "000000000000f0ff"}, []string{"000000000088c340", "000000000088c3c0", "0000000000000000", "0000000000000080"}},
	{"m.weight_scale", st.F64, []string{"000000000000f87f"}, []string{"000000000000f07f"}, []string{"ffffffffffffef7f"}},
}

// places are elements of tensors of each rank: number is the place in the data.
var places = []struct {
	shape  []int
	index  []uint64
	number int
}{
	{nil, []uint64{}, 0},
	{[]int{1}, []uint64{0}, 0},
	{[]int{5}, []uint64{3}, 3},
	{[]int{3, 4}, []uint64{0, 0}, 0},
	{[]int{3, 4}, []uint64{2, 1}, 9},
	{[]int{3, 4}, []uint64{2, 3}, 11},
	{[]int{2, 3, 4}, []uint64{0, 2, 3}, 11},
	{[]int{2, 3, 4}, []uint64{1, 0, 2}, 14},
	{[]int{2, 3, 4}, []uint64{1, 2, 3}, 23},
	{[]int{70, 1, 300}, []uint64{69, 0, 7}, 69*300 + 7},
}

// Each pattern is found in each place, alone, and nothing else is.
func TestPatterns(t *testing.T) {
	for _, p := range patterns {
		for i, bad := range slices.Concat(p.nan, p.inf) {
			for _, place := range places {
				label := fmt.Sprintf("%s %s %s at %d of %v", p.name, p.dtype, bad, place.number, place.shape)
				tensor := filled(p.name, p.dtype, place.shape, p.clean...)
				value := unhex(bad)
				copy(tensor.Data[place.number*len(value):], value)
				// Neighbours on both sides that are not to be touched.
				files := oneFile(filled("a.norm", st.F16, []int{3}, "003c"), tensor, filled("z.norm", st.U8, []int{1}, "ff"))
				r := scanFS(t, files, Options{All: true})
				if len(r.Findings) != 1 {
					t.Errorf("%s: %+v", label, r.Findings)
					continue
				}
				f, nan := r.Findings[0], int64(1)
				if i >= len(p.nan) {
					nan = 0
				}
				if f.Tensor != p.name || f.DType != string(p.dtype) || f.NaN != nan || f.Inf != 1-nan || f.Outliers != 0 || f.Zero || f.File != "model.safetensors" {
					t.Errorf("%s: %+v", label, f)
				}
				if len(f.First) != 1 || f.First[0].Value != bad || !slices.Equal(f.First[0].Index, place.index) || f.First[0].Index == nil {
					t.Errorf("%s: %+v", label, f.First)
				}
				checkPositions(t, open(t, files), files, f)
			}
		}
		for _, place := range places {
			r := scanFS(t, oneFile(filled(p.name, p.dtype, place.shape, p.clean...)), Options{All: true})
			for _, f := range r.Findings {
				if !f.Zero { // a tensor of one element may be a zero
					t.Errorf("%s %s %v without a fault: %+v", p.name, p.dtype, place.shape, f)
				}
			}
		}
	}
}

// The halves of a complex number are two values of one index.
func TestComplex(t *testing.T) {
	tensor := filled("m.weight", st.C64, []int{3, 4}, "0000803f0000003f")
	copy(tensor.Data[8*5:], unhex("0000c07f0000003f"))  // the real half of (1, 1)
	copy(tensor.Data[8*6:], unhex("0000803f000080ff"))  // the imaginary half of (1, 2)
	copy(tensor.Data[8*11:], unhex("010080ff0000807f")) // both of (2, 3)
	files := oneFile(tensor)
	r := scanFS(t, files, Options{All: true})
	if len(r.Findings) != 1 {
		t.Fatalf("%+v", r.Findings)
	}
	f := r.Findings[0]
	var got []string
	for _, p := range f.First {
		got = append(got, at(p))
	}
	want := []string{"[1 1] 0000c07f", "[1 2] 000080ff", "[2 3] 010080ff", "[2 3] 0000807f"}
	if f.NaN != 2 || f.Inf != 2 || !slices.Equal(got, want) {
		t.Errorf("%d NaN, %d Inf at %q, want %q", f.NaN, f.Inf, got, want)
	}
	if d := f.First[3].Offset - f.First[0].Offset; d != 8*6+4 {
		t.Errorf("the last is %d bytes behind the first", d)
	}
	checkPositions(t, open(t, files), files, f)
}

// No bits of these are wrong, whatever they are called.
func TestNothingToFind(t *testing.T) {
	for _, dtype := range []st.DType{st.BOOL, st.F4, st.F6E2M3, st.F6E3M2, st.U8, st.I8, st.I16, st.U16, st.I32, st.U32, st.I64, st.U64, "F128"} {
		for _, name := range []string{"m.weight", "m.weight_packed", "m.bias", "m.weight_zero_point", "m.weight_shape", "m"} {
			tensor := filled(name, dtype, []int{16, 16}, "ff")
			if bits := dtype.Bits(); bits > 0 {
				tensor.Data = slices.Repeat([]byte{0xff}, 16*16*bits/8)
			}
			if r := scanFS(t, oneFile(tensor), Options{All: true}); len(r.Findings) > 0 {
				t.Errorf("%s %s: %+v", dtype, name, r.Findings)
			}
		}
	}
}

// Every pattern of the 8-bit floats, and the number of bad ones of the 16-bit
// ones, against their definitions.
func TestAllPatterns(t *testing.T) {
	var bytes, words []string
	for i := range 256 {
		bytes = append(bytes, fmt.Sprintf("%02x", i))
	}
	for i := range 1 << 16 {
		words = append(words, fmt.Sprintf("%02x%02x", i&255, i>>8))
	}
	for dtype, bad := range map[st.DType]func(i int) bool{
		st.F8E4M3:     func(i int) bool { return i&0x7f == 0x7f },
		st.F8E5M2:     func(i int) bool { return i&0x7c == 0x7c },
		st.F8E8M0:     func(i int) bool { return i == 0xff },
		st.F8E4M3FNUZ: func(i int) bool { return i == 0x80 },
		st.F8E5M2FNUZ: func(i int) bool { return i == 0x80 },
	} {
		r := scanFS(t, oneFile(filled("m.weight", dtype, []int{16, 16}, bytes...)), Options{All: true})
		var want, got []string
		for i := range 256 {
			if bad(i) {
				want = append(want, fmt.Sprintf("[%d %d] %02x", i/16, i%16, i))
			}
		}
		for _, p := range r.Findings[0].First {
			got = append(got, at(p))
		}
		if len(r.Findings) != 1 || !slices.Equal(got, want) || r.Findings[0].NaN+r.Findings[0].Inf != int64(len(want)) {
			t.Errorf("%s: %+v, want %q", dtype, r.Findings, want)
		}
	}
	outliers := 0
	for i := range 1 << 16 {
		if v := math.Abs(float64(math.Float32frombits(uint32(i) << 16))); v > 1e4 && !math.IsInf(v, 0) {
			outliers++
		}
	}
	for _, c := range []struct {
		name               string
		dtype              st.DType
		nan, inf, outliers int64
	}{
		{"m.weight", st.F16, 2 * 1023, 2, 2 * (0x7bff - 0x70e2)}, // 1e4 is 0x70e2
		{"m.weight_scale", st.F16, 2 * 1023, 2, 0},
		{"m.weight", st.BF16, 2 * 127, 2, int64(outliers)},
		{"m.weight_scale", st.BF16, 2 * 127, 2, 0},
	} {
		r := scanFS(t, oneFile(filled(c.name, c.dtype, []int{256, 256}, words...)), Options{All: true})
		if f := r.Findings[0]; len(r.Findings) != 1 || f.NaN != c.nan || f.Inf != c.inf || f.Outliers != c.outliers {
			t.Errorf("%s %s: %d NaN, %d Inf, %d outliers", c.name, c.dtype, f.NaN, f.Inf, f.Outliers)
		}
	}
}

// Of more than eight the first eight are listed, in order.
func TestFirstPositions(t *testing.T) {
	tensor := filled("m.weight_scale", st.F8E4M3, []int{64, 32}, "38", "40")
	var want []string
	for i := range 40 {
		n := 1999 - 37*i // from the last to the first
		tensor.Data[n] = 0x7f
		if i%3 == 0 {
			tensor.Data[n] = 0xff
		}
		want = append(want, fmt.Sprintf("[%d %d] %02x", n/32, n%32, tensor.Data[n]))
	}
	slices.Reverse(want)
	files := oneFile(tensor)
	f := scanFS(t, files, Options{}).Findings[0]
	var got []string
	for _, p := range f.First {
		got = append(got, at(p))
	}
	if f.NaN != 40 || !slices.Equal(got, want[:8]) {
		t.Errorf("%d NaN at %q, want %q", f.NaN, got, want[:8])
	}
	checkPositions(t, open(t, files), files, f)
}
