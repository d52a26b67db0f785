package kernel

import "encoding/binary"

// The loops here read p in 64-bit words, which hold 8, 4, 2 or 1 elements: one
// in each lane. len(p) is a multiple of stride; what is left over is not read.
//
// Their shape is for the compiler: a slice of constant length turned into an
// array leaves no bounds check inside the loop, masks that are parameters stay
// in registers where 64-bit constants would be loaded anew for each word, and
// several accumulators keep one OR from waiting for the last.

// union returns the OR of all words of p.
func union(p []byte) uint64 {
	var a0, a1, a2, a3 uint64
	for i := 0; i <= len(p)-stride; i += stride {
		w := (*[stride]byte)(p[i : i+stride])
		a0 |= binary.LittleEndian.Uint64(w[0:])
		a1 |= binary.LittleEndian.Uint64(w[8:])
		a2 |= binary.LittleEndian.Uint64(w[16:])
		a3 |= binary.LittleEndian.Uint64(w[24:])
		a0 |= binary.LittleEndian.Uint64(w[32:])
		a1 |= binary.LittleEndian.Uint64(w[40:])
		a2 |= binary.LittleEndian.Uint64(w[48:])
		a3 |= binary.LittleEndian.Uint64(w[56:])
	}
	return a0 | a1 | a2 | a3
}

// anyOrdered tells whether p has a lane x with
//
//	x&mask + add
//
// in the bit that mask leaves out, the top one. Both terms are below that bit
// or at most at it, so no sum reaches the next lane.
func anyOrdered(p []byte, mask, add uint64) bool {
	var a0, a1, a2, a3 uint64
	for i := 0; i <= len(p)-stride; i += stride {
		w := (*[stride]byte)(p[i : i+stride])
		a0 |= binary.LittleEndian.Uint64(w[0:])&mask + add
		a1 |= binary.LittleEndian.Uint64(w[8:])&mask + add
		a2 |= binary.LittleEndian.Uint64(w[16:])&mask + add
		a3 |= binary.LittleEndian.Uint64(w[24:])&mask + add
		a0 |= binary.LittleEndian.Uint64(w[32:])&mask + add
		a1 |= binary.LittleEndian.Uint64(w[40:])&mask + add
		a2 |= binary.LittleEndian.Uint64(w[48:])&mask + add
		a3 |= binary.LittleEndian.Uint64(w[56:])&mask + add
	}
	return (a0|a1|a2|a3)&^mask != 0
}

// anyPattern tells whether p has a byte x with the top bit set whose other bits
// flip turns into ones. low is lowBits and one is oneEach, kept in registers.
//
//	(x^flip)&low + one
//
// has the top bit set if those bits are ones, and the AND with x asks for the
// top bit of x itself. Two accumulators, because x is needed twice and with
// four the compiler runs out of registers.
func anyPattern(p []byte, flip, low, one uint64) bool {
	var a0, a1 uint64
	for i := 0; i <= len(p)-stride; i += stride {
		w := (*[stride]byte)(p[i : i+stride])
		w0 := binary.LittleEndian.Uint64(w[0:])
		w1 := binary.LittleEndian.Uint64(w[8:])
		a0 |= ((w0^flip)&low + one) & w0
		a1 |= ((w1^flip)&low + one) & w1
		w0 = binary.LittleEndian.Uint64(w[16:])
		w1 = binary.LittleEndian.Uint64(w[24:])
		a0 |= ((w0^flip)&low + one) & w0
		a1 |= ((w1^flip)&low + one) & w1
		w0 = binary.LittleEndian.Uint64(w[32:])
		w1 = binary.LittleEndian.Uint64(w[40:])
		a0 |= ((w0^flip)&low + one) & w0
		a1 |= ((w1^flip)&low + one) & w1
		w0 = binary.LittleEndian.Uint64(w[48:])
		w1 = binary.LittleEndian.Uint64(w[56:])
		a0 |= ((w0^flip)&low + one) & w0
		a1 |= ((w1^flip)&low + one) & w1
	}
	return (a0|a1)&^low != 0
}
