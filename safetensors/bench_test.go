package safetensors_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// realisticHeader has n tensors named as a mixture-of-experts model names them,
// in the order of their data.
func realisticHeader(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"__metadata__":{"format":"pt"}`)
	for i := range n {
		fmt.Fprintf(&b, `,"model.language_model.layers.%d.mlp.experts.%d.down_proj.weight_scale":{"dtype":"BF16","shape":[4096,112],"data_offsets":[%d,%d]}`,
			i/1000, i%1000, i*4096*112*2, (i+1)*4096*112*2)
	}
	b.WriteString("}")
	return frame(b.String(), nil)
}

// zeros is a file that begins with head and is zero after it.
type zeros struct{ head []byte }

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	if off < int64(len(z.head)) {
		n = copy(p, z.head[off:])
	}
	clear(p[n:])
	return len(p), nil
}

func frame(header string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

// BenchmarkOpenHeader opens a 13 MB header of 100,000 tensors beside json.Valid
// on the same bytes and prints the ratio of the medians.
func BenchmarkOpenHeader(b *testing.B) {
	file := realisticHeader(100_000)
	b.SetBytes(int64(len(file)))
	var ours, theirs []time.Duration
	for b.Loop() {
		start := time.Now()
		f, err := safetensors.NewFile(zeros{file}, int64(len(file))+100_000*4096*112*2)
		ours = append(ours, time.Since(start))
		if err != nil || f.Len() != 100_000 {
			b.Fatal(err)
		}
		start = time.Now()
		if !json.Valid(file[8:]) {
			b.Fatal("not JSON")
		}
		theirs = append(theirs, time.Since(start))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	b.ReportMetric(float64(ours[len(ours)/2])/float64(theirs[len(theirs)/2]), "x-json.Valid")
	b.ReportMetric(float64(len(file))/1e6, "MB-header")
}
