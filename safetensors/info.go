package safetensors

import "math/bits"

// Info describes a tensor: its name, dtype and logical shape.
type Info struct {
	Name  string
	DType DType
	Shape []uint64 // outermost first; empty for a scalar
}

// Elements returns the number of elements, and false if it overflows 64 bits.
// The product is taken from the left, as the reference takes it: a zero after
// an overflow does not mend it.
func (i Info) Elements() (uint64, bool) {
	n := uint64(1)
	for _, d := range i.Shape {
		hi, lo := bits.Mul64(n, d)
		if hi != 0 {
			return 0, false
		}
		n = lo
	}
	return n, true
}

// sizeOf is the state of a size computed from dtype and shape.
type sizeOf uint8

const (
	sizeOK       sizeOf = iota
	sizeUnknown         // unknown dtype: any size goes
	sizeOverflow        // elements or bits overflow 64 bits
	sizeBits            // not a whole number of bytes
	sizeWrong           // not what the offsets hold
)

// bytes turns a number of elements into bytes.
func (d DType) bytes(elements uint64) (uint64, sizeOf) {
	width := d.Bits()
	if width == 0 {
		return 0, sizeUnknown
	}
	hi, lo := bits.Mul64(elements, uint64(width))
	switch {
	case hi != 0:
		return 0, sizeOverflow
	case lo%8 != 0:
		return 0, sizeBits
	}
	return lo / 8, sizeOK
}
