package kernel

import (
	"math"
	"testing"
)

// FuzzScan compares Scan and Classify with the arithmetic of each format, for
// any bytes, any limit and any alignment.
func FuzzScan(f *testing.F) {
	kinds := len(subjects())
	for i := range kinds {
		k := uint8(i)
		f.Add(k, 0.0, uint8(0), []byte{})
		f.Add(k, 1.5, uint8(1), []byte{0x00, 0x7F, 0x80, 0xFF, 0x7E, 0xFE, 0x7C, 0xFC})
		f.Add(k, 65504.0, uint8(3), []byte{0x00, 0x00, 0x80, 0x7F, 0, 0, 0, 0, 0xFF, 0xFF, 0x7F, 0x7F})
		f.Add(k, math.Inf(1), uint8(7), make([]byte, stride+9))
		f.Add(k, -1.0, uint8(2), append(make([]byte, blockSize), 0x01, 0x80, 0x7F, 0xC0, 0xF8, 0x7F))
	}
	f.Fuzz(func(t *testing.T, kind uint8, limit float64, offset uint8, p []byte) {
		s := subjects()[int(kind)%kinds]
		switch s.name {
		case "F16":
			s.format, s.limit = F16(limit), limit
		case "BF16":
			s.format, s.limit = BF16(limit), limit
		case "F32":
			s.format, s.limit = F32(limit), limit
		case "F64":
			s.format, s.limit = F64(limit), limit
		}
		s.check(t, p[min(len(p), int(offset%8)):])
	})
}
