package scheme

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// sixteen is a tensor I64 [2] with those bytes behind it.
func sixteen(t testing.TB, data [16]byte) st.Tensor {
	file := vectors.Encode([]vectors.Tensor{{Name: "s", DType: "I64", Shape: []int{2}, Data: data[:]}}, nil)
	f, err := st.NewFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := f.Tensor("s")
	return s
}

// hostile makes modules from lines of a name, a dtype and dimensions. No file
// stands behind them, save behind a weight_shape, so that their shapes may be of
// any size.
func hostile(text string, shape st.Tensor) []*Module {
	modules := map[string]*Module{}
	var order []*Module
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		info := st.Info{Name: fields[0]}
		if len(fields) > 1 {
			info.DType = st.DType(fields[1])
		}
		for _, f := range fields[min(2, len(fields)):] {
			dim, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				dim = uint64(len(f))
			}
			info.Shape = append(info.Shape, dim)
		}
		name, part := PartOf(info)
		m := modules[name]
		if m == nil {
			m = &Module{Name: name}
			modules[name] = m
			order = append(order, m)
		}
		file := st.Tensor{Info: info}
		if part == Shape && info.DType == st.I64 {
			file = shape
			file.Info = info
		}
		m.Members = append(m.Members, Member{checkpoint.Tensor{Tensor: file}, part})
	}
	return order
}

// check holds what is detected against what cannot be otherwise.
func check(t testing.TB, modules []*Module) {
	rows := newLayerMap()
	var params uint64
	for _, m := range modules {
		d := m.Detect()
		text := d.String()
		switch {
		case text == "":
			t.Fatalf("%q has no description", m.Name)
		case d.Missing != "" && m.Get(d.Missing) != nil:
			t.Fatalf("%q: %q, and yet it is there", m.Name, text)
		case d.Bits < 0 || d.Bits > 8:
			t.Fatalf("%q: %d bits", m.Name, d.Bits)
		case d.Quantized() != (d.Container != "") || !strings.HasPrefix(text, d.Container):
			t.Fatalf("%q: %q of container %q", m.Name, text, d.Container)
		case d.Quantized() && m.Get(Weight) == nil && m.Get(Packed) == nil && m.Get(Codebook) == nil:
			t.Fatalf("%q: %q without codes", m.Name, text)
		}
		params += m.Params()
		rows.add(m, d, m.Params(), m.Bytes())
	}
	count := 0
	for _, r := range rows.rows() {
		count += r.Count
		params -= r.Params
	}
	if count != len(modules) || params != 0 {
		t.Errorf("rows of %d modules for %d, %d parameters too few", count, len(modules), params)
	}
}

// hostileSeeds are shapes at which arithmetic goes wrong.
var hostileSeeds = []string{
	"m.weight_packed I32 16 16\nm.weight_scale BF16 16 4\nm.weight_shape I64 2\n",
	"m.weight_packed I32 0 9223372036854775808\nm.weight_scale BF16 0 9223372036854775808\nm.weight_shape I64 2\n",
	"m.weight_packed I32\nm.weight_scale BF16\nm.weight_shape I64\n",
	"m.weight_packed U8 0\nm.weight_scale F8_E4M3 0\n",
	"m.weight_packed U8 18446744073709551615\nm.weight_scale U8 0 3\nm.weight_global_scale F32\n",
	"m.weight F8_E4M3 0 0\nm.weight_scale_inv F32 0 0\n",
	"m.weight F8_E4M3 9223372036854775808 9223372036854775808 0\nm.weight_scale_inv F32 1 1\n",
	"m.weight F8_E4M3\nm.weight_scale F32 0 1 0 1\nm.scale F8_E8M0 0\n",
	"m.weight I8 3 0\nm.scale F8_E8M0 0\nm.bias I8 0\n",
	"m.weight U8 1\nm.weight_scale_2 F32\n",
	"m.qweight I32 0 0\nm.scales F16 0 0\nm.qzeros I32 0 0\n",
	"m.qweight I32 9223372036854775808 1\nm.scales F16 1 1\nm.qzeros I32 1 9223372036854775808\n",
	"m.qweight I32 1 0\nm.scales F16 1 0\nqweight I32 8\nscales F16 1\n",
	"m.qweight I32 8 8\nm.scales F16 1 18446744073709551615\n",
	"e.gate_up_proj_blocks U8 0 1 2 3\ne.gate_up_proj_scales U8\ne.gate_up_proj F4 1 2 3\n",
	"a.{}.weight BF16 1\na.{}.0.weight BF16 1\n{}.1.{}.2 BF16 1\n{ BF16\n",
	"a.007.weight BF16 1\na.99999999999999999999.weight BF16 1\na.9223372036854775807.weight BF16\n..weight BF16\n0.1.2.3 F64\n",
	"\n \n. \n.. . .\n",
}

// hostileShapes are contents of a weight_shape.
func hostileShapes() [][16]byte {
	var shapes [][16]byte
	for _, columns := range []uint64{0, 1, 128, math.MaxInt64, 1 << 63, math.MaxUint64} {
		var s [16]byte
		binary.LittleEndian.PutUint64(s[:], columns)
		binary.LittleEndian.PutUint64(s[8:], columns)
		shapes = append(shapes, s)
	}
	return shapes
}

// Names and dtypes that hold what stands between the parts of a key. They come
// from a header, which is UTF-8, but may be any.
func TestHostileNames(t *testing.T) {
	header := `{
		"x.\u0000.weight": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]},
		"x.5.weight":      {"dtype": "BF16", "shape": [1], "data_offsets": [2, 4]},
		"x.{}.weight":     {"dtype": "BF16", "shape": [1], "data_offsets": [4, 6]},
		"y.weight":        {"dtype": ".\u0000\nBF16", "shape": [1], "data_offsets": [6, 8]},
		"y\n.5.weight":    {"dtype": "BF16", "shape": [1], "data_offsets": [8, 10]},
		"\u00ff.6.weight": {"dtype": "\u00fe", "shape": [1], "data_offsets": [10, 12]},
		"z\uffff.7.1.weight": {"dtype": "BF16", "shape": [1], "data_offsets": [12, 14]},
		"w.5.b.weight":     {"dtype": "c\nBF16", "shape": [1], "data_offsets": [14, 16]},
		"w.5.b\nc.weight": {"dtype": "BF16", "shape": [1], "data_offsets": [16, 18]},
		"x.5":             {"dtype": "BF16", "shape": [0], "data_offsets": [18, 18]}
	}`
	s := Look(open(t, fstest.MapFS{"model.safetensors": {Data: vectors.Raw(header, make([]byte, 18))}}))
	var got []string
	for _, l := range s.Layers {
		got = append(got, fmt.Sprintf("%s %s %d", l.Modules, l.Scheme, l.Count))
	}
	want := []string{
		"x BF16 1", "x.\x00 BF16 1", "x.{5} BF16 1", "x.{} BF16 1", "y\n.{5} BF16 1", "y .\x00\nBF16 1", "z\uffff.{7}.{1} BF16 1", "\u00ff.{6} \u00fe 1",
		"w.{5}.b c\nBF16 1", "w.{5}.b\nc BF16 1",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Pairs of codes and scales in every combination of shapes.
func TestHostileShapes(t *testing.T) {
	dims := []string{"", " 0", " 1", " 0 0", " 16 16", " 0 9223372036854775808", " 9223372036854775808 9223372036854775808", " 18446744073709551615 3", " 1 1 1 1"}
	for _, data := range hostileShapes() {
		shape := sixteen(t, data)
		for _, seed := range hostileSeeds {
			check(t, hostile(seed, shape))
		}
		for _, pair := range [][2]string{
			{"weight_packed", "weight_scale"}, {"weight", "weight_scale"}, {"weight", "weight_scale_inv"}, {"weight", "scale"}, {"qweight", "scales"},
		} {
			for _, dtype := range []st.DType{st.U8, st.I8, st.I32, st.F8E4M3, st.F8E5M2, st.F4, st.BF16} {
				for _, a := range dims {
					for _, b := range dims {
						for _, scale := range []string{"F32", "U8", "F8_E4M3", "F8_E8M0"} {
							check(t, hostile("m."+pair[0]+" "+string(dtype)+a+"\nm."+pair[1]+" "+scale+b+"\nm.weight_shape I64 2\nm.qzeros I32"+b+"\n", shape))
						}
					}
				}
			}
		}
	}
}

func FuzzDetect(f *testing.F) {
	for _, seed := range hostileSeeds {
		for _, shape := range hostileShapes() {
			f.Add(seed, shape[:])
		}
	}
	for _, c := range rowCases {
		f.Add(c.name+" "+string(c.dtype)+" 64 64\n", make([]byte, 16))
	}
	f.Fuzz(func(t *testing.T, text string, shape []byte) {
		text = strings.ToValidUTF8(text, "?") // as a header is
		var s [16]byte
		copy(s[:], shape)
		check(t, hostile(text, sixteen(t, s)))
	})
}
