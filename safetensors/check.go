package safetensors

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/rawjson"
)

// sort puts the entries in the order of their data.
func (h *header) sort() {
	place := func(a, b entry) int {
		switch {
		case a.begin != b.begin:
			return cmp.Compare(a.begin, b.begin)
		case a.end != b.end:
			return cmp.Compare(a.end, b.end)
		}
		return strings.Compare(a.name, b.name)
	}
	if !slices.IsSortedFunc(h.entries, place) {
		slices.SortFunc(h.entries, place)
	}
}

// checkLayout checks the sorted entries as the reference's Metadata::validate
// does: no holes, no overlaps, every size as dtype and shape say. data is the
// length of the data section; base is where it starts.
func (h *header) checkLayout(base, data int64) *Error {
	var next uint64 // where the next tensor must begin
	for i := range h.entries {
		e := &h.entries[i]
		fault := func(class Class, format string, args ...any) *Error {
			at := base
			if e.begin <= uint64(data) {
				at += int64(e.begin)
			}
			return &Error{Class: class, Offset: at, Tensor: e.name, Detail: fmt.Sprintf(format, args...)}
		}
		if e.end < e.begin {
			return fault(TensorOffset, "data_offsets [%d,%d]: the tensor ends before it begins", e.begin, e.end)
		}
		if e.begin != next {
			return fault(TensorOffset, "data_offsets [%d,%d], but the tensor before ends at %d", e.begin, e.end, next)
		}
		next = e.end
		switch e.size {
		case sizeOverflow:
			return fault(TensorOverflow, "%s %v", e.dtype, h.shapeOf(e))
		case sizeBits:
			return fault(TensorBits, "%s %v", e.dtype, h.shapeOf(e))
		case sizeWrong:
			n, _ := h.info(e).Elements()
			want, _ := e.dtype.bytes(n)
			return fault(TensorSize, "%s %v takes %d bytes, data_offsets [%d,%d] hold %d",
				e.dtype, h.shapeOf(e), want, e.begin, e.end, e.end-e.begin)
		}
	}
	if next != uint64(data) {
		return h.wrongLength(base, data, next)
	}
	return nil
}

// wrongLength says how much is missing, and from which tensors, or how much is
// too much.
func (h *header) wrongLength(base, have int64, want uint64) *Error {
	e := &Error{Class: WrongLength, Offset: base + have, Want: -1, Have: base + have}
	promised := "2^64 or more"
	if total, carry := bits.Add64(uint64(base), want, 0); carry == 0 {
		promised = strconv.FormatUint(total, 10)
		if total <= 1<<63-1 {
			e.Want = int64(total)
		}
	}
	e.Detail = fmt.Sprintf("header promises %s bytes, file has %d: ", promised, e.Have)
	if want < uint64(have) {
		e.Offset = e.Want
		e.Detail += fmt.Sprintf("%d too many at its end; fetch the file again", uint64(have)-want)
		return e
	}
	i, _ := slices.BinarySearchFunc(h.entries, uint64(have), func(t entry, at uint64) int {
		if t.end > at {
			return 1
		}
		return -1
	})
	lost := h.entries[i:]
	names := quoteName(lost[0].name)
	if len(lost) > 1 {
		names += " … " + quoteName(lost[len(lost)-1].name)
	}
	e.Detail += fmt.Sprintf("%d missing, %d of %d tensors cut short (%s); fetch the file again",
		want-uint64(have), len(lost), len(h.entries), names)
	return e
}

// table finds entries by name: open addressing over a power of two of slots,
// each 0 or an entry's index plus one. A map would cost a hostile header three
// times as much. The seed is random, so names cannot be made to collide.
type table struct {
	seed  maphash.Seed
	slots []uint32
}

// index builds the table; a name that stands twice is an error.
func (h *header) index() (table, *Error) {
	t := table{maphash.MakeSeed(), make([]uint32, 1<<bits.Len(uint(len(h.entries)*3/2)))}
	for i := range h.entries {
		name := h.entries[i].name
		slot, found := t.find(h.entries, name)
		if found >= 0 {
			first, second := &h.entries[found], &h.entries[i]
			return t, &Error{Class: DuplicateName, Offset: int64(8 + h.second(name)), Tensor: name, Detail: fmt.Sprintf(
				"data_offsets [%d,%d] and [%d,%d]; readers disagree on which counts: write the file again with one of them",
				first.begin, first.end, second.begin, second.end)}
		}
		t.slots[slot] = uint32(i + 1)
	}
	return t, nil
}

// second returns where in the text the name stands for the second time.
func (h *header) second(name string) int {
	t := rawjson.NewTokens(h.text)
	t.Next() // the header has been checked: none of these can fail
	for seen := false; ; t.Skip() {
		t.Next()
		if t.Text() == name {
			if seen {
				return t.Start()
			}
			seen = true
		}
	}
}

// find returns the index of the entry with that name, or -1 and the slot where
// it belongs.
func (t table) find(entries []entry, name string) (slot, index int) {
	mask := len(t.slots) - 1
	for slot = int(maphash.String(t.seed, name)) & mask; ; slot = (slot + 1) & mask {
		i := t.slots[slot]
		if i == 0 {
			return slot, -1
		}
		if entries[i-1].name == name {
			return slot, int(i - 1)
		}
	}
}

func (h *header) info(e *entry) Info {
	return Info{Name: e.name, DType: e.dtype, Shape: h.shapeOf(e)}
}
