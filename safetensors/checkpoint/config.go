package checkpoint

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ckpt-surgery/ckpt/internal/rawjson"
)

// maxConfig bounds a JSON file beside the weights. config.json is a few
// kilobytes; a quantization block that lists every module, a few megabytes.
const maxConfig = 64 << 20

// Config returns the text of config.json, or nil if the model has none or it
// could not be read. Python's NaN and Infinity, which are no JSON, are replaced
// by digits, so that it can be parsed; what is written back is edited from the
// file itself.
func (c *Checkpoint) Config() []byte { return c.config }

// ReadFile reads a small file beside the weights, such as hf_quant_config.json,
// under the policy for links.
func (c *Checkpoint) ReadFile(name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return c.pool.readFile(name, maxConfig)
}

func (c *Checkpoint) readConfig() {
	text, err := c.ReadFile("config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil && bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		err = errors.New("not JSON: it begins with a byte order mark, which Python's json refuses")
	}
	if err == nil {
		text = []byte(rawjson.Strict(text))
		if !jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) {
			err = errors.New("not JSON")
		}
	}
	if err != nil {
		c.report(Problem{Code: ConfigMalformed, Severity: Fatal, File: "config.json", Message: err.Error(), Err: err,
			Repair: "restore config.json from the source model"})
		return
	}
	c.config = text
}
