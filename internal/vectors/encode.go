package vectors

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
)

// A Tensor is one entry of a safetensors file. Shape nil is a scalar. Nothing checks Shape against Data: a disagreement is a fault that a
// test may want.
type Tensor struct {
	Name  string
	DType string
	Shape []int
	Data  []byte
}

// dtypes is the reference's enum; files are laid out in its descending order.
var dtypes = []string{
	"BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
	"I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64",
}

var dtypeRank = func() map[string]int {
	ranks := make(map[string]int, len(dtypes))
	for i, name := range dtypes {
		ranks[name] = i + 1
	}
	return ranks
}()

// Encode returns one safetensors file exactly as the reference Rust crate writes it: dtypes in descending order and then names bytewise,
// compact JSON, __metadata__ first, space padding to a multiple of 8. Two things the crate leaves open are fixed here: metadata keys are
// sorted, and unknown dtypes come last. A nil meta writes no __metadata__, an empty one writes {}. Offsets follow the lengths of Data.
func Encode(tensors []Tensor, meta map[string]string) []byte {
	sorted := slices.Clone(tensors)
	slices.SortStableFunc(sorted, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(dtypeRank[b.DType], dtypeRank[a.DType]), cmp.Compare(a.Name, b.Name))
	})
	h := make([]byte, 8, 64+128*len(sorted))
	h = append(h, '{')
	if meta != nil {
		h = append(h, `"__metadata__":{`...)
		for i, key := range slices.Sorted(maps.Keys(meta)) {
			if i > 0 {
				h = append(h, ',')
			}
			h = appendString(h, key)
			h = append(h, ':')
			h = appendString(h, meta[key])
		}
		h = append(h, '}')
	}
	var end int64
	for i, t := range sorted {
		if i > 0 || meta != nil {
			h = append(h, ',')
		}
		h = appendString(h, t.Name)
		h = append(h, `:{"dtype":`...)
		h = appendString(h, t.DType)
		h = append(h, `,"shape":[`...)
		for j, dim := range t.Shape {
			if j > 0 {
				h = append(h, ',')
			}
			h = strconv.AppendInt(h, int64(dim), 10)
		}
		h = append(h, `],"data_offsets":[`...)
		h = strconv.AppendInt(h, end, 10)
		end += int64(len(t.Data))
		h = append(h, ',')
		h = strconv.AppendInt(h, end, 10)
		h = append(h, "]}"...)
	}
	h = append(h, '}')
	for len(h)%8 != 0 {
		h = append(h, ' ')
	}
	binary.LittleEndian.PutUint64(h, uint64(len(h)-8))
	file := make([]byte, 0, int64(len(h))+end)
	file = append(file, h...)
	for _, t := range sorted {
		file = append(file, t.Data...)
	}
	return file
}

// Raw frames any header and data as a safetensors file: the header's length as u64 LE, the header, the data. For hostile files.
func Raw(header string, data []byte) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	file = append(file, header...)
	return append(file, data...)
}

// appendString quotes s as serde_json does: only the quote, the backslash and control characters are escaped.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
