package safetensors

import (
	"fmt"
	"strconv"
	"strings"
)

// Class is the kind of fault an [Error] reports. Test for one with errors.Is:
//
//	if errors.Is(err, safetensors.WrongLength) { … }
type Class string

// Error makes a Class usable as a target of errors.Is.
func (c Class) Error() string { return string(c) }

// The classes, with the name the reference crate gives the same fault.
const (
	HeaderTooSmall Class = "too short to be safetensors"                   // HeaderTooSmall
	HeaderTooLarge Class = "header length over the format's limit"         // HeaderTooLarge
	HeaderLength   Class = "header reaches past the end of the file"       // InvalidHeaderLength
	HeaderUTF8     Class = "header is not UTF-8"                           // InvalidHeader
	HeaderSyntax   Class = "malformed header"                              // InvalidHeaderDeserialization
	TensorOffset   Class = "tensors are not contiguous"                    // InvalidOffset
	TensorSize     Class = "size does not follow from dtype and shape"     // TensorInvalidInfo
	TensorOverflow Class = "size overflows 64 bits"                        // ValidationOverflow
	TensorBits     Class = "size is not a whole number of bytes"           // MisalignedSlice
	WrongLength    Class = "file length differs from what the header says" // MetadataIncompleteBuffer

	DuplicateName  Class = "tensor name stands twice"       // stricter than the reference
	RankTooLarge   Class = "tensor has too many dimensions" // stricter than the reference
	NotSafetensors Class = "not a safetensors file"
	Shrunk         Class = "file ended while it was read"
)

// Error is a fault of one file: where it is, what it is, and what to do.
// Its Unwrap gives the Class and, if there is one, the cause.
type Error struct {
	File   string // path as given to Open, or ""
	Class  Class
	Offset int64  // byte in the file at which the fault shows, or -1
	Tensor string // the tensor concerned, or ""
	Detail string // what was found, and the remedy where there is one
	Want   int64  // WrongLength, Shrunk: length in bytes that the header promises
	Have   int64  // WrongLength, Shrunk: length in bytes that is there
	Err    error  // cause, or nil
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(strconv.Quote(e.File) + ": ")
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "byte %d: ", e.Offset)
	}
	if e.Tensor != "" {
		fmt.Fprintf(&b, "tensor %s: ", quoteName(e.Tensor))
	}
	b.WriteString(string(e.Class))
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap makes errors.Is find the class and the cause.
func (e *Error) Unwrap() []error {
	if e.Err != nil {
		return []error{e.Class, e.Err}
	}
	return []error{e.Class}
}

// quoteName quotes a name from a file and shortens an absurd one.
func quoteName(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(s[:most]) + fmt.Sprintf("… (%d bytes)", len(s))
	}
	return strconv.Quote(s)
}
