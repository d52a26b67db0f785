package safetensors

import "slices"

// DType is the name of an element type exactly as it stands in a header. A name
// this package does not know is kept as it is.
type DType string

// The dtypes of the current format.
const (
	BOOL       DType = "BOOL"
	F4         DType = "F4"      // E2M1, two to a byte
	F6E2M3     DType = "F6_E2M3" // four to three bytes
	F6E3M2     DType = "F6_E3M2" // four to three bytes
	U8         DType = "U8"
	I8         DType = "I8"
	F8E5M2     DType = "F8_E5M2"
	F8E4M3     DType = "F8_E4M3" // torch.float8_e4m3fn: no infinities, NaN is 0x7F and 0xFF
	F8E8M0     DType = "F8_E8M0" // an exponent: 2^(byte-127), NaN is 0xFF
	F8E4M3FNUZ DType = "F8_E4M3FNUZ"
	F8E5M2FNUZ DType = "F8_E5M2FNUZ"
	I16        DType = "I16"
	U16        DType = "U16"
	F16        DType = "F16"
	BF16       DType = "BF16"
	I32        DType = "I32"
	U32        DType = "U32"
	F32        DType = "F32"
	C64        DType = "C64" // two F32
	F64        DType = "F64"
	I64        DType = "I64"
	U64        DType = "U64"
)

// DTypes returns every known dtype in the reference crate's enum order, which is
// the ascending order of its writer.
func DTypes() []DType {
	return []DType{BOOL, F4, F6E2M3, F6E3M2, U8, I8, F8E5M2, F8E4M3, F8E8M0, F8E4M3FNUZ, F8E5M2FNUZ,
		I16, U16, F16, BF16, I32, U32, F32, C64, F64, I64, U64}
}

// Bits returns the width of one element in bits, or 0 if the dtype is unknown.
func (d DType) Bits() int {
	switch d {
	case F4:
		return 4
	case F6E2M3, F6E3M2:
		return 6
	case BOOL, U8, I8, F8E5M2, F8E4M3, F8E8M0, F8E4M3FNUZ, F8E5M2FNUZ:
		return 8
	case I16, U16, F16, BF16:
		return 16
	case I32, U32, F32:
		return 32
	case C64, F64, I64, U64:
		return 64
	}
	return 0
}

// Float reports whether the elements are floating-point numbers (C64 counts: it
// is two of them).
func (d DType) Float() bool {
	switch d {
	case F4, F6E2M3, F6E3M2, F8E5M2, F8E4M3, F8E8M0, F8E4M3FNUZ, F8E5M2FNUZ, F16, BF16, F32, C64, F64:
		return true
	}
	return false
}

// known returns the constant equal to s, so that the headers of a large
// checkpoint share one string a dtype, or "" if there is none.
func known(s string) DType {
	all := DTypes()
	if i := slices.Index(all, DType(s)); i >= 0 {
		return all[i]
	}
	return ""
}
