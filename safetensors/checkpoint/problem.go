package checkpoint

import (
	"errors"
	"strings"
)

// Severity grades a Problem, and elsewhere a finding.
type Severity string

// The severities.
const (
	Fatal    Severity = "F" // an engine does not start
	Corrupt  Severity = "C" // it starts and answers wrongly
	Degraded Severity = "D" // accuracy, speed or acceptance suffers
	Note     Severity = "I" // worth knowing
)

// Bad reports whether the severity makes a command end with exit code 1.
func (s Severity) Bad() bool { return s == Fatal || s == Corrupt }

// The codes of problems. Those of the lint rules keep their names.
const (
	IndexMalformed       = "INDEX-MALFORMED"        // the index is not what an index is
	IndexKeyDuplicate    = "INDEX-KEY-DUPLICATE"    // a tensor stands twice in weight_map
	IndexPath            = "INDEX-PATH"             // weight_map names a path that is refused
	IndexFileMissing     = "INDEX-FILE-MISSING"     // weight_map names a file that is not there
	IndexFileUnlisted    = "INDEX-FILE-UNLISTED"    // a weight file no engine will load
	IndexTensorGhost     = "INDEX-TENSOR-GHOST"     // weight_map names a tensor that no loaded file has
	IndexTensorElsewhere = "INDEX-TENSOR-ELSEWHERE" // the tensor is in another loaded file
	IndexTensorUnlisted  = "INDEX-TENSOR-UNLISTED"  // a loaded file has a tensor that weight_map lacks
	IndexTotalSize       = "INDEX-TOTAL-SIZE"       // metadata.total_size is not the sum of the tensors
	ShardDuplicate       = "SHARD-DUPLICATE"        // a tensor stands in two loaded files
	ShardGap             = "SHARD-GAP"              // model-00002-of-00003 is not there
	ShardMalformed       = "SHARD-MALFORMED"        // a weight file is not (whole) safetensors
	ShardUnreadable      = "SHARD-UNREADABLE"       // the file system refuses
	LinkOutside          = "LINK-OUTSIDE"           // a link leaves the model
	NotRegular           = "NOT-REGULAR"            // a pipe, device or directory where a file should be
	ConsolidatedShadow   = "CONSOLIDATED-SHADOW"    // Mistral's own file beside Hugging Face shards
	VariantOther         = "VARIANT-OTHER"          // another variant of the same weights beside them
	ConfigMalformed      = "CONFIG-MALFORMED"       // config.json is not JSON
)

// Problem is something wrong with the files of a checkpoint that did not keep
// the rest from being read.
type Problem struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	File     string   `json:"file,omitempty"`    // slash-separated, inside the model
	Tensors  []string `json:"tensors,omitempty"` // the tensors concerned, in natural order
	Message  string   `json:"message"`
	Repair   string   `json:"repair,omitempty"`
	// Err is set where a file could not be read at all: a *safetensors.Error or
	// an error of the file system.
	Err error `json:"-"`
}

// Unreadable reports whether the problem is an I/O error or a malformed file, as
// against a fault in how the files fit together.
func (p Problem) Unreadable() bool { return p.Err != nil }

// asError returns the problem as an error, for a file without which there is
// nothing to open.
func (p Problem) asError() error {
	if p.Err != nil {
		return p.Err
	}
	return errors.New(strings.Join([]string{quote(p.File), p.Message, p.Repair}, ": "))
}

// refused is a path that is not opened, with the code that says why.
type refused struct {
	code, path, why, repair string
}

func (r *refused) Error() string { return strings.Join([]string{quote(r.path), r.why, r.repair}, ": ") }
