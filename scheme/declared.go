package scheme

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// Declared is what the configuration says about quantization. Engines read it
// and believe it.
type Declared struct {
	Where   string   `json:"where,omitempty"`   // config.json, its text_config, or hf_quant_config.json
	Method  string   `json:"method,omitempty"`  // quant_method, or modelopt
	Formats []string `json:"formats,omitempty"` // compressed-tensors formats of the groups, or ModelOpt's quant_algo
	status  string
}

// Codes of the problems that a survey adds.
const (
	FormatDisagrees = "CT-FORMAT" // the declared format is unknown, or is not what is stored
	MethodMissing   = "QMETHOD"   // codes without a configuration, or the reverse
)

// formats are those of compressed-tensors 0.19.0 (config/base.py).
var formats = []string{"dense", "int-quantized", "float-quantized", "naive-quantized", "pack-quantized", "nvfp4-pack-quantized",
	"mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision", "sparse-bitmask", "sparse-24-bitmask", "marlin-24"}

// hidden are formats that the tensors do not show: none, or one of the sparse
// ones, which nobody writes any more.
var hidden = []string{"dense", "sparse-bitmask", "sparse-24-bitmask", "marlin-24"}

// detected begin the methods whose codes Detect knows when it sees them. The zoo
// of the others (quark, torchao, hqq, aqlm and so on) is not judged.
var detected = []string{CompressedTensors, ModelOpt, BlockFP8, GPTOSS, GPTQ, AWQ}

type quantBlock struct {
	Method string `json:"quant_method"`
	Format string `json:"format"`
	Status string `json:"quantization_status"`
	Algo   string `json:"quant_algo"`
	// A scheme, or the targets of the preset that gives the group its name.
	Groups map[string]json.RawMessage `json:"config_groups"`
}

// readDeclared finds the block in the order in which vLLM looks for it
// (transformers_utils/config.py: get_config, at 017e9f44).
func readDeclared(c *checkpoint.Checkpoint) Declared {
	var cfg struct {
		Quant       json.RawMessage `json:"quantization_config"`
		Compression json.RawMessage `json:"compression_config"`
		Text        struct {
			Quant       json.RawMessage `json:"quantization_config"`
			Compression json.RawMessage `json:"compression_config"`
		} `json:"text_config"`
	}
	json.Unmarshal(c.Config(), &cfg) // checkpoint reports a config that is not JSON
	if d, ok := declared("config.json", cfg.Quant); ok {
		return d
	}
	if text, err := c.ReadFile("hf_quant_config.json"); err == nil {
		var legacy struct {
			Quantization json.RawMessage `json:"quantization"`
		}
		json.Unmarshal(text, &legacy)
		block := legacy.Quantization
		if block == nil {
			block = text
		}
		if d, ok := declared("hf_quant_config.json", block); ok {
			d.Method = cmp.Or(d.Method, ModelOpt)
			return d
		}
	}
	for _, b := range []struct {
		where string
		block json.RawMessage
	}{{"config.json", cfg.Compression}, {"config.json text_config", cfg.Text.Quant}, {"config.json text_config", cfg.Text.Compression}} {
		if d, ok := declared(b.where, b.block); ok {
			return d
		}
	}
	return Declared{}
}

func declared(where string, block json.RawMessage) (Declared, bool) {
	var q quantBlock
	if len(block) == 0 || bytes.Equal(block, []byte("null")) || json.Unmarshal(block, &q) != nil {
		return Declared{}, false
	}
	d := Declared{Where: where, Method: strings.ReplaceAll(strings.ToLower(q.Method), "_", "-"), status: q.Status}
	set := map[string]bool{}
	for _, text := range q.Groups {
		var g struct {
			Format string `json:"format"`
		}
		json.Unmarshal(text, &g) // a list of targets has no format
		set[cmp.Or(g.Format, q.Format)] = true
	}
	if len(q.Groups) == 0 {
		set[cmp.Or(q.Format, q.Algo)] = true
	}
	if strings.HasPrefix(d.Method, ModelOpt) { // or modelopt_fp4, modelopt_mixed
		set = map[string]bool{q.Algo: true}
	}
	delete(set, "")
	d.Formats = slices.Sorted(maps.Keys(set))
	return d, true
}

// containerFormat names what was detected as configurations name it.
func containerFormat(d Detected) string { return strings.TrimSpace(d.Container + " " + d.Format) }

// disagree compares the configuration with the formats found in the tensors.
func (d Declared) disagree(found map[string]int) []checkpoint.Problem {
	var out []checkpoint.Problem
	looks := cmp.Or(strings.Join(slices.Sorted(maps.Keys(found)), " and "), "unquantized weights")
	file, _, _ := strings.Cut(cmp.Or(d.Where, "config.json"), " ")
	unseen := d.status == "frozen" || slices.ContainsFunc(d.Formats, func(f string) bool { return slices.Contains(hidden, f) })
	known := slices.ContainsFunc(detected, func(m string) bool { return strings.HasPrefix(d.Method, m) })
	named := found[GPTQ] + found[AWQ] + found[BitsAndBytes] // their configuration has places of its own
	lacks := "no quantization_config"
	if d.Where != "" {
		lacks = "the quantization block names no quant_method"
	}
	switch {
	case d.Method == "" && len(found) > 0 && named == 0:
		return []checkpoint.Problem{{Code: MethodMissing, Severity: checkpoint.Fatal, File: file,
			Message: lacks + ", but the tensors look like " + looks + "; engines treat the model as unquantized",
			Repair:  "add the quantization_config that the quantizer wrote"}}
	case len(found) == 0 && (unseen || !known):
		return nil
	case len(found) == 0:
		return []checkpoint.Problem{{Code: MethodMissing, Severity: checkpoint.Corrupt, File: file,
			Message: fmt.Sprintf("the configuration says %q, but no tensor is quantized", d.Method),
			Repair:  "remove the quantization block, or restore the quantized weights"}}
	case d.Method != CompressedTensors:
		return nil
	}
	for _, f := range d.Formats {
		switch {
		case !slices.Contains(formats, f):
			out = append(out, checkpoint.Problem{Code: FormatDisagrees, Severity: checkpoint.Fatal, File: file,
				Message: fmt.Sprintf("format %q is unknown; the tensors look like %s", f, looks), Repair: "set the format that is stored"})
		case f != "mixed-precision" && !slices.Contains(hidden, f) && !stores(f, found):
			out = append(out, checkpoint.Problem{Code: FormatDisagrees, Severity: checkpoint.Fatal, File: file,
				Message: fmt.Sprintf("format %q is declared, but no tensor is stored so; the tensors look like %s", f, looks), Repair: "set the format that is stored"})
		}
	}
	return out
}

// stores reports whether a declared format is among those found. What is stored
// does not tell naive-quantized from the formats with activations, and a scale
// without dimensions, which is ModelOpt's, loads as one of [1] does.
func stores(format string, found map[string]int) bool {
	switch format {
	case "naive-quantized":
		return stores("float-quantized", found) || stores("int-quantized", found)
	case "float-quantized":
		return found[CompressedTensors+" "+format]+found[ModelOpt+" FP8"] > 0
	}
	return found[CompressedTensors+" "+format] > 0
}
