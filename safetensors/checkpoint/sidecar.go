package checkpoint

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/atomicfile"
)

// This file is the policy for files that move from one model to another, as when
// a quantized copy is made: what lies beside the weights and belongs to the
// model travels, what belongs to these weights does not.

// Skipped is a file that does not travel, and why.
type Skipped struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// Reasons for leaving a file behind.
const (
	whyWeights   = "other weights"
	whyIndex     = "an index of the old weights"
	whyQuant     = "describes how the old weights were quantized"
	whyConfig    = "written anew"
	whyManifest  = "pins the old files"
	whyHistory   = "repository or cache housekeeping"
	whyCode      = "code; --allow-code copies it"
	whyLeftover  = "left by an interrupted run"
	whyIrregular = "not a regular file, or a link that leaves the model"
)

// stays returns why a file is not carried over to another model, "" if it is.
func stays(name string, allowCode bool) string {
	base := path.Base(name)
	ext := strings.ToLower(path.Ext(base))
	first, _, nested := strings.Cut(name, "/")
	_, index := indexVariant(base)
	switch {
	case atomicfile.Temporary(base):
		return whyLeftover
	case strings.HasPrefix(first, ".git"), first == ".cache":
		return whyHistory
	case nested && first == "original", consolidated(base), base == "params.json",
		slices.Contains([]string{weightSuffix, ".bin", ".pt", ".pth", ".gguf", ".onnx"}, ext):
		return whyWeights
	case index, strings.HasSuffix(base, ".bin.index.json"):
		return whyIndex
	case base == "recipe.yaml", slices.Contains([]string{"hf_quant_config.json", "quantize_config.json", "quant_config.json", "quantization_config.json"}, base):
		return whyQuant
	case base == "ckpt-manifest.json":
		return whyManifest
	case name == "config.json":
		return whyConfig
	case !allowCode && slices.Contains([]string{".py", ".pyc", ".sh", ".so", ".dll", ".dylib", ".exe", ".js", ".ipynb"}, ext):
		return whyCode
	}
	return ""
}

// Sidecars returns the files that travel with the model when its weights are
// made anew, and those that stay behind, in the order of their names. Code
// travels only with allowCode. config.json is the maker's to write.
func (c *Checkpoint) Sidecars(allowCode bool) (travel []string, skipped []Skipped, err error) {
	err = fs.WalkDir(c.pool.fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		why := stays(name, allowCode)
		if why == "" {
			if _, err := c.pool.stat(name); err != nil {
				why = whyIrregular
			}
		}
		if why == "" {
			travel = append(travel, name)
		} else {
			skipped = append(skipped, Skipped{name, why})
		}
		return nil
	})
	return travel, skipped, err
}
