package vectors

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
)

// HubCache writes the files of m, a Model or a Pipeline, as a downloaded repository acme/tiny in the Hugging Face cache folder root and
// returns the snapshot's folder. Each file of the snapshot is a relative link into blobs, where a weight file is named by its SHA-256 and
// any other by its Git blob SHA-1.
func HubCache(m interface{ FS() fstest.MapFS }, root string) (snapshot string, err error) {
	files := m.FS()
	blobs := make(map[string]string, len(files))
	commit := sha1.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		blobs[name] = blobName(name, files[name].Data)
		fmt.Fprintln(commit, name, blobs[name])
	}
	revision := hex.EncodeToString(commit.Sum(nil))
	repo := filepath.Join(root, "models--acme--tiny")
	snapshot = filepath.Join(repo, "snapshots", revision)

	store := fstest.MapFS{"refs/main": {Data: []byte(revision)}}
	for name, blob := range blobs {
		store["blobs/"+blob] = files[name]
	}
	if err := writeFS(repo, store); err != nil {
		return "", err
	}
	for name, blob := range blobs {
		link := filepath.Join(snapshot, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return "", err
		}
		target, err := filepath.Rel(filepath.Dir(link), filepath.Join(repo, "blobs", blob))
		if err != nil {
			return "", err
		}
		if err := os.Symlink(target, link); err != nil {
			return "", err
		}
	}
	return snapshot, nil
}

func blobName(name string, data []byte) string {
	if strings.HasSuffix(name, ".safetensors") {
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	}
	git := sha1.New()
	fmt.Fprintf(git, "blob %d\x00", len(data))
	git.Write(data)
	return hex.EncodeToString(git.Sum(nil))
}
