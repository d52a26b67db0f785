package checkpoint

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxConfig bounds a JSON file beside the weights. config.json is a few
// kilobytes; a quantization block that lists every module, a few megabytes.
const maxConfig = 64 << 20

// Config returns the text of config.json, or nil if the model has none or it
// could not be read. Python's NaN and Infinity, which are no JSON, are replaced
// by null.
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
	if err == nil {
		text = strictJSON(text)
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

// strictJSON replaces the literals that Python's json.dump writes for numbers
// JSON does not have.
func strictJSON(text []byte) []byte {
	s := string(text)
	if !strings.Contains(s, "Infinity") && !strings.Contains(s, "NaN") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == '"' {
			end := i + 1
			for end < len(s) && s[end] != '"' {
				if s[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(s))
			b.WriteString(s[i:end])
			i = end
			continue
		}
		word := ""
		for _, w := range []string{"-Infinity", "Infinity", "NaN"} {
			if strings.HasPrefix(s[i:], w) {
				word = w
				break
			}
		}
		if word != "" {
			b.WriteString("null")
			i += len(word)
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return []byte(b.String())
}
