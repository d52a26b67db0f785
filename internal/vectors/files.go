package vectors

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing/fstest"
)

// FS returns the model's files: shards, the index if Indexed, config.json if Config is set, and Files.
func (m *Model) FS() fstest.MapFS {
	files := fstest.MapFS{}
	m.addTo(files, "")
	return files
}

func (m *Model) addTo(files fstest.MapFS, folder string) {
	put := func(name string, data []byte) {
		files[path.Join(folder, name)] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	for _, s := range m.Shards {
		put(s.Name, Encode(s.Tensors, s.Meta))
	}
	if m.Indexed {
		put(m.IndexName, m.Index())
	}
	if m.Config != nil {
		put("config.json", JSON(m.Config))
	}
	for name, data := range m.Files {
		if data == nil {
			delete(files, path.Join(folder, name))
			continue
		}
		put(name, data)
	}
}

// Write writes the files of FS into dir, which is made if need be.
func (m *Model) Write(dir string) error { return writeFS(dir, m.FS()) }

func writeFS(dir string, files fstest.MapFS) error {
	for name, file := range files {
		dst := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(dst, file.Data, fs.FileMode(0o644)); err != nil {
			return err
		}
	}
	return nil
}

// Index returns the index file for the shards as they are now: sorted keys, two-space indent. A tensor in several shards is listed for
// the last one and counts once in total_size.
func (m *Model) Index() []byte {
	weights := map[string]string{}
	for _, s := range m.Shards {
		for _, t := range s.Tensors {
			weights[t.Name] = s.Name
		}
	}
	return JSON(map[string]any{"metadata": map[string]any{"total_size": m.TotalSize()}, "weight_map": weights})
}

// TotalSize returns the number of data bytes in the indexed tensors, headers excluded.
func (m *Model) TotalSize() int64 {
	sizes := map[string]int64{}
	for _, s := range m.Shards {
		for _, t := range s.Tensors {
			sizes[t.Name] = int64(len(t.Data))
		}
	}
	var total int64
	for _, size := range sizes {
		total += size
	}
	return total
}

// JSON spells v as the published files are: two-space indent, sorted keys, no HTML escapes, a newline at the end.
func JSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic("vectors: " + err.Error())
	}
	return b.Bytes()
}
