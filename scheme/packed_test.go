package scheme

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
)

// shapeTensor is a weight_shape with these two numbers.
func shapeTensor(rows, columns int64) vectors.Tensor {
	s := tensor("m.weight_shape", st.I64, 2)
	binary.LittleEndian.PutUint64(s.Data, uint64(rows))
	binary.LittleEndian.PutUint64(s.Data[8:], uint64(columns))
	return s
}

// Each width is read from the words that a row takes. A row of 100 columns fills
// no whole number of words.
func TestPackedWidths(t *testing.T) {
	const rows = 16
	for _, columns := range []int{64, 96, 100, 128, 192, 4096, 14336} {
		for bits := 2; bits <= 8; bits++ {
			dense, old := (columns*bits+31)/32, (columns+32/bits-1)/(32/bits)
			for _, words := range []int{dense, old} {
				want := bits
				if words == old && bits == 7 {
					want = 8 // four 7-bit codes to a word, as of 8-bit ones
				}
				for _, group := range []int{columns, columns / 2} {
					text, wantGroup := "channel", uint64(0)
					if group < columns {
						text, wantGroup = fmt.Sprint("group ", group), uint64(group)
					}
					m := module(t, tensor("m.weight_packed", st.I32, rows, words), tensor("m.weight_scale", st.BF16, rows, columns/group),
						shapeTensor(rows, int64(columns)))
					d := m.Detect()
					if d.Bits != want || d.Group != wantGroup || d.Missing != "" || d.String() != fmt.Sprintf("compressed-tensors pack-quantized int%d %s", want, text) {
						t.Errorf("%d bits, %d columns, %d words: %q, group %d", bits, columns, words, d, d.Group)
					}
					if m.Params() != uint64(rows*columns) {
						t.Errorf("%d bits, %d columns, %d words: %d parameters", bits, columns, words, m.Params())
					}
				}
			}
		}
	}
}

// In a short row several widths take the same words. The common ones win.
func TestPackedShortRows(t *testing.T) {
	for _, c := range []struct{ columns, words, bits int }{{16, 2, 4}, {16, 4, 8}, {32, 4, 4}, {32, 8, 8}, {8, 1, 4}, {4, 1, 4}, {8, 2, 8}} {
		d := module(t, tensor("m.weight_packed", st.I32, 4, c.words), tensor("m.weight_scale", st.BF16, 4, 1), shapeTensor(4, int64(c.columns))).Detect()
		if d.Bits != c.bits {
			t.Errorf("%d columns in %d words: %q", c.columns, c.words, d)
		}
	}
}

func TestPackedSingleRow(t *testing.T) {
	m := module(t, tensor("m.weight_packed", st.I32, 1, 64), tensor("m.weight_scale", st.BF16, 1, 4), shapeTensor(1, 512))
	if d := m.Detect(); d.String() != "compressed-tensors pack-quantized int4 group 128" {
		t.Errorf("%q", d)
	}
}

// A weight_shape that cannot be gives no width, and no wrong number of
// parameters that would pass for a right one.
func TestPackedShapeLies(t *testing.T) {
	packed, scale := tensor("m.weight_packed", st.I32, 16, 16), tensor("m.weight_scale", st.BF16, 16, 4)
	for _, columns := range []int64{0, -1, math.MinInt64, math.MaxInt64, 16*32 + 1, 1 << 32} {
		m := module(t, packed, scale, shapeTensor(16, columns))
		d := m.Detect()
		if d.Bits != 0 || d.Group != 0 || d.Strategy != "" || d.String() != "compressed-tensors pack-quantized" {
			t.Errorf("%d columns: %q", columns, d)
		}
		if m.Params() != 256 {
			t.Errorf("%d columns: %d parameters", columns, m.Params())
		}
	}
	// Columns that fit, but no width has them.
	m := module(t, packed, scale, shapeTensor(16, 60))
	if d := m.Detect(); d.Bits != 0 || m.Params() != 16*60 {
		t.Errorf("60 columns in 16 words: %q, %d parameters", d, m.Params())
	}
	// The rows that weight_shape claims are not used.
	m = module(t, packed, scale, shapeTensor(-5, 128))
	if d := m.Detect(); d.Bits != 4 || m.Params() != 16*128 {
		t.Errorf("-5 rows: %q, %d parameters", d, m.Params())
	}
	unsigned := shapeTensor(16, 128)
	unsigned.DType = "U64"
	for name, s := range map[string]vectors.Tensor{
		"of another width": tensor("m.weight_shape", st.I32, 2),
		"of another dtype": unsigned,
		"of one number":    tensor("m.weight_shape", st.I64, 1),
		"of three numbers": tensor("m.weight_shape", st.I64, 3),
		"of no number":     tensor("m.weight_shape", st.I64, 0),
	} {
		if d := module(t, packed, scale, s).Detect(); d.Bits != 0 || d.String() != "compressed-tensors pack-quantized" {
			t.Errorf("weight_shape %s: %q", name, d)
		}
	}
}
