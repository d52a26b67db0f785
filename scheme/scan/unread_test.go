package scan

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// failing is a file system of which one file fails from a byte on, once it is
// armed: it ends there, or gives an error.
type failing struct {
	fstest.MapFS
	name  string
	from  int64
	err   error // io.EOF for a file that shrank
	armed *atomic.Bool
}

type failingFile struct {
	fs.File
	fsys failing
}

func (f failing) Open(name string) (fs.File, error) {
	file, err := f.MapFS.Open(name)
	if err != nil || name != f.name {
		return file, err
	}
	return failingFile{file, f}, nil
}

func (f failingFile) ReadAt(p []byte, off int64) (int, error) {
	at := f.File.(io.ReaderAt)
	if end := f.fsys.from; f.fsys.armed.Load() && off+int64(len(p)) > end {
		n, _ := at.ReadAt(p[:max(0, end-off)], off)
		return n, f.fsys.err
	}
	return at.ReadAt(p, off)
}

var errDisk = errors.New("input/output error")

// A shard that fails is reported, and what was read of it and of the others is
// still told.
func TestUnread(t *testing.T) {
	m := vectors.NVFP4(vectors.T0(), false)
	first, second := m.Shards[0].Name, m.Shards[1].Name
	const early, late = "model.layers.0.input_layernorm.weight", "model.layers.1.input_layernorm.weight"
	plantAt(m, early, 3, "c07f")
	plantAt(m, late, 3, "c07f")
	files := m.FS()
	whole := open(t, files)
	norm, _ := whole.Tensor(early)
	for _, c := range []struct {
		label, shard string
		from         int64
		err          error
		findings     string
		class        error
	}{
		{"the first shard ends in its header", first, 100, io.EOF, late, safetensors.Shrunk},
		{"the first shard ends in the tensor with the fault", first, norm.Offset + 1, io.EOF, late, safetensors.Shrunk},
		{"the first shard ends behind the tensor with the fault", first, norm.Offset + norm.Bytes, io.EOF, early + " " + late, safetensors.Shrunk},
		{"the first shard lacks a byte of it", first, norm.Offset + norm.Bytes - 1, io.EOF, late, safetensors.Shrunk},
		{"the second shard ends", second, 100, io.EOF, early, safetensors.Shrunk},
		{"the first shard cannot be read", first, 0, errDisk, late, errDisk},
		{"the second shard cannot be read", second, 0, errDisk, early, errDisk},
	} {
		for _, all := range []bool{false, true} {
			fsys := failing{files, c.shard, c.from, c.err, new(atomic.Bool)}
			ck := open(t, fsys)
			fsys.armed.Store(true)
			r, err := Scan(context.Background(), ck, Options{All: all, Workers: 1})
			if err != nil {
				t.Errorf("%s: %v", c.label, err)
				continue
			}
			var found []string
			for _, f := range r.Findings {
				found = append(found, f.Tensor)
			}
			if got := strings.Join(found, " "); got != c.findings {
				t.Errorf("%s, all %t: findings %q, want %q", c.label, all, got, c.findings)
			}
			if len(r.Unread) != 1 {
				t.Errorf("%s: %v", c.label, r.Unread)
				continue
			}
			p := r.Unread[0]
			if p.Code != checkpoint.ShardUnreadable || p.Severity != checkpoint.Fatal || p.File != c.shard || !p.Unreadable() || !errors.Is(p.Err, c.class) || p.Message == "" || p.Repair == "" {
				t.Errorf("%s: %+v", c.label, p)
			}
			if n := len(r.NotChecked); n == 0 || r.NotChecked[n-1] != `the rest of "`+c.shard+`": it could not be read` {
				t.Errorf("%s: not checked %q", c.label, r.NotChecked)
			}
		}
	}
}

// Many workers, both shards: each is reported once, in order.
func TestUnreadAll(t *testing.T) {
	big, _ := large()
	files := big.FS()
	for _, workers := range []int{1, 2, 8} {
		fsys := brokenAll{files, new(atomic.Bool), new(atomic.Int64)}
		c := open(t, fsys)
		fsys.armed.Store(true)
		r, err := Scan(context.Background(), c, Options{Workers: workers})
		if err != nil || len(r.Unread) != 2 || len(r.NotChecked) != 2 || r.Unread[0].File != big.Shards[0].Name || r.Unread[1].File != big.Shards[1].Name {
			t.Errorf("%d workers: %+v, %v", workers, r, err)
		}
		if len(r.Findings) > 0 {
			t.Errorf("%d workers: findings in nothing: %+v", workers, r.Findings)
		}
		// Of a shard that failed no more is asked for, but by workers that were about to.
		if n := fsys.refused.Load(); n < 2 || n > 2*int64(workers) {
			t.Errorf("%d workers: %d reads of two shards that fail", workers, n)
		}
	}
}

// brokenAll is a file system of which no file can be read once it is armed.
type brokenAll struct {
	fstest.MapFS
	armed   *atomic.Bool
	refused *atomic.Int64
}

// brokenFile is one of its files.
type brokenFile struct {
	failingFile
	refused *atomic.Int64
}

func (f brokenFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fsys.armed.Load() {
		f.refused.Add(1)
	}
	return f.failingFile.ReadAt(p, off)
}

func (b brokenAll) Open(name string) (fs.File, error) {
	file, err := b.MapFS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".safetensors") {
		return file, err
	}
	return brokenFile{failingFile{file, failing{b.MapFS, name, 0, errDisk, b.armed}}, b.refused}, nil
}

// With all a shard of which a part was read does not pass for one of zeros.
func TestUnreadIsNotZero(t *testing.T) {
	files := oneFile(filled("m.weight", "BF16", []int{4, blockSize}, "0000"))
	fsys := failing{files, "model.safetensors", 3 * blockSize, io.EOF, new(atomic.Bool)}
	c := open(t, fsys)
	fsys.armed.Store(true)
	r, err := Scan(context.Background(), c, Options{All: true, Workers: 1})
	if err != nil || len(r.Unread) != 1 || len(r.Findings) > 0 || r.Tensors != 0 || r.Bytes >= 3*blockSize {
		t.Errorf("%+v, %v", r, err)
	}
}

// A checkpoint that was closed is unreadable, not clean.
func TestClosed(t *testing.T) {
	c := open(t, vectors.T0().FS())
	c.Close()
	r, err := Scan(context.Background(), c, Options{})
	if err != nil || r.Tensors != 0 || r.Bytes != 0 || len(r.Unread) != 2 || !errors.Is(r.Unread[0].Err, fs.ErrClosed) {
		t.Errorf("%+v, %v", r, err)
	}
}
