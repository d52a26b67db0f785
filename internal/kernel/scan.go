package kernel

const (
	// stride is what the loops of scan_generic.go take a turn.
	stride = 64
	// blockSize is how much Scan looks at before it decides. It is a
	// multiple of stride, small enough that the second loop over a block
	// finds it in the first-level cache, and large enough that the decision
	// costs nothing.
	blockSize = 4096
)

// Scan tells whether p holds an element that Classify would visit, and whether
// it holds an element that is not zero. Both answers are exact. A suspect
// element is never zero, so suspect implies nonzero.
//
// p is a run of whole elements, with any alignment in memory; a part of an
// element at the end is ignored. Without elements both answers are false.
func (f Format) Scan(p []byte) (suspect, nonzero bool) {
	p = f.whole(p)
	nonzero = f.noZero && len(p) > 0

	// An element has no bit that the OR of a block lacks. So when the OR,
	// taken for an element in each lane, passes the test, then so do all
	// elements; and the OR costs a third of the test. Blocks of weights
	// below 2 in a 16-bit or wider float pass, since they leave the top bit
	// of the exponent clear. FP8 weights use all their bits and do not, and
	// what failed once is not tried again, lest every block be read twice.
	// By then nonzero is known: an OR that fails is not zero.
	bound := true

	var pad [stride]byte
	for len(p) > 0 {
		var block []byte
		block, p = cut(p, &pad)
		if bound {
			or := union(block)
			nonzero = nonzero || or&^f.sign != 0
			bound = !f.reached(or)
		}
		if !bound && f.holds(block) {
			return true, true
		}
		if nonzero && f.rule == never {
			break
		}
	}
	return false, nonzero
}

// cut splits off a block with whole strides. The last elements, less than a
// stride, are copied to pad: the zeros after them are neither suspect nor
// nonzero in any format that has a zero, and not suspect in E8M0.
func cut(p []byte, pad *[stride]byte) (block, rest []byte) {
	if len(p) < stride {
		copy(pad[:], p)
		return pad[:], nil
	}
	n := min(len(p), blockSize) &^ (stride - 1)
	return p[:n], p[n:]
}

// reached tells whether an element may be flagged that has no other bits than
// those of its lane in or. False is certain.
func (f *Format) reached(or uint64) bool {
	if f.rule == pattern {
		return or&topBits != 0 // the other bits may have to be zeros
	}
	return f.flagged(or) != 0
}

// holds tells whether block, of whole strides, holds a flagged element.
func (f *Format) holds(block []byte) bool {
	switch f.rule {
	case ordered:
		return anyOrdered(block, ^f.sign, f.add)
	case pattern:
		return anyPattern(block, f.flip, lowBits, oneEach)
	default:
		return false
	}
}
