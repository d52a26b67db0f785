//go:build linux && big

package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// bigModel writes four shards of 1 GiB with an index; the last one begins with a
// small E4M3 scale tensor that holds a NaN byte.
func bigModel(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	const size = 1 << 30
	index := map[string]string{}
	block := make([]byte, 4<<20)
	for i := range block {
		block[i] = byte(i*7) & 0x3F
	}
	for shard := range 4 {
		name := fmt.Sprintf("model-%05d-of-00004.safetensors", shard+1)
		header := fmt.Sprintf(`{"l.%d.weight":{"dtype":"BF16","shape":[%d,4096],"data_offsets":[0,%d]}`, shard, size/8192, size)
		index[fmt.Sprintf("l.%d.weight", shard)] = name
		if shard == 3 {
			header += fmt.Sprintf(`,"l.3.weight_scale":{"dtype":"F8_E4M3","shape":[64,64],"data_offsets":[%d,%d]}`, size, size+4096)
			index["l.3.weight_scale"] = name
		}
		header += "}"
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			tb.Fatal(err)
		}
		f.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
		f.WriteString(header)
		for range size / len(block) {
			if _, err := f.Write(block); err != nil {
				tb.Fatal(err)
			}
		}
		if shard == 3 {
			scales := make([]byte, 4096)
			scales[77] = 0x7F
			f.Write(scales)
		}
		if err := f.Close(); err != nil {
			tb.Fatal(err)
		}
	}
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": 4*size + 4096}, "weight_map": index})
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), text, 0o666); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// timed runs a command and syncs, and returns how long both took.
func timed(tb testing.TB, name string, args ...string) time.Duration {
	tb.Helper()
	syscall.Sync()
	start := time.Now()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", name, err, out)
	}
	syscall.Sync()
	return time.Since(start)
}

// BenchmarkClampOut copies 4 GiB with one changed tensor beside cp -r, both timed
// until the disk has it: the first pair is discarded, nine interleaved pairs give
// the ratio of the medians.
func BenchmarkClampOut(b *testing.B) {
	ckpt, dir := command(b), bigModel(b)
	var ours, theirs []time.Duration
	for b.Loop() {
		for i := range 10 {
			out := filepath.Join(b.TempDir(), "out")
			o := timed(b, ckpt, "clamp-nan", dir, "--out", out)
			os.RemoveAll(out)
			t := timed(b, "cp", "-r", dir, out)
			os.RemoveAll(out)
			if i > 0 {
				ours, theirs = append(ours, o), append(theirs, t)
			}
		}
	}
	b.ReportMetric(ratio(ours, theirs), "x-cp")
}

// TestClampBytes checks what clamp-nan reads and writes, to the byte: a scan and
// the changed bytes in place, the untouched shards by reflink or copy_file_range
// in a copy.
func TestClampBytes(t *testing.T) {
	ckpt, dir := command(t), bigModel(t)
	out := filepath.Join(t.TempDir(), "out")
	var got clampReport
	run := func(args ...string) {
		t.Helper()
		stdout, err := exec.Command(ckpt, append([]string{"clamp-nan", "--json", dir}, args...)...).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
		got = clampReport{}
		if err := json.Unmarshal(stdout, &got); err != nil {
			t.Fatal(err)
		}
	}
	run("--out", out)
	for _, w := range got.Written {
		st, err := os.Stat(filepath.Join(dir, w.File))
		if err != nil {
			t.Fatal(err)
		}
		whole := st.Size()
		if w.Method == "reflink" {
			whole = 0
		}
		if w.File == got.Changed[0].File {
			whole++ // the clamped byte
		}
		if filepath.Ext(w.File) == ".safetensors" && (w.Method != "reflink" && w.Method != "copy_file_range" || w.Bytes != whole) {
			t.Errorf("%+v, want %d bytes by reflink or copy_file_range", w, whole)
		}
		t.Logf("%s: %s, %d bytes", w.File, w.Method, w.Bytes)
	}
	os.RemoveAll(out)
	run("--in-place")
	if len(got.Written) != 1 || got.Written[0].Bytes != 1 || got.Written[0].Action != "overwrite" {
		t.Errorf("in place: %+v", got.Written)
	}
}
