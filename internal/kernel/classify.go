package kernel

import (
	"encoding/binary"
	"math/bits"
)

// Class is what is wrong with an element.
type Class uint8

// The classes. An element is in one of them only: a NaN or an Inf is no
// outlier.
const (
	Clean Class = iota
	NaN
	Inf
	Outlier
)

// Classify calls visit for each element of p that is not Clean, in order, with
// its index in p, its stored bits and its class.
//
// p is a run of whole elements; a part of one at the end is ignored. Classify is
// ten times slower than Scan and more so where it has much to visit. It is meant
// for the blocks that Scan calls suspect.
func (f Format) Classify(p []byte, visit func(index int, bits uint64, class Class)) {
	if f.rule == never {
		return
	}
	width := 8 << f.shift
	ones := ^uint64(0) >> (64 - width)
	p = f.whole(p)
	for index := 0; len(p) > 0; index += 64 / width {
		var w uint64
		w, p = cutWord(p)
		for hits := f.flagged(w); hits != 0; hits &= hits - 1 {
			lane := bits.TrailingZeros64(hits) / width
			element := w >> (lane * width) & ones
			visit(index+lane, element, f.class(element))
		}
	}
}

// class returns the class of one element. It is the definition of what a Format
// means: flagged and the loops of scan_generic.go have to agree with it about
// what is Clean.
func (f *Format) class(bits uint64) Class {
	switch f.rule {
	case ordered:
		magnitude := bits &^ f.sign // bits fills one lane, sign has them all
		switch {
		case magnitude >= f.nan:
			return NaN
		case magnitude >= f.inf:
			return Inf
		case magnitude >= f.outlier:
			return Outlier
		}
	case pattern:
		if bits == 0xFF^(f.flip&0xFF) {
			return NaN
		}
	}
	return Clean
}

// flagged returns the word that has the top bit set of just those lanes of w
// whose element is not Clean. Lanes do not disturb each other: with the top bit
// masked off, no sum reaches the lane above.
func (f *Format) flagged(w uint64) uint64 {
	switch f.rule {
	case ordered:
		// Reaches the top bit if the magnitude is outlier or more.
		return (w&^f.sign + f.add) & f.sign
	case pattern:
		// Reaches the top bit if the low bits are those of the NaN, and
		// keeps it if w has it too.
		return ((w^f.flip)&lowBits + oneEach) & w & topBits
	default:
		return 0
	}
}

// whole cuts p to whole elements.
func (f *Format) whole(p []byte) []byte { return p[:len(p)>>f.shift<<f.shift] }

// cutWord splits off the first word of p. The zeros that fill up a last word
// are clean in every format.
func cutWord(p []byte) (w uint64, rest []byte) {
	if len(p) >= 8 {
		return binary.LittleEndian.Uint64(p), p[8:]
	}
	var last [8]byte
	copy(last[:], p)
	return binary.LittleEndian.Uint64(last[:]), nil
}
