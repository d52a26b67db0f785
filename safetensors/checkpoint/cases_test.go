package checkpoint_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// This file has checkpoints as they were found in the field.

const mtpFC = "mtp.fc.weight"

// fieldCase opens m both ways and wants these problems.
func fieldCase(t *testing.T, name string, m *vectors.Model, wants ...want) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
			if err != nil {
				t.Fatal(err)
			}
			expect(t, c, wants...)
		})
	})
}

// totalSize wants the note on a total_size that no longer fits.
func totalSize(is, have int64) want {
	return want{checkpoint.IndexTotalSize, checkpoint.Note, indexName, nil, nil, []string{fmt.Sprintf("total_size is %d, the tensors have %d bytes", is, have)}}
}

// TestCaseTensorNotInItsShard has an index that lists one tensor more than the
// headers.
func TestCaseTensorNotInItsShard(t *testing.T) {
	m := vectors.T1()
	m.Files[indexName] = m.Index()
	before := m.TotalSize()
	m.Remove(mtpFC)
	fieldCase(t, "in no shard", m,
		want{checkpoint.IndexTensorGhost, checkpoint.Corrupt, shard2, []string{mtpFC}, nil, []string{"1 tensor(s)"}},
		totalSize(before, before-64*128*2))

	m = vectors.T1()
	m.Files[indexName] = m.Index()
	m.Move(mtpFC, shard1)
	fieldCase(t, "in the other shard", m,
		want{checkpoint.IndexTensorElsewhere, checkpoint.Degraded, shard2, []string{mtpFC}, nil, []string{"1 tensor(s)", `"mtp.fc.weight" is in "` + shard1}})

	m = vectors.T1()
	m.Files[indexName] = m.Index()
	m.Move(mtpFC, "mtp.safetensors")
	fieldCase(t, "in a file that the index does not name", m,
		want{checkpoint.IndexTensorGhost, checkpoint.Corrupt, shard2, []string{mtpFC}, nil, []string{`"mtp.safetensors", which the index does not name, holds`, "name that file"}},
		want{checkpoint.IndexFileUnlisted, checkpoint.Degraded, "mtp.safetensors", []string{mtpFC}, nil, []string{"1 of its 1 tensors"}},
		totalSize(before, before-64*128*2))
}

// TestCaseScalesNotInTheirShards has block scales that only the index knows.
func TestCaseScalesNotInTheirShards(t *testing.T) {
	m := vectors.FP8Block(vectors.T0())
	m.Files[indexName] = m.Index()
	before := m.TotalSize()
	scale := func(layer int) string {
		return fmt.Sprintf("model.layers.%d.self_attn.o_proj.weight_scale_inv", layer)
	}
	m.Remove(scale(0))
	m.Remove(scale(1))
	fieldCase(t, "two", m,
		want{checkpoint.IndexTensorGhost, checkpoint.Corrupt, shard1, []string{scale(0)}, nil, []string{"1 tensor(s)"}},
		want{checkpoint.IndexTensorGhost, checkpoint.Corrupt, shard2, []string{scale(1)}, nil, []string{"1 tensor(s)"}},
		totalSize(before, before-8))
}

// TestCaseMissingShard is a download that was interrupted.
func TestCaseMissingShard(t *testing.T) {
	m := vectors.T0()
	m.Files[shard2] = nil
	fieldCase(t, "that the index names", m,
		want{checkpoint.IndexFileMissing, checkpoint.Fatal, shard2, tensorsOf(m.Shards[1]), nil, []string{"12 tensor(s)", "fetch the file"}})

	m = unindexed(renamed(vectors.T0(), "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"))
	fieldCase(t, "that the names promise", m,
		want{checkpoint.ShardGap, checkpoint.Corrupt, "model-00002-of-00003.safetensors", nil, nil, []string{"fetch the file"}})

	m = unindexed(renamed(vectors.T0(), "model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"))
	fieldCase(t, "but the numbers run from 0", m)

	m.Files["model-00000-of-00002.safetensors"] = nil
	fieldCase(t, "at the front", m,
		want{checkpoint.ShardGap, checkpoint.Corrupt, "model-00002-of-00002.safetensors", nil, nil, nil}) // nothing says that they ran from 0
}

// TestCaseStaleDuplicate has a module in an old shard too.
func TestCaseStaleDuplicate(t *testing.T) {
	m := vectors.T1()
	m.Add(shard1, vectors.Tensor{Name: mtpFC, DType: "I8", Shape: []int{64, 128}, Data: make([]byte, 64*128)})
	fieldCase(t, "of another dtype", m,
		want{checkpoint.ShardDuplicate, checkpoint.Corrupt, shard1, []string{mtpFC}, nil, []string{"1 tensor(s)", shard2, "I8 [64 128] here, BF16 [64 128] there"}})

	m = vectors.T1()
	twin := *m.Tensor(mtpFC)
	m.Add(shard1, twin)
	fieldCase(t, "of equal bytes", m,
		want{checkpoint.ShardDuplicate, checkpoint.Note, shard1, []string{mtpFC}, nil, []string{"1 tensor(s)", shard2, "equal bytes"}})

	m = vectors.T1()
	twin.Data = bytes.Clone(twin.Data)
	twin.Data[12345] ^= 0xff
	m.Add(shard1, twin)
	fieldCase(t, "of one different byte", m,
		want{checkpoint.ShardDuplicate, checkpoint.Corrupt, shard1, []string{mtpFC}, nil, []string{shard2, `"mtp.fc.weight": byte 12345 is`}})

	// The index may follow the stale one; engines that read every key end up with the last.
	m.Files[indexName] = []byte(strings.Replace(string(m.Index()), `"`+mtpFC+`": "`+shard2, `"`+mtpFC+`": "`+shard1, 1))
	fieldCase(t, "that the index prefers", m,
		want{checkpoint.ShardDuplicate, checkpoint.Corrupt, shard1, []string{mtpFC}, nil, []string{shard2, "byte 12345"}})
}

// TestCaseStaleIndex has an index from before the model was sharded anew.
func TestCaseStaleIndex(t *testing.T) {
	m := vectors.T1()
	weightMap := map[string]string{}
	var wants []want
	for i, tensor := range m.Names() {
		file := fmt.Sprintf("model-%05d-of-00030.safetensors", i%30+1)
		if i < 30 {
			wants = append(wants, want{code: checkpoint.IndexFileMissing, severity: checkpoint.Fatal, file: file, says: []string{"tensor(s)"}})
		}
		wants[i%30].tensors = append(wants[i%30].tensors, tensor)
		weightMap[tensor] = file
	}
	m.Files[indexName] = vectors.JSON(map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": weightMap})
	for _, s := range m.Shards {
		wants = append(wants, want{checkpoint.IndexFileUnlisted, checkpoint.Degraded, s.Name, tensorsOf(s), nil, []string{fmt.Sprintf("%d of its %[1]d tensors", len(s.Tensors))}})
	}
	fieldCase(t, "of 30 files", m, wants...)
}

// TestCaseNotWeights has shards that are no safetensors file.
func TestCaseNotWeights(t *testing.T) {
	second := tensorsOf(vectors.T0().Shards[1])
	for name, test := range map[string]struct {
		file  []byte
		class safetensors.Class
		says  []string
	}{
		"header over the cap": {[]byte("\x40\x9D\xDF\x07\x00\x00\x00\x00"), safetensors.HeaderTooLarge, []string{"132095296", "file has 8", "several shards"}},
		"error page":          {[]byte("<!DOCTYPE html>\n<html><title>404</title></html>"), safetensors.NotSafetensors, []string{"HTML", "fetch the file again"}},
		"LFS pointer": {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0a", 32) + "\nsize 9976578928\n"),
			safetensors.NotSafetensors, []string{"Git LFS pointer", "9976578928", `git lfs pull`}},
		"truncated by 100": {weights(1)[:len(weights(1))-100], safetensors.WrongLength, []string{"100 missing", `"model.norm.weight"`, "fetch"}},
		"one byte more":    {append(weights(1), 0), safetensors.WrongLength, []string{"1 too many"}},
		"empty":            {[]byte{}, safetensors.HeaderTooSmall, []string{"0 bytes"}},
	} {
		m := vectors.T0()
		m.Files[shard2] = test.file
		fieldCase(t, name, m, want{checkpoint.ShardMalformed, checkpoint.Fatal, shard2, second, test.class, append(test.says, shard2)})
		m = unindexed(m)
		fieldCase(t, name+", without an index", m, want{checkpoint.ShardMalformed, checkpoint.Fatal, shard2, nil, test.class, append(test.says, shard2)})
	}
}

// TestTotalSize has what writers put there.
func TestTotalSize(t *testing.T) {
	m := vectors.T0()
	right := m.TotalSize()
	for text, says := range map[string]string{
		fmt.Sprint(right):                   "",
		fmt.Sprintf("%d.0", right):          "",
		fmt.Sprintf("%de-1", 10*right):      "",
		"0":                                 "is 0, the",
		"-1":                                "is -1, the",
		fmt.Sprintf("%d.5", right):          fmt.Sprintf("is %d.5, the", right),
		"1e999":                             "is +Inf, the",
		`"x"`:                               "",
		"null":                              "",
		`{"total_size":1}`:                  "",
		fmt.Sprint(right) + `,"n":{"a":[]}`: "",
	} {
		m.Files[indexName] = indexed(m, fmt.Sprintf(`"total_size": %d`, right), `"total_size": `+text)
		var wants []want
		if says != "" {
			wants = []want{{checkpoint.IndexTotalSize, checkpoint.Note, indexName, nil, nil, []string{says, fmt.Sprintf("have %d bytes", right)}}}
		}
		fieldCase(t, text, m, wants...)
	}
	for _, metadata := range []string{`{}`, `null`, `[]`, `"x"`, `7`} {
		m.Files[indexName] = vectors.JSON(map[string]any{"weight_map": weightMap(m)})
		m.Files[indexName] = []byte(strings.Replace(string(m.Files[indexName]), "{", `{"metadata":`+metadata+",", 1))
		fieldCase(t, "metadata "+metadata, m)
	}
}

func weightMap(m *vectors.Model) map[string]string {
	files := map[string]string{}
	for _, s := range m.Shards {
		for _, tensor := range s.Tensors {
			files[tensor.Name] = s.Name
		}
	}
	return files
}

// TestNaturalOrder lists the tensors of a problem as a person would.
func TestNaturalOrder(t *testing.T) {
	m := vectors.T0()
	names := []string{"ghost.2.w", "ghost.9.w", "ghost.10.w", "ghost.x"}
	entries := ""
	for _, name := range slices.Backward(names) {
		entries += `"` + name + `": "` + shard2 + `", `
	}
	m.Files[indexName] = indexed(m, lmHeadEntry, entries+lmHeadEntry)
	fieldCase(t, "ghosts", m, want{checkpoint.IndexTensorGhost, checkpoint.Corrupt, shard2, names, nil, []string{"4 tensor(s)"}})
}
