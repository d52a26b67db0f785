package checkpoint

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// Change says what becomes of a model's files. What it does not name keeps its
// bytes. The zero Change changes nothing.
type Change struct {
	// Patches overwrites bytes of weight files, by file. Any subset of a patch's
	// bytes must be a valid state of the file: in place, a crash may leave one.
	Patches map[string][]Patch
	// Shards are new weight files. The index is extended by their tensors, and
	// made where there is none.
	Shards []NewShard
	// Files replaces or creates other files, such as config.json.
	Files map[string][]byte
}

// Patch edits a range of a file without changing its length.
type Patch struct {
	Offset, Length int64 // from the start of the file, in bytes
	// Edit changes a block in place; off is the block's place in the range. It
	// sees every byte of the range once, in blocks of up to 1 MiB, and must not
	// keep state: it may be called again to verify, and must then change nothing.
	Edit func(block []byte, off int64)
}

// NewShard is a weight file that is to be written.
type NewShard struct {
	Name     string
	Slots    []safetensors.Slot
	Metadata map[string]string // gets format: pt if it lacks a format
	// Fill writes every tensor. It may do so from several goroutines.
	Fill func(context.Context, *safetensors.Writer) error
}

// layout lays the file out. Loaders of transformers refuse a header whose
// __metadata__ has no format.
func (s *NewShard) layout() (*safetensors.Layout, error) {
	meta := map[string]string{"format": "pt"}
	maps.Copy(meta, s.Metadata)
	l, err := safetensors.NewLayout(s.Slots, meta)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote(s.Name), err)
	}
	return l, nil
}

// patchBlock is how much of a range is edited at a time.
const patchBlock = 1 << 20

// apply edits a range of f and writes the bytes that changed, run by run. It
// returns how many.
func (p Patch) apply(ctx context.Context, f *os.File) (changed int64, err error) {
	before, after := make([]byte, patchBlock), make([]byte, patchBlock)
	err = p.blocks(ctx, f, before, func(off int64, block []byte) error {
		edited := after[:copy(after, block)]
		p.Edit(edited, off)
		for i := 0; i < len(block); {
			if edited[i] == block[i] {
				i++
				continue
			}
			end := i + 1
			for end < len(block) && edited[end] != block[end] {
				end++
			}
			if _, err := f.WriteAt(edited[i:end], p.Offset+off+int64(i)); err != nil {
				return err
			}
			changed += int64(end - i)
			i = end
		}
		return nil
	})
	return changed, err
}

// verify reads the range again: Edit must find nothing left to change.
func (p Patch) verify(ctx context.Context, f *os.File) error {
	before, after := make([]byte, patchBlock), make([]byte, patchBlock)
	return p.blocks(ctx, f, before, func(off int64, block []byte) error {
		edited := after[:copy(after, block)]
		p.Edit(edited, off)
		for i := range block {
			if edited[i] != block[i] {
				return fmt.Errorf("%s: byte %d was written as %#02x and reads back as %#02x", quote(f.Name()), p.Offset+off+int64(i), edited[i], block[i])
			}
		}
		return nil
	})
}

// blocks reads the range block by block.
func (p Patch) blocks(ctx context.Context, f *os.File, buf []byte, do func(off int64, block []byte) error) error {
	for off := int64(0); off < p.Length; {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := buf[:min(int64(len(buf)), p.Length-off)]
		if n, err := f.ReadAt(block, p.Offset+off); n < len(block) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%s: byte %d: %w", quote(f.Name()), p.Offset+off+int64(n), err)
		}
		if err := do(off, block); err != nil {
			return err
		}
		off += int64(len(block))
	}
	return nil
}
