//go:build unix

package checkpoint_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// hubCache downloads m into a new cache, whose files are links.
func hubCache(t *testing.T, m model) (cache, snapshot string) {
	t.Helper()
	cache = t.TempDir()
	snapshot, err := vectors.HubCache(m, cache)
	if err != nil {
		t.Fatal(err)
	}
	return cache, snapshot
}

// openDir opens a folder with Open and with OpenFS over os.DirFS.
func openDir(t *testing.T, dir string, o checkpoint.Options, check func(*testing.T, *checkpoint.Checkpoint, error)) {
	for name, open := range map[string]func() (*checkpoint.Checkpoint, error){
		"Open":   func() (*checkpoint.Checkpoint, error) { return checkpoint.Open(dir, o) },
		"OpenFS": func() (*checkpoint.Checkpoint, error) { return checkpoint.OpenFS(os.DirFS(dir), o) },
	} {
		t.Run(name, func(t *testing.T) {
			var c *checkpoint.Checkpoint
			var err error
			promptly(t, func() { c, err = open() })
			check(t, closing(t, c), err)
		})
	}
}

func clean(m *vectors.Model, problems ...want) func(*testing.T, *checkpoint.Checkpoint, error) {
	return func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c, problems...)
		holds(t, c, m)
		if string(c.Config()) != string(vectors.JSON(m.Config)) {
			t.Errorf("config.json is %q", c.Config())
		}
	}
}

func TestHubCache(t *testing.T) {
	t.Run("snapshot", func(t *testing.T) {
		_, snapshot := hubCache(t, vectors.T0())
		openDir(t, snapshot, checkpoint.Options{}, clean(vectors.T0()))
	})
	t.Run("snapshot given by a link", func(t *testing.T) {
		cache, snapshot := hubCache(t, vectors.T0())
		mine := filepath.Join(cache, "mine")
		symlink(t, snapshot, mine)
		openDir(t, mine, checkpoint.Options{}, clean(vectors.T0()))
	})
	t.Run("cache reached through a link", func(t *testing.T) {
		cache, snapshot := hubCache(t, vectors.T0())
		link := filepath.Join(t.TempDir(), "hub")
		symlink(t, cache, link)
		rel, _ := filepath.Rel(cache, snapshot)
		openDir(t, filepath.Join(link, rel), checkpoint.Options{}, clean(vectors.T0()))
	})
	t.Run("files of a snapshot", func(t *testing.T) {
		_, snapshot := hubCache(t, vectors.T0())
		if c := mustOpen(t, filepath.Join(snapshot, shard1)); c.Len() != 9 || len(c.Problems()) > 0 {
			t.Errorf("shard: %d tensors, %v", c.Len(), c.Problems())
		}
		clean(vectors.T0())(t, mustOpen(t, filepath.Join(snapshot, indexName)), nil)
	})
	t.Run("blob", func(t *testing.T) {
		_, snapshot := hubCache(t, vectors.T0())
		blob, err := filepath.EvalSymlinks(filepath.Join(snapshot, shard1))
		if err != nil {
			t.Fatal(err)
		}
		if c := mustOpen(t, blob); c.Len() != 9 || len(c.Problems()) > 0 {
			t.Errorf("%d tensors, %v", c.Len(), c.Problems())
		}
	})
	t.Run("pipeline", func(t *testing.T) {
		p := vectors.Diffusers()
		both := p.Components[transformer]
		_, snapshot := hubCache(t, p)
		openDir(t, snapshot, checkpoint.Options{Component: transformer}, clean(both[0], variantOther(both[1])...))
		openDir(t, filepath.Join(snapshot, transformer), checkpoint.Options{}, clean(both[0], variantOther(both[1])...))
	})
	// Newer caches keep blobs once for all repositories; the repository's own
	// blob is then a link.
	t.Run("store for the whole cache", func(t *testing.T) {
		cache, snapshot := hubCache(t, vectors.T0())
		for _, name := range []string{shard1, shard2} {
			blob, err := filepath.EvalSymlinks(filepath.Join(snapshot, name))
			if err != nil {
				t.Fatal(err)
			}
			store := filepath.Join(cache, "blobs", filepath.Base(blob)[:2])
			if err := os.MkdirAll(store, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(blob, filepath.Join(store, filepath.Base(blob))); err != nil {
				t.Fatal(err)
			}
			symlink(t, filepath.Join(store, filepath.Base(blob)), blob)
		}
		openDir(t, snapshot, checkpoint.Options{}, clean(vectors.T0()))
	})
	t.Run("without links", func(t *testing.T) {
		snapshot := filepath.Join(t.TempDir(), "models--acme--tiny", "snapshots", "0123")
		if err := vectors.T0().Write(snapshot); err != nil {
			t.Fatal(err)
		}
		openDir(t, snapshot, checkpoint.Options{}, clean(vectors.T0()))
	})
	t.Run("repository", func(t *testing.T) {
		cache, snapshot := hubCache(t, vectors.T0())
		c, err := checkpoint.Open(filepath.Join(cache, "models--acme--tiny"), checkpoint.Options{})
		if err == nil || c != nil || !strings.Contains(err.Error(), snapshot) || !strings.Contains(err.Error(), "snapshots") {
			t.Errorf("%v\ndoes not give %s", err, snapshot)
		}
	})
}

// TestHubCacheBounds has links of a snapshot that lead to other places of the
// cache than its own blobs.
func TestHubCacheBounds(t *testing.T) {
	for name, place := range map[string]string{
		"other repository's blob": "models--acme--other/blobs/w",
		"own refs":                "models--acme--tiny/refs/w",
		"other snapshot":          "models--acme--tiny/snapshots/other/w",
		"cache":                   "w",
		"beside the blobs":        "blobs2/w",
	} {
		t.Run(name, func(t *testing.T) {
			cache, snapshot := hubCache(t, vectors.T0())
			target := filepath.Join(cache, place)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, weights(1), 0o644); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(snapshot, shard2)
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
			symlink(t, target, link)
			c := mustOpen(t, snapshot)
			expect(t, c, want{code: checkpoint.LinkOutside, severity: checkpoint.Fatal, file: shard2,
				tensors: tensorsOf(vectors.T0().Shards[1]), says: []string{place, "copy the file"}})
			if got := shards(c); !slices.Equal(got, []string{shard1}) {
				t.Errorf("shards %q", got)
			}
		})
	}
}

func symlink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
}
